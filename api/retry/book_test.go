package retry

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connection is one HTTP connection of a test: what it was told, and how it is lost.
type connection struct {
	t      *testing.T
	visit  *Visit
	client *downstream.Client
	told   *httptest.ResponseRecorder
	ctx    context.Context
	lose   context.CancelFunc
}

// connect has a request come and answers as the edge does: the first connection gets
// its client, the others follow.
func connect(t *testing.T, b *Book, ask Ask, id string) *connection {
	t.Helper()
	ask.Came = time.Now()
	c := &connection{t: t, told: httptest.NewRecorder()}
	c.ctx, c.lose = context.WithCancel(t.Context())
	t.Cleanup(c.lose)
	var err error
	if c.visit, err = b.Meet(c.ctx, ask, id); err != nil {
		t.Fatal(err)
	}
	if c.visit == nil {
		return c
	}
	cfg := downstream.Config{Stream: true, Problem: func(err error) *openai.Problem {
		return &openai.Problem{Status: http.StatusBadGateway, Message: err.Error()}
	}}
	if !c.visit.Follows() {
		cfg.Keep = c.visit.Keeper()
	}
	request := httptest.NewRequestWithContext(c.ctx, http.MethodPost, "/", strings.NewReader("{}"))
	if c.client, err = downstream.New(c.told, request, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.client.Release)
	if !c.visit.Follows() {
		c.visit.Start(c.client)
		return c
	}
	go func() {
		defer c.visit.Leave()
		_ = c.visit.Follow(c.ctx, c.client)
	}()
	return c
}

// say tells an answer of n bytes and ends the request.
func (c *connection) say(n int, err error) {
	c.t.Helper()
	if fault := c.client.Send([]byte(`"` + strings.Repeat("x", n) + `"`)); fault != nil {
		c.t.Errorf("a client that is kept failed with %v", fault)
	}
	if err == nil {
		err = c.client.Done()
	} else {
		c.client.Fail(err)
	}
	c.client.Release()
	c.visit.End(err)
}

// is reports whether two connections are one request.
func (c *connection) is(other *connection) bool {
	return c.visit != nil && other.visit != nil && c.visit.session == other.visit.session
}

func bubble(t *testing.T, cfg Config, f func(t *testing.T, b *Book)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := New(cfg)
		defer b.Close()
		f(t, b)
		b.Close()
		synctest.Wait()
	})
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func by(key string) Ask { return Ask{Caller: "c", Key: key} }

var grace = Config{Grace: 15 * time.Second}

// TestOrdinaryRequestsCostNothing: they are not in the book.
func TestOrdinaryRequestsCostNothing(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *Book) {
		for name, ask := range map[string]Ask{"nothing said": {}, "a retry of nothing": {Again: true}, "no grace": {Patience: Patience{told: time.Minute}}} {
			if c := connect(t, b, ask, "1"); c.visit != nil || c.visit.Follows() {
				t.Errorf("%s: is in the book", name)
			}
		}
	})
}

// TestBounds: of answers that have ended the oldest are given up for new ones, by
// their number and by their size, and all when their time is over.
func TestBounds(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		size int
		want string // those still kept, the newest last
	}{
		"number":           {Config{Grace: time.Minute, Kept: 2}, 10, "cd"},
		"bytes":            {Config{Grace: time.Minute, Bytes: 3500}, 1000, "bcd"},
		"one is too large": {Config{Grace: time.Minute, Answer: 900}, 1000, ""},
		"all fit":          {Config{Grace: time.Minute}, 1000, "abcd"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, c.cfg, func(t *testing.T, b *Book) {
				for _, key := range []string{"a", "b", "c", "d"} {
					connect(t, b, by(key), key).say(c.size, nil)
				}
				kept := func() (keys string) {
					b.mu.Lock()
					defer b.mu.Unlock()
					for _, s := range b.kept {
						keys += s.ask.Key
					}
					return keys
				}
				if got := kept(); got != c.want || found(b) != len(c.want) {
					t.Errorf("%q are kept, want %q; %d are found", got, c.want, found(b))
				}
				if pass(time.Minute); kept() != "" || found(b) != 0 || b.bytes != 0 {
					t.Errorf("after the grace %q are kept, %d bytes, %d found", kept(), b.bytes, found(b))
				}
			})
		})
	}
}

// found is how many requests can be found by their key.
func found(b *Book) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.byKey)
}

// TestTooManyConnections: a request has so many and no more, until one leaves.
func TestTooManyConnections(t *testing.T) {
	bubble(t, Config{Grace: time.Minute, Visits: 2}, func(t *testing.T, b *Book) {
		connect(t, b, by("k"), "1")
		second := connect(t, b, by("k"), "2")
		var p *openai.Problem
		if _, err := b.Meet(t.Context(), by("k"), "3"); !errors.As(err, &p) || p.Status != http.StatusConflict {
			t.Errorf("a third gets %v", err)
		}
		second.lose()
		synctest.Wait()
		if third := connect(t, b, by("k"), "3"); third.visit.ID() != "1" {
			t.Errorf("the third is %s", third.visit.ID())
		}
	})
}

// TestTwinsAreTakenOneByOne: of two lost requests of one body each gets a retry of
// its own.
func TestTwinsAreTakenOneByOne(t *testing.T) {
	bubble(t, grace, func(t *testing.T, b *Book) {
		ask := Ask{Patience: Patience{told: 10 * time.Second}}
		first, second := connect(t, b, ask, "1"), connect(t, b, ask, "2")
		pass(10 * time.Second)
		first.lose()
		second.lose()
		synctest.Wait()
		ask.Again = true
		one, two, three := connect(t, b, ask, "3"), connect(t, b, ask, "4"), connect(t, b, ask, "5")
		if one.visit.ID() != "1" || two.visit.ID() != "2" || three.visit.ID() != "5" {
			t.Errorf("the retries are %s, %s and %s", one.visit.ID(), two.visit.ID(), three.visit.ID())
		}
		other := ask
		other.Caller = "somebody else"
		if first.lose(); connect(t, b, other, "6").is(first) {
			t.Error("somebody else is taken for the caller")
		}
	})
}

// TestDelivered: it is known as soon as anybody has got the answer, and at the latest
// when the time for a retry is over.
func TestDelivered(t *testing.T) {
	delivered := func(c *connection) (<-chan bool, time.Time) {
		out := make(chan bool, 1)
		go func() { out <- c.visit.Delivered() }()
		return out, time.Now()
	}
	for name, x := range map[string]struct {
		play func(t *testing.T, b *Book, first *connection)
		want bool
		in   time.Duration
	}{
		"to the first": {func(_ *testing.T, _ *Book, first *connection) { first.say(1, nil) }, true, 0},
		"to a retry": {func(t *testing.T, b *Book, first *connection) {
			first.lose()
			connect(t, b, by("k"), "2")
			first.say(1, nil)
		}, true, 0},
		"to a late one": {func(t *testing.T, b *Book, first *connection) {
			first.lose()
			synctest.Wait()
			first.say(1, nil)
			time.AfterFunc(5*time.Second, func() { connect(t, b, by("k"), "2") })
		}, true, 5 * time.Second},
		"to nobody": {func(_ *testing.T, _ *Book, first *connection) { first.lose(); synctest.Wait(); first.say(1, nil) }, false, 15 * time.Second},
		"to nobody, at the stop": {func(_ *testing.T, b *Book, first *connection) {
			first.lose()
			synctest.Wait()
			first.say(1, nil)
			time.AfterFunc(time.Second, b.Close)
		}, false, time.Second},
		"to nobody, given up": {func(t *testing.T, _ *Book, first *connection) {
			first.lose()
			pass(15 * time.Second)
			if first.visit.session.wanted.Err() == nil {
				t.Error("the answer is still wanted")
			}
			first.say(1, nil)
		}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, grace, func(t *testing.T, b *Book) {
				first := connect(t, b, by("k"), "1")
				x.play(t, b, first)
				got, began := delivered(first)
				if <-got != x.want || time.Since(began) != x.in {
					t.Errorf("it is known after %v, want %v after %v", time.Since(began), x.want, x.in)
				}
			})
		})
	}
}

// TestErrors: an error that another try may heal is nobody else's; any other is.
func TestErrors(t *testing.T) {
	heals, stays := errors.New("heals"), errors.New("stays")
	cfg := Config{Grace: time.Minute, Final: func(err error) bool { return errors.Is(err, stays) }}
	for err, again := range map[error]bool{heals: false, stays: true} {
		bubble(t, cfg, func(t *testing.T, b *Book) {
			first := connect(t, b, by("k"), "1")
			first.client.Fail(err)                              // it was told,
			if connect(t, b, by("k"), "2").is(first) != again { // and is not over
				t.Errorf("%v: who asks while it ends is the same: %v", err, !again)
			}
		})
		bubble(t, cfg, func(t *testing.T, b *Book) {
			first := connect(t, b, by("k"), "1")
			first.say(1, err)
			if connect(t, b, by("k"), "2").is(first) != again {
				t.Errorf("%v: who asks after it is the same: %v", err, !again)
			}
		})
	}
}

// TestFirstWithoutAnAnswer: who follows one that ended before it could be told
// anything, as by a panic, is not left waiting.
func TestFirstWithoutAnAnswer(t *testing.T) {
	bubble(t, grace, func(t *testing.T, b *Book) {
		first, err := b.Meet(t.Context(), by("k"), "1")
		if err != nil {
			t.Fatal(err)
		}
		second := connect(t, b, by("k"), "2")
		first.End(errors.New("panic"))
		first.End(errors.New("panic")) // as by a handler that ends twice
		synctest.Wait()
		if second.client.Release(); second.told.Code != http.StatusBadGateway || !strings.Contains(second.told.Body.String(), "panic") {
			t.Errorf("who followed got %d %s", second.told.Code, second.told.Body)
		}
	})
}
