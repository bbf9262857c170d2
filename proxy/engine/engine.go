package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"oneslot/internal/socket"
	"oneslot/proxy/engine/wire"
)

// ErrUnreachable is returned, wrapped with the cause, when no connection to the
// engine could be made, or when it answers that it is not ready yet: nothing of
// the request has reached it.
var ErrUnreachable = errors.New("engine: cannot be reached")

// ErrBusy is returned by Settle, wrapped, when the engine could not be seen idle in time.
var ErrBusy = errors.New("engine: not seen idle")

// ErrCannotAbort is returned by Abort and AbortAll when the engine has no way to
// stop a run but to close its connection.
var ErrCannotAbort = errors.New("engine: has no abort endpoint")

// ErrCannotCount is returned when the engine has no endpoint that tokenizes.
// ErrUncounted is returned, wrapped, when it has one and refused this text.
var (
	ErrCannotCount = errors.New("engine: has no tokenize endpoint")
	ErrUncounted   = errors.New("engine: did not tokenize the text")
)

// idleConn is how long an idle connection is kept; the engines close theirs
// after 5 s.
const idleConn = 2 * time.Second

// Config says where an engine is and how it is used.
type Config struct {
	// Name is the slot's name in the queue view and the ledger.
	Name string
	// URL is the base URL, http or https, with or without /v1.
	URL string
	// Model is the name under which clients ask for it. Zero means the first
	// name in the engine's own list.
	Model string
	// Dialect is auto, sglang, vllm, llamacpp or openai. Zero means auto.
	Dialect string
	// APIKey is sent to the engine as a bearer token. Zero means none.
	APIKey string
	// SoleClient says that nobody else uses it: all on it may be aborted to get it idle.
	SoleClient bool
	// Slots is how many requests it runs at once. Zero means 1.
	Slots int
	// Headers bounds the wait for the response headers of a run, which engines hold
	// back until the first token; see Engine.Headers. Zero means 15 minutes.
	Headers time.Duration
	// Dial makes the connections. Zero means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Validate reports every fault of the configuration at once.
func (c Config) Validate() error {
	var faults []error
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		faults = append(faults, errors.New("url is missing: give the engine's base URL, such as http://127.0.0.1:30000"))
	case err != nil:
		// The error repeats the URL, which may hold a password.
		faults = append(faults, errors.New("url cannot be read: give the engine's base URL, such as http://127.0.0.1:30000"))
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		faults = append(faults, fmt.Errorf("url %q must begin with http:// or https:// and name a host", u.Redacted()))
	case u.RawQuery != "" || u.Fragment != "":
		faults = append(faults, fmt.Errorf("url %q must end with the path: paths are added to it", u.Redacted()))
	}
	if _, ok := dialects()[c.Dialect]; !ok && c.Dialect != "" && c.Dialect != Auto {
		faults = append(faults, fmt.Errorf("dialect %q is none of auto, sglang, vllm, llamacpp, openai", c.Dialect))
	}
	return errors.Join(faults...)
}

// An Engine talks to one engine. Create it with New.
type Engine struct {
	cfg     Config
	label   string // the base URL as it may be shown
	wire    *wire.Client
	headers headers
	slots   []string

	rest, absent atomic.Int64 // in unix nanoseconds: until when Settle does not look at it; when it was last found not to be there, 0: it is
	misses       atomic.Int64 // how often it was
	mu           sync.Mutex   // guards what follows
	info         *Info        // nil until the engine has been asked, and when it is gone
	name         string       // of its model, as it told last; empty if it never did
	lost         int
	asked        int // how often it told what it is
}

// New returns an Engine. It does not call the engine yet.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Headers == 0 {
		cfg.Headers = 15 * time.Minute
	}
	dial := cfg.Dial
	if dial == nil {
		dial = socket.Dialer(&net.Dialer{Timeout: 5 * time.Second})
	}
	e := &Engine{cfg: cfg, headers: newHeaders(cfg.APIKey), slots: slotNames(cfg)}
	connect := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			if ctx.Err() == nil { // nobody called it off
				e.missed()
			}
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		e.absent.Store(0)
		return conn, nil
	}
	base, err := url.Parse(strings.TrimRight(strings.TrimSuffix(strings.TrimRight(cfg.URL, "/"), "/v1"), "/"))
	if err != nil {
		return nil, err // Validate has read it
	}
	e.label = base.Redacted()
	e.wire = wire.New(wire.Config{Base: base, Dial: connect, Idle: idleConn})
	return e, nil
}

// Name returns the configured name.
func (e *Engine) Name() string { return e.cfg.Name }

// Headers returns how long the headers of a run may take. Nothing here ends a run
// that takes longer: its connection must be open when it is aborted.
func (e *Engine) Headers() time.Duration { return e.cfg.Headers }

// Close drops the idle connections.
func (e *Engine) Close() { e.wire.Close() }

// What bounds the small calls: SGLang's server info is 32 kB, and a tokenized
// prompt of 131,072 tokens about 1 MB; both come in milliseconds, also from a
// busy engine, and nothing here may wait for one that is stuck.
const (
	maxReply  = 8 << 20 // bytes
	replyTime = 10 * time.Second
)

// call sends a small request and returns the body of a 200.
func (e *Engine) call(ctx context.Context, method, path string, body []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	// It can be sent again when the engine has closed an idle connection.
	header := e.headers.bare
	if body != nil {
		header = e.headers.body
	}
	resp, err := e.wire.Do(ctx, &wire.Request{Method: method, Path: path, Header: header, Body: body, Again: true})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", statusError{path, resp.StatusCode}
	}
	return string(text), nil
}

// statusError is a reply other than 200 to one of the small calls.
type statusError struct {
	path   string
	status int
}

func (s statusError) Error() string {
	return fmt.Sprintf("engine: %s answered %d", s.path, s.status)
}

// refused reports whether err says that the engine has no such endpoint, or not
// for us; whether it is there at all is then known.
func refused(err error) bool {
	var s statusError
	if !errors.As(err, &s) || s.status == http.StatusTooManyRequests {
		return false
	}
	return s.status < http.StatusInternalServerError || s.status == http.StatusNotImplemented
}

// broken reports whether err is the engine's own fault, such as that it is still
// loading its model.
func broken(err error) bool {
	var s statusError
	return errors.As(err, &s) && !refused(err)
}
