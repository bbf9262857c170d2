package remote_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"oneslot/internal/remote"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// proxy is a server that answers as told, and a client for it.
func proxy(t *testing.T, path string, answer http.HandlerFunc) *remote.Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return client(t, remote.Config{URL: s.URL + path, Key: " sesame\n"})
}

func client(t *testing.T, cfg remote.Config) *remote.Client {
	t.Helper()
	c, err := remote.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestCall: whatever way the base URL is written, the same request goes out.
func TestCall(t *testing.T) {
	for _, path := range []string{"", "/", "/v1", "/v1/"} {
		c := proxy(t, path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != "DELETE" || r.URL.Path != "/v1/queue/7" || r.URL.RawQuery != "a=b+c" {
				t.Errorf("%q: %s %s", path, r.Method, r.URL)
			}
			if r.Header.Get("Authorization") != "Bearer sesame" || r.Header.Get("Accept") != "text/csv" {
				t.Errorf("%q: headers %v", path, r.Header)
			}
			_, _ = io.WriteString(w, "x,y\n")
		})
		resp, err := c.Open(t.Context(), remote.Call{Method: "DELETE", Path: "/v1/queue/7", Query: url.Values{"a": {"b c"}}, Accept: "text/csv"})
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "x,y\n" {
			t.Errorf("%q: %q, %v", path, body, err)
		}
		_ = resp.Body.Close()
	}
}

func TestJSON(t *testing.T) {
	c := proxy(t, "/below", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/below/v1/queue" || r.Header.Get("Accept") != "application/json" {
			t.Errorf("%s %s, %v", r.Method, r.URL, r.Header)
		}
		_, _ = io.WriteString(w, `{"waiting":3}`)
	})
	var got struct{ Waiting int }
	if err := c.JSON(t.Context(), remote.Call{Path: "/v1/queue"}, &got); err != nil || got.Waiting != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		body   string
		want   remote.Problem
		says   string
	}{
		{"in the shape of OpenAI", 404, `{"error":{"message":"No such request.","code":"request_not_found"}}`, remote.Problem{Status: 404, Code: "request_not_found", Message: "No such request."}, "No such request."},
		{"without a code", 400, `{"error":{"message":"Wrong.","code":null}}`, remote.Problem{Status: 400, Message: "Wrong."}, "Wrong."},
		{"no key", 401, `{"error":{"message":"No valid API key was sent."}}`, remote.Problem{Status: 401, Message: "No valid API key was sent."}, "ONESLOT_API_KEY"},
		{"something else", 502, "<html>", remote.Problem{Status: 502, Message: "The proxy answered 502 Bad Gateway."}, "502"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := proxy(t, "", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			err := c.JSON(t.Context(), remote.Call{Path: "/v1/queue"}, new(any))
			var p *remote.Problem
			if !errors.As(err, &p) || *p != tc.want || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %+v that says %q", err, tc.want, tc.says)
			}
		})
	}
}

func TestNoJSON(t *testing.T) {
	c := proxy(t, "", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	if err := c.JSON(t.Context(), remote.Call{Path: "/"}, new(any)); err == nil || !strings.Contains(err.Error(), "is it oneslot?") {
		t.Errorf("%v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	err := client(t, remote.Config{URL: s.URL, Key: "sesame"}).JSON(t.Context(), remote.Call{Path: "/"}, new(any))
	if !errors.Is(err, remote.ErrUnreachable) || !strings.Contains(err.Error(), "oneslot serve") || strings.Contains(err.Error(), "sesame") {
		t.Errorf("%v", err)
	}
}

// TestPatience: a proxy that takes the request and says nothing is not waited for.
func TestPatience(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	c := client(t, remote.Config{URL: s.URL, Patience: time.Millisecond})
	if err := c.JSON(t.Context(), remote.Call{Path: "/"}, new(any)); !errors.Is(err, remote.ErrUnreachable) {
		t.Errorf("%v", err)
	}
}

// TestLeave: a command that is interrupted says so, and no more.
func TestLeave(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := proxy(t, "", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"waiting"`)
		_ = http.NewResponseController(w).Flush()
		cancel()
	})
	if err := c.JSON(ctx, remote.Call{Path: "/"}, new(any)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := c.JSON(ctx, remote.Call{Path: "/"}, new(any)); !errors.Is(err, context.Canceled) || errors.Is(err, remote.ErrUnreachable) {
		t.Errorf("%v", err)
	}
}

func TestNoAddress(t *testing.T) {
	for _, address := range []string{"", "proxy:8080", "ftp://proxy", "http://", "http://me:secret@proxy", "::"} {
		_, err := remote.New(remote.Config{URL: address})
		if !errors.Is(err, remote.ErrAddress) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
