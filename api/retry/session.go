package retry

import (
	"cmp"
	"context"
	"errors"
	"time"

	"oneslot/proxy/downstream"
	"oneslot/proxy/downstream/tape"
)

// A Session is one request with all the connections on which it is asked. Its
// fields but the first group are guarded by Book.mu.
type Session struct {
	book   *Book
	id     string
	ask    Ask // of the first connection
	tape   *tape.Tape
	wanted context.Context // ends when nobody wants the answer any more
	cancel context.CancelFunc
	ready  chan struct{} // closed when client is set, or will never be
	done   chan struct{} // closed when it is known whether the answer was delivered

	client    *downstream.Client // of the first connection
	present   int                // connections that are there
	timer     *time.Timer        // of the grace; nil while none runs
	lost, end func()             // tell other proxies; nil if there are none
	going     bool               // it is given up soon, for another proxy
	listed    bool               // it can be found
	full      bool               // the tape cannot be played any more
	over      bool               // the answer has ended
	delivered bool               // somebody has got all of it
}

// errOver is what those hear who follow a request that ended without a word.
var errOver = errors.New("retry: the request has ended")

// A Visit is one connection's part in a request.
type Visit struct {
	session *Session
	ask     Ask
	player  *tape.Player // nil for the first connection
	gone    bool
}

// Follows reports whether the visit repeats a request that is there already.
func (v *Visit) Follows() bool { return v != nil && v.player != nil }

// ID names the request.
func (v *Visit) ID() string { return v.session.id }

// Keeper has the first connection's client go on when its caller has left.
func (v *Visit) Keeper() *downstream.Keeper {
	return &downstream.Keeper{Tape: v.session.tape, Wanted: v.session.wanted, Left: v.Leave}
}

// Start shows the first connection's client to those who follow.
func (v *Visit) Start(client *downstream.Client) {
	s := v.session
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	s.client = client
	close(s.ready)
}

// Follow tells client the answer of the request from its beginning, until it has
// ended or ctx, the connection's, ends. Leave is the caller's to call after it. The
// error says why the client did not get all of it.
func (v *Visit) Follow(ctx context.Context, client *downstream.Client) error {
	s := v.session
	defer v.player.Close()
	select {
	case <-s.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.client != nil {
		client.Follow(s.client)
	}
	end, err := v.player.Play(ctx, client)
	if err == nil {
		err = client.Repeat(end)
	}
	if client.Delivered() {
		s.deliver()
	}
	return err
}

// End is called by the first connection when the answer has ended, for err if it
// failed.
func (v *Visit) End(err error) {
	s := v.session
	b := s.book
	s.tape.Finish(tape.End{Err: cmp.Or(err, errOver)}) // if nobody else has
	s.cancel()
	delivered := s.client != nil && s.client.Delivered() // never asked under the book's lock
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.client == nil && !s.over {
		close(s.ready)
	}
	s.halt()
	s.over, s.delivered = true, s.delivered || delivered
	b.ended(s)
	if s.end != nil {
		s.end()
	}
	if !v.gone {
		v.gone = true
		s.present--
	}
	// Who leaves at its time may be leaving now, with the answer on its way.
	expected := s.ask.Key != "" || !s.delivered || s.ask.Patience.Ends(time.Since(s.ask.Came))
	if b.repeats(err) && expected && s.listed && !s.full && !b.closed && b.cfg.Grace > 0 {
		b.keep(s)
	} else {
		b.unlist(s)
	}
	s.settle()
}

// Delivered waits until it is known whether a client has got the whole answer, and
// reports it.
func (v *Visit) Delivered() bool {
	s := v.session
	<-s.done
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	return s.delivered
}

// Leave is the end of a connection. The last one's decides whether a retry is to be
// expected: it sent a key, or left at the time it had announced.
func (v *Visit) Leave() {
	s := v.session
	b := s.book
	b.mu.Lock()
	defer b.mu.Unlock()
	if v.gone {
		return
	}
	v.gone = true
	s.present--
	switch {
	case s.over || s.delivered:
		s.settle()
	case s.present > 0:
	case !s.full && !b.closed && b.cfg.Grace > 0 && (v.ask.Key != "" || v.ask.Patience.Ends(time.Since(v.ask.Came))):
		s.timer = time.AfterFunc(b.cfg.Grace, s.expire)
		if s.lost != nil {
			s.lost()
		}
	default:
		s.drop()
	}
}

// deliver notes that a client has got the whole answer. Without a key nobody else
// can mean the same.
func (s *Session) deliver() {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	s.delivered = true
	if s.over && s.ask.Key == "" {
		s.book.unlist(s)
	}
	s.settle()
}

// expire is the end of the grace.
func (s *Session) expire() {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	if s.over || s.present == 0 { // else somebody has just come back
		s.drop()
	}
}

// overflow is called when the answer has grown too large to be kept.
func (s *Session) overflow() {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	s.full = true
	if s.present == 0 && !s.over {
		s.drop()
	}
}

// drop gives the request up: nobody finds it, and it ends if it still goes on. The
// caller holds Book.mu, as for all that follows.
func (s *Session) drop() {
	s.book.unlist(s)
	s.cancel()
}

// settle closes done when it is known what came of the answer.
func (s *Session) settle() {
	if !s.over || !s.delivered && (s.listed || s.present > 0) {
		return
	}
	select {
	case <-s.done:
	default:
		close(s.done)
	}
}

// halt stops the grace.
func (s *Session) halt() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
		s.going = false
	}
}
