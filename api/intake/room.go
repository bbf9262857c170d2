package intake

import (
	"cmp"
	"errors"
	"net/http"
	"sync"
	"time"
)

var (
	// ErrFull says that the bodies of all take what there is for them.
	ErrFull = errors.New("intake: the bodies of all requests take the room there is")
	// ErrKeyFull says that the bodies of one key take what there is for it.
	ErrKeyFull = errors.New("intake: the bodies of this key's requests take the room there is for one key")
	// ErrTooLarge says that a body is larger than one may be.
	ErrTooLarge = errors.New("intake: the body is too large")
	// ErrSlow says that a body did not come in time.
	ErrSlow = errors.New("intake: the body came too slowly")
	// ErrClosed says that the program stops, and the body was still coming.
	ErrClosed = errors.New("intake: the program stops, and the body was still coming")
)

// Config bounds bodies.
type Config struct {
	// Body is the largest body in bytes. Zero means 32 MiB.
	Body int64
	// Total is how many bytes of bodies may be held, of all keys. Zero means 256 MiB.
	Total int64
	// PerKey is the same of one key; who has none shares Total with all. Zero means a
	// quarter of Total, but at least Body.
	PerKey int64
	// Patience is what a body has to arrive in, however small. Zero means 10 s.
	Patience time.Duration
	// Pace is for how many bytes it has a second more. Zero means 8 KiB.
	Pace int64
	// Time bounds it whatever comes. Zero means 60 s.
	Time time.Duration
}

func (c Config) withDefaults() Config {
	c.Body = cmp.Or(c.Body, 32<<20)
	c.Total = cmp.Or(c.Total, 256<<20)
	c.PerKey = cmp.Or(c.PerKey, max(c.Total/4, c.Body))
	c.Patience = cmp.Or(c.Patience, 10*time.Second)
	c.Pace = cmp.Or(c.Pace, 8<<10)
	c.Time = cmp.Or(c.Time, time.Minute)
	return c
}

// A Room is the memory for bodies. Create it with New; it is safe for concurrent use.
type Room struct {
	cfg Config

	mu      sync.Mutex // guards what follows
	held    int64
	byKey   map[string]int64
	reading map[*Body]struct{}
	closed  bool
}

// New returns an empty Room.
func New(cfg Config) *Room {
	return &Room{cfg: cfg.withDefaults(), byKey: map[string]int64{}, reading: map[*Body]struct{}{}}
}

// Config is what holds, with the defaults filled in.
func (r *Room) Config() Config { return r.cfg }

// Held is how many bytes are reserved.
func (r *Room) Held() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// Open begins with the body of a request, whose time starts. It returns nil, which
// is a body too, for a request that has none. The caller owes a call of Close.
func (r *Room) Open(w http.ResponseWriter, req *http.Request) *Body {
	if req.ContentLength == 0 {
		return nil
	}
	b := &Body{room: r, req: req, control: http.NewResponseController(w), patience: r.cfg.Patience, began: time.Now()}
	b.extend()
	return b
}

// Close gives the bodies that are being read, and those that come, one second more.
func (r *Room) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for b := range r.reading {
		b.hurry()
	}
}

// enter makes a body known to Close, and to one that has been.
func (r *Room) enter(b *Body) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading[b] = struct{}{}
	if r.closed {
		b.hurry()
	}
}

func (r *Room) leave(b *Body) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reading, b)
}

// reserve takes n bytes more for a key.
func (r *Room) reserve(key string, n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case key != "" && r.byKey[key]+n > r.cfg.PerKey:
		return ErrKeyFull
	case r.held+n > r.cfg.Total:
		return ErrFull
	}
	r.held += n
	r.byKey[key] += n
	return nil
}

func (r *Room) release(key string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= n
	if r.byKey[key] -= n; r.byKey[key] <= 0 {
		delete(r.byKey, key)
	}
}
