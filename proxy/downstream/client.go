package downstream

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream/raw"
)

// Config says what a client hears, and when while there is nothing to say.
type Config struct {
	// Stream is whether the client wants events rather than one JSON object.
	Stream bool
	// Problem turns an error into what the client is told. It is required.
	Problem func(error) *openai.Problem
	// Voice words what is not the answer. Zero means Plain.
	Voice Voice
	// CommitAfter is how long the status line of a stream may be held back, so
	// that an early error still gets its own status. Zero means at once.
	CommitAfter time.Duration
	// Heartbeat is the longest silence. Zero means no heartbeats.
	Heartbeat time.Duration
	// Beat is what a heartbeat looks like.
	Beat Beat
	// WriteTimeout bounds each write, so that a client that stopped reading is
	// found. Zero means 30 s.
	WriteTimeout time.Duration
	// Lag is how long the end of a stream may wait for that of the response, so that one
	// write takes both: Flush and Release end that. Zero means that it is sent at once.
	Lag time.Duration
	// Parts has a caller who waits for longer go on without the server's goroutine and
	// buffers, where that can be: the handler asks Holds and calls Part. Zero means
	// that it stays to the end.
	Parts bool
	// Buffers are shared by clients. Zero means that this one has its own.
	Buffers *Buffers
	// Rounds is where signs of life are given together. Zero means that each client has
	// a timer for its own.
	Rounds *Rounds
	// Keep has the answer go on without its caller. No call fails then: what becomes
	// of an answer without a caller is for Keep.Wanted to say. Zero means that the
	// answer ends with its caller.
	Keep *Keeper
}

// A Client is the side of a request that faces the caller: it commits the
// status line when the first byte must go out, keeps the connection alive while
// there is nothing to say, and writes events or one JSON object.
//
// Ownership: whoever made it calls Release at the end (package api says who has a
// request); after that nothing is written. Between the two, its goroutine and the
// heartbeat timer write, one at a time.
type Client struct {
	cfg Config

	mu       sync.Mutex      // guards what follows
	caller   context.Context // ends when the caller has left
	out      *outlet
	parted   *raw.Conn     // nil while the server has the connection
	begun    chan struct{} // closed when tick has sent the status line; nil if the caller is not to part
	timer    *time.Timer
	turn     time.Duration // in cfg.Rounds; 0 is none
	told     int           // the status line that has gone out; 0 is none yet
	ended    bool          // the answer is complete, or an error was told
	released bool
	last     time.Time // of the latest flush
	err      error     // the first write error; nothing is written after it
	status   func() string
	waiting  bool // status is that of the line
	header   func(http.Header)
	signs    int         // of life
	added    http.Header // by AddHeader
	unwatch  func() bool // ends the watch on the caller of an answer that is kept
}

// New returns the Client of one request and starts its clock. The error says
// that w cannot be flushed, so that nothing can be streamed through it.
func New(w http.ResponseWriter, r *http.Request, cfg Config) (*Client, error) {
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = 30 * time.Second
	}
	if cfg.Voice == nil {
		cfg.Voice = Plain{}
	}
	out, err := newOutlet(w, &cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{caller: r.Context(), cfg: cfg, last: time.Now(), out: out}
	if cfg.Parts && raw.Able(out.inner, r) {
		c.begun = make(chan struct{})
	}
	if cfg.Keep != nil {
		c.unwatch = context.AfterFunc(r.Context(), c.lose)
	}
	first := cfg.CommitAfter
	if !cfg.Stream {
		// A whole answer keeps its status as long as it can: until the first
		// heartbeat is due.
		first = cfg.Heartbeat
	}
	if cfg.Stream || c.beats() {
		// The timer must be in its field before it can fire.
		c.timer = time.AfterFunc(math.MaxInt64, c.tick)
		c.timer.Reset(first)
	}
	return c, nil
}

// beats reports whether silence is broken at all.
func (c *Client) beats() bool { return c.cfg.Heartbeat > 0 && c.cfg.Beat != BeatOff }

// Context is the caller's: it ends when the caller has left, or, with a Keeper, when
// nobody wants the answer any more.
func (c *Client) Context() context.Context {
	if k := c.cfg.Keep; k != nil {
		return k.Wanted
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.caller
}

// OnCommit sets what adds headers just before the status line goes out.
func (c *Client) OnCommit(header func(http.Header)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header = header
}

// AddHeader adds a response header; it does nothing once the status line has
// gone out.
func (c *Client) AddHeader(name, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.added == nil {
		c.added = http.Header{}
	}
	c.added.Set(name, value)
	if c.told == 0 {
		c.out.Header().Set(name, value)
	}
}

// SetStatus sets what a heartbeat says of a request that runs. A nil or empty
// status makes a bare keep-alive.
func (c *Client) SetStatus(status func() string) { c.setStatus(status, false) }

// SetWaiting sets what a heartbeat says of a request that waits, such as its
// place in line.
func (c *Client) SetWaiting(status func() string) { c.setStatus(status, true) }

func (c *Client) setStatus(status func() string, waiting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.waiting = status, waiting
}

// Told is the status that has gone out, 0 if none has.
func (c *Client) Told() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told
}

// Beats is how many signs of life were sent.
func (c *Client) Beats() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.signs
}

// closed reports whether nothing more is to be said. The caller holds mu.
func (c *Client) closed() bool {
	return c.released || c.ended || c.err != nil && c.cfg.Keep == nil
}

// tickAgain is when the timer looks again that found somebody at work.
const tickAgain = 10 * time.Millisecond

// tick runs on the timer: it commits a stream's status line when its time has
// come and breaks every silence of a heartbeat's length. It does not wait for
// whoever is writing: then there is no silence.
func (c *Client) tick() {
	if !c.mu.TryLock() {
		c.timer.Reset(tickAgain)
		return
	}
	defer c.mu.Unlock()
	if c.late() {
		c.flush()
	}
	if c.closed() {
		return
	}
	wait := c.silence(time.Now())
	begins := c.told == 0
	if begins {
		if c.begun != nil {
			c.out.Header().Set("Connection", "close") // no server will listen to it
		}
		c.commit(http.StatusOK)
	}
	if wait <= 0 || begins {
		if c.beats() {
			c.beat()
		}
		c.flush()
	}
	if begins && c.begun != nil {
		close(c.begun)
	}
	if c.beats() {
		c.waitOn(time.Now())
	}
}

// beat adds one sign of life. Whatever is pending stands before it, and is made
// of whole events.
func (c *Client) beat() {
	c.signs++
	c.out.gather()
	if !c.cfg.Stream {
		c.out.buf = append(c.out.buf, '\n')
		return
	}
	s := Sign{Beat: c.cfg.Beat, Waiting: c.waiting}
	if c.status != nil {
		s.Text = c.status()
	}
	from := len(c.out.buf)
	c.cfg.Voice.Beat(&c.out.Events, s)
	if c.cfg.Keep != nil && !onlyComments(c.out.buf[from:]) {
		c.keep(from) // what is more than a comment may be a part of the answer
	}
}
