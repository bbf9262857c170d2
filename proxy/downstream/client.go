package downstream

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"oneslot/internal/openai"

	"github.com/tmaxmax/go-sse"
)

// A Beat says how a waiting client is kept alive.
type Beat uint8

// The ways to keep a client alive. The zero value is BeatComment.
const (
	// BeatComment sends SSE comments that say what goes on.
	BeatComment Beat = iota
	// BeatChunk sends chunks that say nothing, for clients that cannot read comments.
	BeatChunk
	// BeatOff sends nothing.
	BeatOff
)

var beatNames = [...]string{"comment", "chunk", "off"}

// UnmarshalText reads comment, chunk or off.
func (b *Beat) UnmarshalText(text []byte) error {
	for i, name := range beatNames {
		if string(text) == name {
			*b = Beat(i)
			return nil
		}
	}
	return fmt.Errorf("heartbeat mode %q is none of %v", text, beatNames)
}

// MarshalText returns the name that UnmarshalText reads.
func (b Beat) MarshalText() ([]byte, error) { return []byte(beatNames[b]), nil }

// Config says what a client hears, and when while there is nothing to say.
type Config struct {
	// Stream is whether the client wants events rather than one JSON object.
	Stream bool
	// Problem turns an error into what the client is told. It is required.
	Problem func(error) *openai.Problem
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
}

// A Client is the side of a request that faces the caller: it commits the
// status line when the first byte must go out, keeps the connection alive while
// there is nothing to say, and writes events or one JSON object.
//
// Ownership: the handler that made it calls Release before it returns; after
// that nothing is written. Between the two, the handler's goroutine and the
// heartbeat timer write, one at a time.
type Client struct {
	request *http.Request
	stream  bool
	cfg     Config

	mu        sync.Mutex // guards what follows
	out       *outlet
	session   *sse.Session
	timer     *time.Timer
	committed bool // the status line has gone out
	ended     bool // the answer is complete, or an error was told
	released  bool
	last      time.Time // of the latest flush
	err       error     // the first write error; later writes return it
	status    func() string
	header    func(http.Header)
	silent    []byte // what BeatChunk sends; nil until known
}

// New returns the Client of one request and starts its clock.
func New(w http.ResponseWriter, r *http.Request, cfg Config) (*Client, error) {
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = 30 * time.Second
	}
	stream := cfg.Stream
	c := &Client{request: r, stream: stream, cfg: cfg, last: time.Now(), out: newOutlet(w, cfg.WriteTimeout)}
	session, err := sse.Upgrade(c.out, r)
	if err != nil {
		return nil, err
	}
	c.session = session
	first := cfg.CommitAfter
	if !stream {
		// A whole answer keeps its status as long as it can: until the first
		// heartbeat is due.
		first = cfg.Heartbeat
	}
	if stream || cfg.Heartbeat > 0 && cfg.Beat != BeatOff {
		// The timer must be in its field before it can fire.
		c.timer = time.AfterFunc(math.MaxInt64, c.tick)
		c.timer.Reset(first)
	}
	return c, nil
}

// OnCommit sets what adds headers just before the status line goes out.
func (c *Client) OnCommit(header func(http.Header)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header = header
}

// SetStatus sets what a heartbeat says, such as the place in line. A nil or
// empty status makes a bare keep-alive.
func (c *Client) SetStatus(status func() string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

// Gone is closed when the caller has left.
func (c *Client) Gone() <-chan struct{} { return c.request.Context().Done() }

// Context is the caller's: it ends when the caller has left.
func (c *Client) Context() context.Context { return c.request.Context() }

// SetSilent sets what a heartbeat of kind BeatChunk sends.
func (c *Client) SetSilent(chunk []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = chunk
}

// Committed reports whether the status line has gone out.
func (c *Client) Committed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.committed
}

// tickAgain is when a heartbeat looks again that found somebody writing.
const tickAgain = time.Second

// tick runs on the timer: it commits a stream's status line when its time has
// come and breaks every silence of a heartbeat's length.
func (c *Client) tick() {
	if !c.mu.TryLock() {
		// Somebody is writing this moment, so the client is not left in silence.
		c.timer.Reset(tickAgain)
		return
	}
	defer c.mu.Unlock()
	if c.released || c.ended || c.err != nil {
		return
	}
	beats := c.cfg.Heartbeat > 0 && c.cfg.Beat != BeatOff
	silence := time.Since(c.last)
	switch {
	case !c.committed:
		c.commit(http.StatusOK)
		c.beat(beats)
	case beats && silence >= c.cfg.Heartbeat:
		c.beat(true)
	}
	if beats {
		c.timer.Reset(max(c.cfg.Heartbeat-time.Since(c.last), time.Millisecond))
	}
}

// beat writes one sign of life, if there is to be one, and flushes.
func (c *Client) beat(sign bool) {
	switch {
	case !sign:
	case !c.stream:
		c.out.put([]byte("\n"))
	case c.cfg.Beat == BeatChunk && c.silent != nil:
		c.event(string(c.silent))
	default:
		text := "keep-alive"
		if c.status != nil {
			if s := c.status(); s != "" {
				text = s
			}
		}
		m := sse.Message{}
		m.AppendComment(text)
		c.note(c.session.Send(&m))
	}
	c.flush()
}

// commit sends the status line. The caller holds mu.
func (c *Client) commit(status int) {
	if c.committed {
		return
	}
	c.committed = true
	h := c.out.Header()
	if c.header != nil {
		c.header(h)
	}
	if c.stream && status == http.StatusOK {
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("X-Accel-Buffering", "no")
	} else {
		h.Set("Content-Type", "application/json")
	}
	c.out.WriteHeader(status)
}
