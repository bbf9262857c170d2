package retry

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream/tape"
)

// Config bounds what is kept for retries.
type Config struct {
	// Grace is how long a lost client's place or run is kept, and then its answer.
	// Zero means that nothing outlives its connections.
	Grace time.Duration
	// Answer is how much of an answer is kept, in bytes. Zero means 8 MiB.
	Answer int
	// Kept is how many answers are kept after their end. Zero means 64.
	Kept int
	// Bytes is how much they may hold together. Zero means 64 MiB.
	Bytes int
	// Final reports whether a retry of what failed of err gets the same error, rather
	// than another try. Zero means that it never does.
	Final func(err error) bool
	// Visits is how many connections may be on one request. Zero means 8.
	Visits int
}

func (c Config) withDefaults() Config {
	c.Answer = cmp.Or(c.Answer, 8<<20)
	c.Kept = cmp.Or(c.Kept, 64)
	c.Bytes = cmp.Or(c.Bytes, 64<<20)
	c.Visits = cmp.Or(c.Visits, 8)
	return c
}

// A Book knows the requests that may be repeated. Create it with New; it is safe for
// concurrent use.
type Book struct {
	cfg Config

	mu     sync.Mutex // guards what follows, and the fields of sessions and visits
	byKey  map[name]*Session
	byBody map[[32]byte][]*Session // those without a key
	byName map[string][]*Session   // those that are being answered
	kept   []*Session              // answers that have ended, the oldest first
	bytes  int                     // of kept
	closed bool
}

// name is what an Idempotency-Key names.
type name struct{ caller, key string }

// New returns an empty Book.
func New(cfg Config) *Book {
	return &Book{cfg: cfg.withDefaults(), byKey: map[name]*Session{}, byBody: map[[32]byte][]*Session{}, byName: map[string][]*Session{}}
}

// Meet brings a request together with the one that it repeats, if there is one. The
// visit is nil for a request that repeats none and will not be repeated. Of others
// the caller owes, if the visit follows, a call of Leave, and else one of End. id
// names the request if it is new; ctx lends it its values. The error is an
// *openai.Problem.
func (b *Book) Meet(ctx context.Context, ask Ask, id string) (*Visit, error) {
	if !ask.Matters() {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.find(&ask)
	if s != nil && !b.repeats(s.tape.Err()) {
		b.unlist(s)
		s = nil
	}
	switch {
	case s != nil:
		return b.join(s, ask)
	case ask.Key == "" && (!ask.Patience.Known() || b.cfg.Grace == 0) || b.closed:
		return nil, nil
	}
	s = &Session{book: b, id: id, ask: ask, ready: make(chan struct{}), done: make(chan struct{}), present: 1}
	s.wanted, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.tape = tape.New(b.cfg.Answer, s.overflow)
	b.list(s)
	b.begun(s)
	return &Visit{session: s, ask: ask}, nil
}

// find looks for what a request repeats: by its key, or else, where a library says
// that it asks again, by what it asks, among those whose client is lost. Two callers
// who ask the same at a time are not one.
func (b *Book) find(ask *Ask) *Session {
	if ask.Key != "" {
		return b.byKey[name{ask.Caller, ask.Key}]
	}
	if ask.Again {
		for _, s := range b.byBody[ask.Body] {
			if s.ask.Caller == ask.Caller && s.present == 0 {
				return s
			}
		}
	}
	return nil
}

// repeats reports whether an answer that failed of err, or has not, is for retries
// as well.
func (b *Book) repeats(err error) bool {
	return err == nil || b.cfg.Final != nil && b.cfg.Final(err)
}

// join lets a request in to the one that it repeats.
func (b *Book) join(s *Session, ask Ask) (*Visit, error) {
	if s.ask.Body != ask.Body {
		return nil, reused()
	}
	player, err := s.tape.Open()
	if err != nil {
		return nil, inUse("Its answer has grown too large to be sent a second time. Wait for it, or use another key.")
	}
	if s.present >= b.cfg.Visits {
		player.Close()
		return nil, inUse("Too many connections wait for its answer.")
	}
	s.present++
	if !s.over {
		s.halt()
	}
	return &Visit{session: s, ask: ask, player: player}, nil
}

func reused() *openai.Problem {
	return &openai.Problem{
		Status: http.StatusUnprocessableEntity, Type: "invalid_request_error", Code: "idempotency_key_reused", Header: map[string]string{"X-Should-Retry": "false"},
		Message: "This Idempotency-Key was used for another request body a short time ago. Use a new key for a new request.",
	}
}

func inUse(why string) *openai.Problem {
	return &openai.Problem{
		Status: http.StatusConflict, Type: "invalid_request_error", Code: "idempotency_key_in_use", Header: map[string]string{"Retry-After": "10"},
		Message: "A request with this Idempotency-Key is being answered. " + why,
	}
}

func (b *Book) list(s *Session) {
	s.listed = true
	if s.ask.Key != "" {
		b.byKey[name{s.ask.Caller, s.ask.Key}] = s
		return
	}
	b.byBody[s.ask.Body] = append(b.byBody[s.ask.Body], s)
}

// unlist forgets a session: nobody finds it any more.
func (b *Book) unlist(s *Session) {
	if !s.listed {
		return
	}
	s.listed = false
	s.halt()
	if s.ask.Key != "" {
		delete(b.byKey, name{s.ask.Caller, s.ask.Key})
	} else if rest := without(b.byBody[s.ask.Body], s); len(rest) > 0 {
		b.byBody[s.ask.Body] = rest
	} else {
		delete(b.byBody, s.ask.Body)
	}
	if n := len(b.kept); s.over && n > 0 {
		if b.kept = without(b.kept, s); len(b.kept) < n {
			b.bytes -= s.tape.Size()
		}
	}
	s.settle()
}

func without(list []*Session, s *Session) []*Session {
	var rest []*Session
	for _, other := range list {
		if other != s {
			rest = append(rest, other)
		}
	}
	return rest
}

// keep keeps an answer that has ended, and gives up the oldest for it.
func (b *Book) keep(s *Session) {
	b.kept = append(b.kept, s)
	b.bytes += s.tape.Size()
	s.timer = time.AfterFunc(b.cfg.Grace, s.expire)
	for len(b.kept) > b.cfg.Kept || b.bytes > b.cfg.Bytes {
		b.unlist(b.kept[0])
	}
}

// Close ends the waiting for clients that may come back. Requests whose clients are
// there go on.
func (b *Book) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	var lost []*Session
	for _, s := range b.byKey {
		lost = append(lost, s)
	}
	for _, list := range b.byBody {
		lost = append(lost, list...)
	}
	for _, s := range lost {
		if s.present == 0 {
			s.drop()
		}
	}
}
