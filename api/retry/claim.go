package retry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"oneslot/queue"
	"oneslot/queue/claims"
)

// Name is what the request is known by to other proxies, a hash: of its key, or, without
// one, of what it asks.
func (a *Ask) Name() string {
	h := sha256.New()
	if a.Key != "" {
		_, _ = h.Write([]byte("key\n" + a.Caller + "\n" + a.Key)) // never fails
	} else {
		_, _ = h.Write([]byte("body\n" + a.Caller + "\n"))
		_, _ = h.Write(a.Body[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Asked is called when another proxy wants to answer the request of this name. Held is
// whether a client of it is connected here, known whether it is being answered: one whose
// clients are all lost is given up soon, since its client has come back elsewhere.
func (b *Book) Asked(name string) (held, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.byName[name] {
		known = true
		held = held || s.present > 0
	}
	for _, s := range b.byName[name] {
		if !held && !s.going {
			s.halt()
			s.going, s.timer = true, time.AfterFunc(soon, s.expire)
		}
	}
	return held, known
}

// soon is how long another proxy has to stand in line for a request before it is given up
// here.
const soon = 100 * time.Millisecond

// Claim waits until the request may stand in line, which another proxy may have answered,
// and returns the place that is free for it. Nothing may be run before rest, if it is not
// nil, has returned nil: the other may not have ended it. What sends no key shows itself to other proxies only when its
// client is lost, and asks them only if it says that it is a retry. v may be nil, for a
// request that will not be repeated, and c, where there are no other proxies. The error
// is an *openai.Problem or one of package queue.
func (v *Visit) Claim(ctx context.Context, c *claims.Claims, ask Ask, id string) (place claims.Place, rest func(context.Context) error, err error) {
	if c == nil || !ask.Matters() {
		return place, nil, nil
	}
	claim := claims.Claim{Name: ask.Name(), ID: id, Body: hex.EncodeToString(ask.Body[:])}
	if v != nil {
		begin := func() { c.Begin(claim) }
		if ask.Key != "" {
			begin = nil // it is known already
		}
		v.session.shown(begin, func() { c.Drop(claim) })
	}
	if ask.Key == "" && !ask.Again {
		return place, nil, nil
	}
	place, rest, err = c.Take(ctx, claim)
	switch {
	case errors.Is(err, claims.ErrHeld) && ask.Key == "":
		return claims.Place{}, nil, nil // somebody else asks the same
	case err != nil && ctx.Err() != nil:
		return claims.Place{}, nil, queue.ErrLeft
	case err != nil:
		return claims.Place{}, nil, v.refused(err)
	case v == nil && rest == nil:
		c.Drop(claim)
	case rest != nil:
		wait := rest
		rest = func(ctx context.Context) error {
			err := wait(ctx)
			if err != nil && ctx.Err() == nil { // else it may go on to wait
				err = v.refused(err)
			}
			if v == nil && err == nil {
				c.Drop(claim)
			}
			return err
		}
	}
	return place, rest, nil
}

// Alone has the rest of a claim waited for before the work, with the slot at hand.
func Alone[H interface{ Idle() }](rest func(context.Context) error, work func(context.Context, H) error) func(context.Context, H) error {
	if rest == nil {
		return work
	}
	return func(ctx context.Context, hold H) error {
		if err := rest(ctx); err != nil {
			hold.Idle()
			return err
		}
		return work(ctx, hold)
	}
}

// refused words what became of a claim. Nobody else is told the same for it.
func (v *Visit) refused(err error) error {
	if err == nil {
		return nil
	}
	if v != nil {
		b := v.session.book
		b.mu.Lock()
		defer b.mu.Unlock()
		b.unlist(v.session)
	}
	switch {
	case errors.Is(err, claims.ErrHeld):
		return inUse("Its client is connected to another proxy. Close that connection, or use another key.")
	case errors.Is(err, claims.ErrOther):
		return reused()
	}
	return err
}

// shown notes how other proxies are told that a retry is waited for, which may reach
// them, and that the request has ended here. Neither may block.
func (s *Session) shown(lost, end func()) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	s.lost, s.end = lost, end
}

// begun and ended keep byName, from the first connection of a session to its end.
func (b *Book) begun(s *Session) {
	n := s.ask.Name()
	b.byName[n] = append(b.byName[n], s)
}

func (b *Book) ended(s *Session) {
	n := s.ask.Name()
	if b.byName[n] = without(b.byName[n], s); len(b.byName[n]) == 0 {
		delete(b.byName, n)
	}
}
