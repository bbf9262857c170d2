package split

import (
	"oneslot/internal/openai"
	"oneslot/reasoning"
)

// A Piece is text for one channel of the client's answer.
type Piece struct {
	// Kind is the channel.
	Kind reasoning.Kind
	// Text is never empty.
	Text string
	// Logprobs is the logprobs object that goes with the text, as raw JSON, or
	// empty. Only answer pieces have one.
	Logprobs string
}

// Config says how a stream is to be read.
type Config struct {
	// Format names the markers.
	Format *reasoning.Format
	// Start is the channel in which the text begins.
	Start reasoning.State
	// Echo is a prefill that the engine may repeat. Zero means none.
	Echo string
	// Stop are the strings that end the answer. Zero means none.
	Stop []string
	// Logprobs is whether token probabilities are to be passed on.
	Logprobs bool
}

// mode is who splits.
type mode uint8

const (
	undecided mode = iota
	byParser
	byEngine
)

// A Splitter reads one stream. Create it with New.
type Splitter struct {
	parser *reasoning.Parser
	edges  edges
	echo   echo
	stop   stopper
	probs  probs
	mode   mode
	out    []Piece
	answer bool // visible answer text has come out
	raw    int  // bytes given to the parser so far
}

// New returns a Splitter for one stream.
func New(cfg Config) *Splitter {
	return &Splitter{
		parser: reasoning.New(cfg.Format, cfg.Start),
		edges:  newEdges(cfg.Format),
		echo:   echo{rest: cfg.Echo},
		stop:   newStopper(cfg.Stop),
		probs:  probs{off: !cfg.Logprobs},
	}
}

// Add reads one chunk. The result is valid until the next call.
func (s *Splitter) Add(c *openai.Chunk) []Piece {
	s.out = s.out[:0]
	content := c.Content
	if c.Reasoning != "" {
		s.mode = byEngine
		s.edges.thinking(c.Reasoning, s.emit)
	}
	if content != "" {
		content = s.echo.strip(content)
	}
	if content == "" {
		return s.out
	}
	if s.mode == undecided {
		s.mode = byParser
	}
	if c.Logprobs != "" {
		s.probs.add(c.Logprobs, content, s.raw, c.Reasoning != "")
	}
	s.raw += len(content)
	if s.mode == byEngine {
		s.edges.answer(content, s.emit)
		return s.out
	}
	for _, seg := range s.parser.Feed(content) {
		s.emit(seg.Kind, seg.Text)
	}
	return s.out
}

// Close returns what was held back. Add must not be called after it.
func (s *Splitter) Close() []Piece {
	s.out = s.out[:0]
	if rest := s.echo.held; rest != "" && s.mode != byEngine {
		s.echo = echo{}
		for _, seg := range s.parser.Feed(rest) {
			s.emit(seg.Kind, seg.Text)
		}
	}
	for _, seg := range s.parser.Close() {
		s.emit(seg.Kind, seg.Text)
	}
	s.edges.close(s.emit)
	if text := s.stop.close(); text != "" {
		s.put(text)
	}
	return s.out
}

// emit takes classified text; answer text passes the stop strings.
func (s *Splitter) emit(kind reasoning.Kind, text string) {
	if kind == reasoning.Thinking {
		if !s.stop.met {
			s.out = append(s.out, Piece{Kind: kind, Text: text})
		}
		return
	}
	if text = s.stop.feed(text); text != "" {
		s.put(text)
	}
}

func (s *Splitter) put(text string) {
	s.answer = true
	boundary := 0
	if n, ok := s.parser.Boundary(); ok && s.mode == byParser {
		boundary = n
	}
	s.out = append(s.out, Piece{Kind: reasoning.Answer, Text: text, Logprobs: s.probs.take(text, boundary)})
}

// Own reports whether the parser splits, so that the text of a chunk is raw.
func (s *Splitter) Own() bool { return s.mode != byEngine }

// Boundary returns the length in bytes of the raw text up to and including the
// close marker, once thinking has ended in a stream that the parser splits.
func (s *Splitter) Boundary() (int, bool) {
	if s.mode != byParser {
		return 0, false
	}
	return s.parser.Boundary()
}

// Stopped reports whether a stop string has ended the answer.
func (s *Splitter) Stopped() bool { return s.stop.met }

// Phase is the channel in which the next text would land.
func (s *Splitter) Phase() reasoning.Kind {
	if s.mode == byEngine {
		if s.edges.answering {
			return reasoning.Answer
		}
		return reasoning.Thinking
	}
	return s.parser.Phase()
}
