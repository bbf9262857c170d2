package engine_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"oneslot/proxy/engine"
)

// TestConnectionsThatAreHungUp: an engine that closes the connection after a
// stream without a word is told to, so that no request meets its end. Others
// keep theirs.
func TestConnectionsThatAreHungUp(t *testing.T) {
	for dialect, hangsUp := range map[string]bool{engine.LlamaCpp: true, engine.SGLang: false, engine.VLLM: false, engine.OpenAI: false} {
		t.Run(dialect, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/chat/completions" {
					if r.Close {
						t.Errorf("%s was asked for on a connection of its own", r.URL.Path)
					}
					_, _ = io.WriteString(w, `{"tokens":[1],"count":1}`)
					return
				}
				if r.Close != hangsUp {
					t.Errorf("the connection of the stream is to be closed: %t", r.Close)
				}
				_, _ = io.WriteString(w, "data: [DONE]\n\n")
				if hangsUp {
					conn, _, err := http.NewResponseController(w).Hijack()
					if err == nil {
						conn.Close()
					}
				}
			}))
			defer server.Close()
			e, err := engine.New(engine.Config{Name: "spark", URL: server.URL, Dialect: dialect})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if _, err := e.Info(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				resp, err := e.Chat(context.WithoutCancel(t.Context()), []byte(`{}`))
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body) // how it ends does not matter here
				resp.Body.Close()
				if _, err := e.Count(t.Context(), "x"); err != nil && dialect != engine.OpenAI {
					t.Errorf("the next call failed: %v", err)
				}
			}
		})
	}
}
