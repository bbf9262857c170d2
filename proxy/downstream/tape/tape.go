package tape

import (
	"context"
	"errors"
	"sync"
)

// ErrFull says that a tape has given up its beginning, so that it cannot be played.
var ErrFull = errors.New("tape: the beginning of the answer is not kept any more")

// An End is how an answer ended.
type End struct {
	// Whole is the JSON object that is all of it; nil for a stream.
	Whole []byte
	// Text is what ends a stream, of an answer that failed too.
	Text []byte
	// Err is what it failed of.
	Err error
}

// A Tape keeps one answer: stretches of text, each of whole events. Create it with New; it is safe for
// concurrent use.
type Tape struct {
	limit int
	lost  func()

	mu      sync.Mutex // guards what follows
	first   *block     // nil once the beginning is given up
	last    *block
	size    int
	players int
	end     *End
	more    chan struct{} // closed when something is added; nil while nobody waits
}

// block is a part of a tape, of whole events. What is in it does not move or change
// any more.
type block struct {
	text []byte
	next *block
}

// blockSize is the room of a block, unless one stretch needs more, in bytes.
const blockSize = 16 << 10

// New returns an empty tape that keeps at most limit bytes. When they are used up,
// lost is called once, by who writes.
func New(limit int, lost func()) *Tape {
	b := &block{}
	return &Tape{limit: limit, lost: lost, first: b, last: b}
}

// Add adds a stretch of whole events. It does not keep text.
func (t *Tape) Add(text []byte) {
	t.mu.Lock()
	full := t.grow(len(text))
	if t.last != nil {
		t.put(text)
		t.wake()
	}
	t.mu.Unlock()
	if full {
		t.lost()
	}
}

// put copies text into the last block, or a new one. The caller holds mu, as for all
// in lower case.
func (t *Tape) put(text []byte) {
	b := t.last
	if len(b.text)+len(text) > cap(b.text) {
		b.next = &block{text: make([]byte, 0, max(blockSize, len(text)))}
		b, t.last = b.next, b.next
	}
	b.text = append(b.text, text...)
}

// grow counts n more bytes, and gives the beginning up when they are too many. It
// reports whether it did.
func (t *Tape) grow(n int) bool {
	t.size += n
	if t.first == nil || t.size <= t.limit {
		return false
	}
	t.first = nil
	if t.players == 0 {
		t.last = nil
	}
	return true
}

// Finish adds the end. Only the first counts.
func (t *Tape) Finish(e End) {
	t.mu.Lock()
	full := false
	if t.end == nil {
		full = t.grow(len(e.Whole) + len(e.Text))
		t.end = &e
		t.wake()
	}
	t.mu.Unlock()
	if full {
		t.lost()
	}
}

func (t *Tape) wake() {
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
}

// Err is what the answer has failed of, nil if it has not.
func (t *Tape) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end == nil {
		return nil
	}
	return t.end.Err
}

// Size is how much has been added, in bytes.
func (t *Tape) Size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size
}

// An Ear is where a tape is played to: Say takes whole events, which go out with the
// next Flush. An error of either ends the playing.
type Ear interface {
	Say(text []byte) error
	Flush() error
}

// A Player is one playing of a tape from its beginning.
type Player struct {
	tape *Tape
	at   *block
	from int // in at.text
}

// Open begins to play. Close has to be called. The error is ErrFull.
func (t *Tape) Open() (*Player, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == nil {
		return nil, ErrFull
	}
	t.players++
	return &Player{tape: t, at: t.first}, nil
}

// Close ends the playing.
func (p *Player) Close() {
	t := p.tape
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.players--; t.players == 0 && t.first == nil {
		t.last = nil
	}
}

// Play plays to ear until the answer has ended. The error is that of ear, or the
// cause of ctx.
func (p *Player) Play(ctx context.Context, ear Ear) (End, error) {
	for {
		text, end, more := p.next()
		switch {
		case len(text) > 0:
			if err := ear.Say(text); err != nil {
				return End{}, err
			}
			continue
		case end != nil:
			return *end, nil
		}
		if err := ear.Flush(); err != nil {
			return End{}, err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return End{}, context.Cause(ctx)
		}
	}
}

// next returns what follows in the block at hand; or else the end, if there is one;
// or else what is closed when there is more.
func (p *Player) next() (text []byte, end *End, more chan struct{}) {
	t := p.tape
	t.mu.Lock()
	defer t.mu.Unlock()
	for p.from == len(p.at.text) && p.at.next != nil {
		p.at, p.from = p.at.next, 0
	}
	if to := len(p.at.text); p.from < to {
		text = p.at.text[p.from:to:to]
		p.from = to
		return text, nil, nil
	}
	if t.end != nil {
		return nil, t.end, nil
	}
	if t.more == nil {
		t.more = make(chan struct{})
	}
	return nil, nil, t.more
}
