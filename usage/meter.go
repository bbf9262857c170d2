package usage

import "context"

// Counter counts the tokens of a text with the model's own tokenizer: special
// tokens are recognised, no begin token is added. Count may be slow and may
// fail; it is asked a few times a request, never once a chunk.
type Counter interface {
	Count(ctx context.Context, text string) (int, error)
}

// Config says what a Meter can know beyond the stream.
type Config struct {
	// Counter counts text. Zero means none: figures then come from the engine
	// or are estimates.
	Counter Counter
	// Open and Close are the thinking markers, needed to count thinking that
	// the engine has split away together with its markers. Zero means unknown.
	Open, Close string
	// OpenerGenerated says that the model writes Open itself, so that it is a
	// part of the completion. Zero means the prompt ends with it.
	OpenerGenerated bool
	// CacheOff says that the engine's prefix cache is known to be off. Zero
	// means unknown or on.
	CacheOff bool
	// Prompt is an own count of the prompt, used where the engine tells none.
	// Zero means none.
	Prompt Count
	// Cached is what a prefix model expects of the engine's cache, used where
	// the engine tells nothing and CacheOff is not set. Zero means none.
	Cached Count
}

// Piece is what one event of the engine's stream brought.
type Piece struct {
	// Raw is text as the model wrote it, markers included, when the proxy
	// splits it.
	Raw string
	// Thinking and Answer are text that the engine has already split, and text
	// that is never split, which is Answer.
	Thinking, Answer string
	// Tool says that a piece of a tool call came.
	Tool bool
	// EndToken says that the engine told of an end-of-turn token: a finish
	// "stop" with an integer matched_stop (SGLang) or a null stop_reason (vLLM).
	// It is counted only where the engine gives no totals.
	EndToken bool
	// Totals is the engine's usage in this event. Zero means none.
	Totals *Totals
}
