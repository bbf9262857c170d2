package split

import (
	"oneslot/internal/openai"
	"oneslot/reasoning"
)

// A Piece is text for one channel of the client's answer.
type Piece struct {
	// Kind is the channel.
	Kind reasoning.Kind
	// Text is never empty, unless the text is verbatim and the probabilities are
	// those of half a character.
	Text string
	// Logprobs is the logprobs object that goes with the text, as raw JSON, or
	// empty. Only answer pieces have one.
	Logprobs string
}

// Config says how a stream is to be read.
type Config struct {
	// Format names the markers.
	Format *reasoning.Format
	// Start is where the text begins.
	Start reasoning.State
	// Echo and EchoThinking are the text and the thinking of a prefill that the
	// engine repeats. Zero means none.
	Echo, EchoThinking string
	// Stop are the strings that end the answer. Zero means none.
	Stop []string
	// Logprobs is whether token probabilities are to be passed on.
	Logprobs bool
	// Verbatim says that all text is answer and passes as it comes, with its token
	// probabilities; nothing else of the Config then counts.
	Verbatim bool
}

// mode is who splits.
type mode uint8

const (
	undecided mode = iota
	byParser
	byEngine
	byNobody
)

// A Splitter reads one stream. Create it with New.
type Splitter struct {
	mode   mode
	lead   string // blank content that came before it was known who splits
	parser *reasoning.Parser
	edges  edges
	stop   stopper
	probs  probs
	raw    int // bytes of content so far, without the echo
	opener int // length of the longest opener of a tool call

	echo, echoThinking echo
	thinking, content  string // of the latest chunk, without the echo

	out  []Piece
	emit func(reasoning.Kind, string)
}

// New returns a Splitter for one stream.
func New(cfg Config) *Splitter {
	s := &Splitter{
		parser:       reasoning.New(cfg.Format, cfg.Start),
		edges:        newEdges(cfg.Format, cfg.Start),
		stop:         stopper{stops: cfg.Stop},
		probs:        newProbs(cfg.Format, cfg.Logprobs),
		echo:         echo{rest: cfg.Echo},
		echoThinking: echo{rest: cfg.EchoThinking},
	}
	if cfg.Verbatim {
		s.mode = byNobody
	}
	for _, opener := range cfg.Format.ToolOpen {
		s.opener = max(s.opener, len(opener))
	}
	s.emit = s.put
	return s
}

// Add reads one chunk. The result is valid until the next call.
func (s *Splitter) Add(c *openai.Chunk) []Piece {
	s.out = s.out[:0]
	if s.mode == byNobody {
		return s.pass(c)
	}
	if c.Reasoning != "" && s.mode != byEngine {
		s.yield()
	}
	s.read(s.echoThinking.strip(c.Reasoning), s.echo.strip(c.Content), c.Logprobs)
	return s.out
}

// pass takes a chunk as it comes.
func (s *Splitter) pass(c *openai.Chunk) []Piece {
	s.thinking, s.content = "", c.Content
	if c.Content != "" || c.Logprobs != "" {
		s.out = append(s.out, Piece{Kind: reasoning.Answer, Text: c.Content, Logprobs: c.Logprobs})
	}
	return s.out
}

// yield lets the engine split from here on.
func (s *Splitter) yield() {
	if s.mode == byParser {
		s.feed(s.parser.Close())
	}
	// Blanks before the thinking touch its opener, so lead is dropped.
	s.mode, s.lead = byEngine, ""
}

func (s *Splitter) read(thinking, content, logprobs string) {
	s.thinking, s.content = thinking, content
	s.align(logprobs)
	if thinking != "" {
		s.edges.thinking(thinking, s.emit)
	}
	switch {
	case content == "":
	case s.mode == byEngine:
		s.edges.answer(content, s.emit)
	case s.mode == undecided && isBlank(content):
		s.lead += content
	default:
		s.mode = byParser
		content, s.lead = s.lead+content, ""
		s.feed(s.parser.Feed(content))
		if s.parser.Phase() == reasoning.Thinking {
			// The boundary is yet to come, or a tool call's opener has begun.
			s.probs.forget(s.raw + len(s.content) - s.opener)
		}
	}
	s.raw += len(s.content)
}

func (s *Splitter) feed(segments []reasoning.Segment) {
	for _, seg := range segments {
		s.put(seg.Kind, seg.Text)
	}
}

// align takes the probabilities of the chunk. Where the engine splits, those of
// its thinking are not looked at.
func (s *Splitter) align(logprobs string) {
	switch {
	case s.probs.idle():
	case s.mode == byEngine && s.thinking != "":
		s.probs.restart()
		if s.content != "" {
			s.probs.fail() // they are of both
		}
	case logprobs != "" || s.content != "":
		s.probs.add(logprobs, s.content, s.mode != byEngine)
	}
}

// Close returns what was held back. Add must not be called after it.
func (s *Splitter) Close() []Piece {
	s.out = s.out[:0]
	if s.mode == byNobody {
		s.thinking, s.content = "", ""
		return nil
	}
	s.read(s.echoThinking.close(), s.echo.close(), "")
	if s.mode == byEngine {
		s.edges.close(s.emit)
	} else {
		s.feed(s.parser.Feed(s.lead))
		s.feed(s.parser.Close())
	}
	s.lead = ""
	if text := s.stop.close(); text != "" {
		s.answer(text)
	}
	return s.out
}

// put takes classified text; answer text passes the stop strings.
func (s *Splitter) put(kind reasoning.Kind, text string) {
	if kind == reasoning.Thinking {
		if !s.Stopped() {
			s.out = append(s.out, Piece{Kind: kind, Text: text})
		}
		return
	}
	if text = s.stop.feed(text); text != "" {
		s.answer(text)
	}
}

func (s *Splitter) answer(text string) {
	boundary, _ := s.Boundary()
	s.out = append(s.out, Piece{Kind: reasoning.Answer, Text: text, Logprobs: s.probs.take(text, boundary)})
}

// Text returns the thinking and the content of the latest chunk without what was
// only the echo of a prefill.
func (s *Splitter) Text() (thinking, content string) { return s.thinking, s.content }

// Own reports whether the parser splits, so that the content of a chunk is raw.
func (s *Splitter) Own() bool { return s.mode < byEngine }

// Boundary returns the length in bytes of the raw text up to and including the
// close marker, once thinking has ended in a stream that the parser splits.
func (s *Splitter) Boundary() (int, bool) {
	if s.mode != byParser {
		return 0, false
	}
	return s.parser.Boundary()
}

// Stopped reports whether a stop string has ended the answer.
func (s *Splitter) Stopped() bool { return s.stop.met != "" }

// Stop is the stop string that has ended the answer; empty if none has.
func (s *Splitter) Stop() string { return s.stop.met }

// Aligned reports whether every token probability so far could be aligned with
// its text.
func (s *Splitter) Aligned() bool { return !s.probs.broken }

// Phase is the channel in which the next text would land.
func (s *Splitter) Phase() reasoning.Kind {
	if s.mode == byNobody {
		return reasoning.Answer
	}
	if s.mode == byEngine {
		if s.edges.answering() {
			return reasoning.Answer
		}
		return reasoning.Thinking
	}
	return s.parser.Phase()
}
