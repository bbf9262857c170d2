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
	// EngineOmits is the number of marker tokens that the engine's own thinking
	// figure leaves out: vLLM counts the text between the markers. Zero means
	// that it includes them, as SGLang's does.
	EngineOmits int
	// CacheOff says that the engine's prefix cache is known to be off. Zero
	// means unknown or on.
	CacheOff bool
	// CacheTold says that the engine tells cached tokens whenever there are some,
	// so that a complete answer without such a figure had none. Zero means that it
	// may tell nothing.
	CacheTold bool
}

// Piece is what one event of the engine's stream brought. Text and Totals of
// one event belong into one Piece, since the totals include that text.
type Piece struct {
	// Raw is text as the model wrote it, markers included, when the proxy
	// splits it. Until Boundary is called it counts as thinking.
	Raw string
	// Thinking and Answer are text that the engine has already split. Text that
	// is never split is Answer.
	Thinking, Answer string
	// Tool says that a piece of a tool call came, which ends the thinking.
	Tool bool
	// EndToken says that the engine told of an end-of-turn token: a finish
	// "stop" with an integer matched_stop (SGLang) or a null stop_reason (vLLM).
	// It is added only to counts of our own.
	EndToken bool
	// Totals is the engine's usage in this event. Zero means none.
	Totals *Totals
}

// Meter adds up one request, which may be made of several engine runs.
type Meter struct {
	cfg    Config
	runs   []run // the last one is current
	finish string
	// ownPrompt and ownCached are what Expect was told.
	ownPrompt, ownCached Count
}

// NewMeter returns a Meter for one request.
func NewMeter(cfg Config) *Meter {
	return &Meter{cfg: cfg, runs: []run{{boundary: -1}}}
}

func (m *Meter) run() *run { return &m.runs[len(m.runs)-1] }

// Add takes what one event brought. It does not keep p.Totals.
func (m *Meter) Add(p Piece) { m.run().add(&p, &m.cfg) }

// Boundary says that the thinking ended after the first n bytes of the run's
// Raw text, close marker included, and that the rest is answer. 0 means that
// the text has no thinking. It may be called before or after the Add that
// brings the last of these bytes; the first call of a run counts.
//
// For text that the engine splits the boundary shows by itself. There a call
// is only needed where the proxy cuts the thinking short; n then counts the
// bytes of Thinking.
func (m *Meter) Boundary(n int) {
	r := m.run()
	if r.boundary >= 0 {
		return
	}
	if r.thought && m.cfg.OpenerGenerated {
		n += len(m.cfg.Open)
	}
	r.boundary, r.bySaying = max(n, 0), true
}

// NextRun says that the engine's run was cut and goes on in another one, whose
// prompt holds the thinking so far and whose text is all answer. Of the run
// before only what lies before its boundary is kept; without one, all of it.
func (m *Meter) NextRun() { m.runs = append(m.runs, run{}) }

// Expect takes an own count of the prompt, used where the engine tells none, and
// what a prefix model expects of the engine's cache, used where the engine tells
// nothing and nothing follows from its settings. The zero Count is none.
func (m *Meter) Expect(prompt, cached Count) { m.ownPrompt, m.ownCached = prompt, cached }

// Told returns the engine's own figures for the prompt and for its cached part.
func (m *Meter) Told() (prompt, cached Count) {
	t := &m.runs[0].totals
	return t.Prompt.count(), t.Cached.count()
}

// Written is what the current run has written as far as it is known, markers
// included. It is empty without a Counter.
func (m *Meter) Written() string { return string(m.run().text.buf) }

// Finish takes the reason the answer ended with. A run that was cut or broke
// has none.
func (m *Meter) Finish(reason string) { m.finish = reason }

// Progress is what is known while the answer runs.
type Progress struct {
	Prompt, Thinking, Answer Count
}

// bytesPerToken is what a token of text is taken to be long where nothing
// better is known.
const bytesPerToken = 4

// Progress returns the figures so far from the engine's running totals, else
// estimates. It never asks the Counter and does not allocate.
func (m *Meter) Progress() Progress {
	p := Progress{Prompt: m.prompt(), Thinking: Count{Source: Engine}, Answer: Count{Source: Engine}}
	for i := range m.runs {
		thinking, answer := m.runs[i].progress()
		p.Thinking = plus(p.Thinking, thinking)
		if i == len(m.runs)-1 {
			p.Answer = plus(p.Answer, answer)
		}
	}
	return p
}

func (r *run) progress() (thinking, answer Count) {
	boundary, _ := r.end()
	total := Count{N: r.totals.Completion.N, Source: Engine}
	if !r.totals.Completion.Known {
		total = Count{N: (r.text.size + r.late.size + bytesPerToken - 1) / bytesPerToken, Source: Estimate}
	}
	if boundary == 0 {
		return Count{Source: total.Source}, total
	}
	if boundary >= r.text.size && !r.visible() {
		return total, Count{Source: total.Source}
	}
	s := splitter{run: r, total: total, boundary: boundary}
	thinking, _ = s.fromTotals()
	if !thinking.Known() {
		thinking = s.estimate()
	}
	return thinking, Count{N: total.N - thinking.N, Source: worse(total.Source, thinking.Source)}
}
