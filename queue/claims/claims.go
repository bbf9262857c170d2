package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// ErrHeld says that another process answers the request, and its client is there.
var ErrHeld = errors.New("claims: another process answers this request")

// ErrOther says that another request has the same name.
var ErrOther = errors.New("claims: this name was given to another request")

// Claim is a request that is to be answered.
type Claim struct {
	Name string // a hash
	ID   string // of the job, 32 hex digits
	Body string // hash of what is asked; others of the same name have the same
}

// Place is the job whose place in line is free for who took the claim over. The zero
// Place is none.
type Place struct {
	ID      string
	Arrival int64
}

// Wire is what carries scripts and messages.
type Wire struct {
	// Run runs a script with its own arguments.
	Run func(ctx context.Context, script string, args ...any) ([]any, error)
	// Say sends a message to an owner, or does not.
	Say func(to, text string)
	// Go runs what nobody waits for.
	Go func(func())
}

// Claims are those of one process. It is safe for concurrent use.
type Claims struct {
	wire Wire

	mu    sync.Mutex // guards what follows
	asked func(name string) (held, known bool)
	waits map[string][]chan string
}

// New returns the claims of a process.
func New(wire Wire) *Claims { return &Claims{wire: wire, waits: map[string][]chan string{}} }

// Answer names who is asked about a request that another process wants to answer: held is
// whether its client is there, known whether it is being answered; a lost one is to be
// given up soon, not before the other stands in line. It must not block. Until then nobody is there, and nothing is known.
func (c *Claims) Answer(asked func(name string) (held, known bool)) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = asked
}

const (
	every = 250 * time.Millisecond // an owner is asked anew
	life  = 24 * time.Hour         // a claim is remembered of a process that died
)

// Take waits until this process may stand in line for the request, and returns the place
// that is free for it. Until rest, if it is not nil, has returned nil as well, another
// process may still be about to end it, so that nothing must be run for it. The errors
// are ErrHeld, ErrOther, ctx's cause or that of the store; the claim is not taken then.
func (c *Claims) Take(ctx context.Context, claim Claim) (place Place, rest func(context.Context) error, err error) {
	place, gone, err := c.take(ctx, claim, true)
	if gone {
		rest = func(ctx context.Context) error {
			_, _, err := c.take(ctx, claim, false)
			return err
		}
	}
	return place, rest, err
}

// take asks until the claim is taken or, if that is enough, its owner gives it up.
func (c *Claims) take(ctx context.Context, claim Claim, enough bool) (place Place, gone bool, err error) {
	told := make(chan string, 1) // one is enough: what counts is what the store says then
	c.watch(claim.Name, told)
	defer c.unwatch(claim.Name, told)
	patience := 2 // its client may be about to be missed: who asks again has hung up before
	for {
		other, err := c.ask(ctx, claim)
		switch {
		case err != nil && ctx.Err() != nil: // nobody's fault, and perhaps it is asked again
			return Place{}, false, context.Cause(ctx)
		case err != nil:
			return Place{}, false, err
		case other.ID == "":
			return place, false, nil
		case other.Body != claim.Body:
			return Place{}, false, ErrOther
		case other.Arrival > 0:
			place = other.Place
		}
		switch word := next(ctx, told, every); {
		case ctx.Err() != nil:
			return Place{}, false, context.Cause(ctx)
		case word == leaving && enough:
			return place, true, nil
		case word == held && patience == 0:
			return Place{}, false, ErrHeld
		case word == held:
			patience--
			next(ctx, nil, every)
		case word == leaving:
			next(ctx, told, every)
		}
	}
}

// next waits for a word, for so long.
func next(ctx context.Context, told <-chan string, long time.Duration) string {
	limit := time.NewTimer(long)
	defer limit.Stop()
	select {
	case word := <-told:
		return word
	case <-limit.C:
	case <-ctx.Done():
	}
	return ""
}

// What an owner says of a claim.
const (
	held    = "held" // its client is there
	leaving = "gone" // it is about to end it
)

// found is the claim of another process.
type found struct {
	Place
	Body string
}

func (c *Claims) ask(ctx context.Context, claim Claim) (found, error) {
	raw, err := c.wire.Run(ctx, "claim_take", claim.Name, claim.ID, claim.Body, life.Microseconds())
	if err != nil || len(raw) == 0 {
		return found{}, err
	}
	if len(raw) == 4 {
		id, isText := raw[1].(string)
		body, isHash := raw[2].(string)
		arrival, isTime := raw[3].(int64)
		if isText && isHash && isTime {
			return found{Place{id, arrival}, body}, nil
		}
	}
	return found{}, fmt.Errorf("claims: claim_take answered %v", raw)
}

// Begin takes the claim on a request that was never asked before, as far as anybody
// knows, without waiting.
func (c *Claims) Begin(claim Claim) {
	c.wire.Go(func() { _, _ = c.ask(context.Background(), claim) })
}

// Drop gives a claim up, after the request has ended here. Without an answer it stands
// until it is asked for.
func (c *Claims) Drop(claim Claim) { c.drop(claim.Name, claim.ID) }

func (c *Claims) drop(name, id string) {
	c.wire.Go(func() { _, _ = c.wire.Run(context.Background(), "claim_drop", name, id) })
}

// Hear takes in a message: "asked NAME FROM", or "held", "gone" or "free" with the same.
func (c *Claims) Hear(text string) {
	word, more, _ := strings.Cut(text, " ")
	name, from, whole := strings.Cut(more, " ")
	switch {
	case c == nil || !whole:
	case word == "asked":
		c.answer(name, from)
	default:
		c.tell(name, word)
	}
}

// answer answers another process that wants to have a claim.
func (c *Claims) answer(name, from string) {
	c.mu.Lock()
	asked := c.asked
	c.mu.Unlock()
	present, known := false, false
	if asked != nil {
		present, known = asked(name)
	}
	word := leaving
	switch {
	case !known:
		c.drop(name, "")
		return
	case present:
		word = held
	}
	c.wire.Go(func() { c.wire.Say(from, word+" "+name+" -") })
}

func (c *Claims) tell(name, word string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, told := range c.waits[name] {
		select {
		case told <- word:
		default: // it has been told of before, and looks anew
		}
	}
}

func (c *Claims) watch(name string, told chan string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits[name] = append(c.waits[name], told)
}

func (c *Claims) unwatch(name string, told chan string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rest []chan string
	for _, other := range c.waits[name] {
		if other != told {
			rest = append(rest, other)
		}
	}
	if c.waits[name] = rest; len(rest) == 0 {
		delete(c.waits, name)
	}
}
