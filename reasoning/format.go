package reasoning

import "errors"

// ErrFormat is the class of all errors of this package: a format, or a value of
// one, that cannot be used.
var ErrFormat = errors.New("reasoning: bad format")

// Format describes how one family of models writes thinking. It is plain data,
// usually a row of a YAML file. The zero Format has no markers: every byte is
// answer.
type Format struct {
	// Name is what a configuration calls the format. It is required.
	Name string `yaml:"name" json:"name"`
	// Open lists the spellings of the marker that begins thinking. A format
	// without one has thinking only where the prompt opens it.
	Open []string `yaml:"open,omitempty" json:"open,omitempty"`
	// Close lists the spellings of the marker that ends thinking. It is required
	// for a format that thinks.
	Close []string `yaml:"close,omitempty" json:"close,omitempty"`
	// StartsIn is where a stream begins after the model's own template:
	// StartThinking if the template opens thinking, StartAnswer if the model does,
	// StartAuto if either may. It is required with Open or Close.
	StartsIn State `yaml:"starts_in,omitempty" json:"starts_in,omitempty"`
	// Otherwise is where StartAuto goes when the first visible text is no opener:
	// StartThinking or StartAnswer. Zero means StartAnswer.
	Otherwise State `yaml:"otherwise,omitempty" json:"otherwise,omitempty"`
	// ToolOpen lists what may begin a tool call before thinking is closed; it
	// ends thinking and stays in the answer. Zero means that nothing does, and
	// that a tool call inside thinking is text.
	ToolOpen []string `yaml:"tool_open,omitempty" json:"tool_open,omitempty"`
	// ConstrainedStartsIn is where a stream begins when the output is constrained
	// to a grammar or to JSON. Zero means StartAnswer.
	ConstrainedStartsIn State `yaml:"constrained_starts_in,omitempty" json:"constrained_starts_in,omitempty"`
	// Channels replaces the markers above, for a family whose text is a sequence
	// of messages that each name their channel. Open and Close are then only how
	// thinking is spelled out where it is written into text or counted, and
	// OffPrefill what leads from there into the answer. Nil means that the text
	// has no channels.
	Channels *Channels `yaml:"channels,omitempty" json:"channels,omitempty"`
	// History is what becomes of the thinking of earlier turns. Zero means
	// HistoryKeep.
	History History `yaml:"history,omitempty" json:"history,omitempty"`
	// MarkersSpecial says that the markers are special tokens of the model's
	// vocabulary, which an engine leaves out of the text unless it is asked not
	// to. Zero means that they are ordinary text.
	MarkersSpecial bool `yaml:"markers_special,omitempty" json:"markers_special,omitempty"`
	// ControlTokens lists further special tokens that then show up in the text
	// and are removed from it. It needs MarkersSpecial. Zero means none.
	ControlTokens []string `yaml:"control_tokens,omitempty" json:"control_tokens,omitempty"`
	// OffPrefill is what closes thinking when a run is continued after it: a
	// spelling of Close and whatever the template writes behind it. Where the
	// model opens thinking itself, an opener must stand before it. Zero means
	// that thinking cannot be cut short this way.
	OffPrefill string `yaml:"off_prefill,omitempty" json:"off_prefill,omitempty"`
	// Temperature is sent when the client names none, 0 to 2. Nil means that
	// nothing is sent and the engine's default holds.
	Temperature *float64 `yaml:"temperature,omitempty" json:"temperature,omitempty"`
	// Verified says that the markers are known to be what the family writes:
	// read from its template, its tokenizer, its maker's documents or an engine's
	// parser for it. Zero means that they are an assumption.
	Verified bool `yaml:"verified,omitempty" json:"verified,omitempty"`
}

// Channels are the markers of a format in which each message has a header:
//
//	Start role Channel name … Message text End
//
// The first header may begin in its middle, since the prompt may hold a part of
// it.
type Channels struct {
	// Start lists what begins a header. Zero means that Channel does.
	Start []string `yaml:"start,omitempty" json:"start,omitempty"`
	// Channel lists what stands before the name; it begins a header too where
	// Start was left out. It is required.
	Channel []string `yaml:"channel" json:"channel"`
	// Message lists what ends a header. It is required.
	Message []string `yaml:"message" json:"message"`
	// End lists what ends a message. It counts where a header, another one, or the
	// end of the stream follows; else it is text.
	End []string `yaml:"end,omitempty" json:"end,omitempty"`
	// Thinking lists the names of the channels that are thinking; all others are
	// answer. It is required.
	Thinking []string `yaml:"thinking" json:"thinking"`
	// Last lists the names of the channels that end a reply: what follows is text,
	// whatever it looks like. Zero means none.
	Last []string `yaml:"last,omitempty" json:"last,omitempty"`
	// Recipient lists what names the recipient of a tool call, after white space
	// or a marker of the header. Such a message is answer whatever its channel, and
	// stays whole, header and end included. Zero means that there are no tool calls.
	Recipient []string `yaml:"recipient,omitempty" json:"recipient,omitempty"`
}
