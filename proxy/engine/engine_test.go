package engine_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/openai"
	"oneslot/internal/simengine"
	"oneslot/proxy/engine"
)

// The tests of this package were tried on these mutants of the code; each makes
// at least one of them fail.
//
// Address: /v1 stays · a slash stays · a query is taken · the password is shown.
// Calls: redirects are followed · no key is sent · a call may take for ever.
// Detection: an endpoint that fails proves its absence · the old path is not
// tried · a configured dialect is detected all the same · what was learned is
// forgotten, or kept when nobody is there · an engine that loads counts as busy.
// Abort: a missing endpoint is no error · everything is aborted although others
// use the engine · other fields.
// Idleness: nobody there is idle · a load that cannot be read is 0 · waiting
// requests do not count · a trial that is refused for want of room is idle ·
// looks follow each other at once · labels with blanks break the metric · an
// engine that came back is not seen.
// Counting: another field, or another place of the count · refusal is an error
// of its own · tools are not counted.

func TestConfigIsChecked(t *testing.T) {
	for _, x := range []struct {
		name  string
		cfg   engine.Config
		words []string // of the error; none: it is right
	}{
		{"right", engine.Config{URL: "http://127.0.0.1:30000"}, nil},
		{"https", engine.Config{URL: "https://engine.example/v1", Dialect: "vllm"}, nil},
		{"auto", engine.Config{URL: "http://e", Dialect: "auto"}, nil},
		{"no url", engine.Config{}, []string{"url is missing", "http://127.0.0.1:30000"}},
		{"no scheme", engine.Config{URL: "127.0.0.1:30000"}, []string{"url"}},
		{"another scheme", engine.Config{URL: "unix:///x"}, []string{"http://"}},
		{"no host", engine.Config{URL: "http:///v1"}, []string{"name a host"}},
		{"a query", engine.Config{URL: "http://e/?a=1"}, []string{"must end with the path"}},
		{"a fragment", engine.Config{URL: "http://e/#x"}, []string{"must end with the path"}},
		{"broken", engine.Config{URL: "http://e\x7f:secret@"}, []string{"cannot be read"}},
		{"two faults", engine.Config{Dialect: "tgi"}, []string{"url is missing", `"tgi" is none of auto, sglang, vllm, llamacpp, openai`}},
		{"a password", engine.Config{URL: "ftp://me:secret@e"}, []string{"xxxxx"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, err := engine.New(x.cfg)
			if (err == nil) != (x.words == nil) {
				t.Fatalf("got %v", err)
			}
			for _, w := range x.words {
				if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%q does not hold %q, or gives the password away", err, w)
				}
			}
		})
	}
}

func TestBaseURL(t *testing.T) {
	for url, want := range map[string]string{
		"http://e":         "/v1/models",
		"http://e/":        "/v1/models",
		"http://e//":       "/v1/models",
		"http://e/v1":      "/v1/models",
		"http://e/v1/":     "/v1/models",
		"http://e/gpu/v1/": "/gpu/v1/models",
		"http://e/v1beta":  "/v1beta/v1/models",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, nil)
			e := open(t, engine.Config{URL: url}, f.line.dial)
			_ = e.Ready(t.Context())
			if got := f.paths(); !slices.Equal(got, []string{want}) {
				t.Errorf("%s: asked for %q, want %q", url, got, want)
			}
		})
	}
}

// TestCallsCarryNothingButTheProxysOwn: no header of a client can be among them.
func TestCallsCarryNothingButTheProxysOwn(t *testing.T) {
	for _, key := range []string{"", "sk-engine"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, map[string]string{"/v1/models": models, "/v1/chat/completions": "{}"})
			e := open(t, engine.Config{APIKey: key}, f.line.dial)
			if err := e.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			resp, err := e.Chat(t.Context(), []byte(`{"a":1}`))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			chat := f.seen("/v1/chat/completions")[0]
			if chat.method != http.MethodPost || chat.body != `{"a":1}` || chat.header.Get("Content-Type") != "application/json" {
				t.Errorf("the engine got %+v", chat)
			}
			for _, c := range f.seen("") {
				want := http.Header{"User-Agent": {"oneslot"}, "Accept": {"text/event-stream, application/json"}}
				if c.method == http.MethodPost {
					want["Content-Type"], want["Content-Length"] = []string{"application/json"}, []string{"7"}
				}
				if key != "" {
					want["Authorization"] = []string{"Bearer " + key}
				}
				for name, values := range c.header {
					if !slices.Equal(want[name], values) {
						t.Errorf("%s: header %s is %q, want %q", c.path, name, values, want[name])
					}
				}
				if len(c.header) != len(want) {
					t.Errorf("%s: header is %v", c.path, c.header)
				}
			}
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]string{"/elsewhere": "{}"})
		f.handle("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://other.test/elsewhere", http.StatusTemporaryRedirect)
		})
		e := open(t, engine.Config{}, f.line.dial)
		resp, err := e.Chat(t.Context(), []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusTemporaryRedirect || len(f.seen("")) != 1 {
			t.Errorf("status %d after %v", resp.StatusCode, f.paths())
		}
	})
}

// TestChatOutlivesSilence: nothing here ends a run that takes long.
func TestChatOutlivesSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.handle("/v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(40 * time.Minute)
			_, _ = io.WriteString(w, "late")
		})
		e := open(t, engine.Config{Headers: time.Minute}, f.line.dial)
		if e.Headers() != time.Minute {
			t.Errorf("headers may take %v", e.Headers())
		}
		resp, err := e.Chat(t.Context(), []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, _ := io.ReadAll(resp.Body); string(text) != "late" {
			t.Errorf("got %q", text)
		}
	})
}

// TestIdleConnectionsAreLeftInTime: the engines close theirs after 5 s.
func TestIdleConnectionsAreLeftInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]string{"/v1/models": models})
		dials := 0
		e := open(t, engine.Config{}, nil)
		_ = e // the default dialer is made as well
		e = open(t, engine.Config{}, func(ctx context.Context, network, address string) (net.Conn, error) {
			dials++
			return f.line.dial(ctx, network, address)
		})
		for _, x := range []struct {
			wait time.Duration
			want int
		}{{0, 1}, {1900 * time.Millisecond, 1}, {2100 * time.Millisecond, 2}} {
			<-time.After(x.wait)
			if err := e.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			if dials != x.want {
				t.Errorf("%d connections after a pause of %v, want %d", dials, x.wait, x.want)
			}
		}
	})
}

func TestRunIDs(t *testing.T) {
	a, b := engine.NewRunID(), engine.NewRunID()
	if a == b || len(a) != 32 || strings.Trim(a, "0123456789abcdef") != "" {
		t.Errorf("ids are %q and %q", a, b)
	}
}

func TestAbort(t *testing.T) {
	for _, x := range []struct {
		name     string
		dialect  string
		sole     bool
		status   int
		abort    func(context.Context, *engine.Engine) error
		want     string // body that arrives; empty: no call
		cannot   bool
		otherErr bool
	}{
		{"by id", "sglang", true, 200, abortOne, `{"rid":"0123"}`, false, false},
		{"all", "sglang", true, 200, abortAll, `{"rid":"","abort_all":true}`, false, false},
		{"all, but others use it", "sglang", false, 200, abortAll, ``, false, false},
		{"by id, although others use it", "sglang", false, 200, abortOne, `{"rid":"0123"}`, false, false},
		{"no endpoint", "sglang", true, 404, abortOne, `{"rid":"0123"}`, true, false},
		{"not allowed", "sglang", true, 403, abortOne, `{"rid":"0123"}`, true, false},
		{"a failure", "sglang", true, 500, abortOne, `{"rid":"0123"}`, false, true},
		{"vLLM", "vllm", true, 200, abortOne, ``, true, false},
		{"llama.cpp", "llamacpp", true, 200, abortAll, ``, true, false},
		{"any other", "openai", true, 200, abortOne, ``, true, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]string{"/v1/models": models})
				f.reply("/abort_request", x.status, "")
				e := open(t, engine.Config{Dialect: x.dialect, SoleClient: x.sole}, f.line.dial)
				err := x.abort(t.Context(), e)
				if errors.Is(err, engine.ErrCannotAbort) != x.cannot || (err != nil) != (x.cannot || x.otherErr) {
					t.Errorf("got %v", err)
				}
				got := ""
				if calls := f.seen("/abort_request"); len(calls) > 0 {
					got = calls[0].body
				}
				if got != x.want {
					t.Errorf("the engine got %q, want %q", got, x.want)
				}
			})
		})
	}
}

func abortOne(ctx context.Context, e *engine.Engine) error { return e.Abort(ctx, "0123") }
func abortAll(ctx context.Context, e *engine.Engine) error { return e.AbortAll(ctx) }

func TestCount(t *testing.T) {
	for _, dialect := range []simengine.Dialect{simengine.SGLang, simengine.VLLM, simengine.LlamaCPP} {
		t.Run(string(dialect), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, _ := simulated(t, engine.Config{}, simengine.Config{Dialect: dialect})
				one, err := e.Count(t.Context(), "word")
				if err != nil || one == 0 {
					t.Fatalf("one word has %d tokens, %v", one, err)
				}
				if three, err := e.Count(t.Context(), "word \"word\"\nword"); err != nil || three <= one {
					t.Errorf("three words have %d tokens, one has %d: %v", three, one, err)
				}
				if none, err := e.Count(t.Context(), ""); err != nil || none != 0 {
					t.Errorf("nothing has %d tokens, %v", none, err)
				}
			})
		})
	}
}

// TestEncodePrompt holds the tokens to what the same engine says of a run: no
// begin token too many, and none too few.
func TestEncodePrompt(t *testing.T) {
	const messages = `[{"role":"user","content":"how many words are these?"}]`
	for _, dialect := range []simengine.Dialect{simengine.SGLang, simengine.VLLM, simengine.LlamaCPP} {
		t.Run(string(dialect), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, sim := simulated(t, engine.Config{}, simengine.Config{Dialect: dialect, TokensPerSecond: simengine.Fast, PrefillTokensPerSecond: simengine.Fast})
				ids, err := e.EncodePrompt(t.Context(), []openai.Member{{Key: "messages", Raw: messages}})
				if err != nil {
					t.Fatal(err)
				}
				resp, err := e.Chat(t.Context(), []byte(`{"model":"ripple","max_tokens":1,"messages":`+messages+`}`))
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if run := sim.Stats().Runs[0]; run.PromptTokens != len(ids) {
					t.Errorf("%d tokens, the run had %d", len(ids), run.PromptTokens)
				}
			})
		})
	}
}

// TestEncode: text has the tokens that are counted, and the same text the same.
func TestEncode(t *testing.T) {
	for _, dialect := range []simengine.Dialect{simengine.SGLang, simengine.VLLM, simengine.LlamaCPP} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := simulated(t, engine.Config{}, simengine.Config{Dialect: dialect})
			const text = "so one user</think> asks \"about\" one"
			n, err := e.Count(t.Context(), text)
			ids, err2 := e.Encode(t.Context(), text)
			if err != nil || err2 != nil || len(ids) != n {
				t.Fatalf("%s: %d ids, %d counted, %v, %v", dialect, len(ids), n, err, err2)
			}
			again, _ := e.Encode(t.Context(), text+" more")
			if !slices.Equal(again[:n], ids) {
				t.Errorf("%s: %v, then %v", dialect, ids, again)
			}
		})
	}
}

func TestEncodePromptAsksForAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]string{"/v1/models": models, "/server_info": serverInfo, "/tokenize": `{"tokens":[1,2,3],"count":3}`})
		e := open(t, engine.Config{}, f.line.dial)
		ids, err := e.EncodePrompt(t.Context(), []openai.Member{{Key: "messages", Raw: "[]"}, {Key: "tools", Raw: "[1]"}, {Key: "chat_template_kwargs", Raw: ""}})
		if err != nil || !slices.Equal(ids, []uint32{1, 2, 3}) {
			t.Errorf("got %v, %v", ids, err)
		}
		if got, want := f.seen("/tokenize")[0].body, `{"model":"tiny","messages":[],"tools":[1]}`; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	})
}

// TestEncodeTextToComplete: such a prompt has no template, but a begin token, or is
// a list of tokens already.
func TestEncodeTextToComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]string{"/v1/models": models, "/server_info": serverInfo, "/tokenize": `{"tokens":[1,2,3],"count":3}`})
		e := open(t, engine.Config{}, f.line.dial)
		for prompt, want := range map[string][]uint32{`"a \"b\""`: {1, 2, 3}, `[7,8]`: {7, 8}} {
			ids, err := e.EncodePrompt(t.Context(), []openai.Member{{Key: "messages"}, {Key: "prompt", Raw: prompt}})
			if err != nil || !slices.Equal(ids, want) {
				t.Errorf("%s: %v, %v", prompt, ids, err)
			}
		}
		if calls := f.seen("/tokenize"); len(calls) != 1 || calls[0].body != `{"prompt":"a \"b\"","add_special_tokens":true}` {
			t.Errorf("asked %v", calls)
		}
		if _, err := e.EncodePrompt(t.Context(), []openai.Member{{Key: "prompt", Raw: `{}`}}); !errors.Is(err, engine.ErrUncounted) {
			t.Errorf("no text: %v", err)
		}
	})
}

// TestBeginToken: llama.cpp's template does not write it, and its tokenizer is
// told to put it there.
func TestBeginToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]string{"/v1/models": models, "/props": props, "/apply-template": `{"prompt":"<bos>\"hi\""}`, "/tokenize": `{"tokens":[2,7]}`})
		e := open(t, engine.Config{}, f.line.dial)
		ids, err := e.EncodePrompt(t.Context(), []openai.Member{{Key: "messages", Raw: "[]"}})
		if err != nil || len(ids) != 2 {
			t.Errorf("got %v, %v", ids, err)
		}
		if got, want := f.seen("/tokenize")[0].body, `{"content":"<bos>\"hi\"","add_special":true,"parse_special":true}`; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	})
}

func TestCountWithoutAnEndpoint(t *testing.T) {
	for _, x := range []struct {
		name, dialect string
		status        int
		text          string
		cannot        bool
	}{
		{"missing", "sglang", 404, "", true},
		{"missing at llama.cpp", "llamacpp", 404, "", true},
		{"of another kind", "openai", 200, "", true},
		{"an answer without a count", "sglang", 200, `{"tokens":[]}`, true},
		{"no JSON", "vllm", 200, "hello", true},
		{"a failure", "sglang", 500, "", false},
		{"not made for posts", "vllm", 405, "", true},
		{"not made", "sglang", 501, "", true},
		{"this text refused", "sglang", 400, "", false},
		{"this text refused by llama.cpp", "llamacpp", 422, "", false},
		{"not for us", "vllm", 403, "", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]string{"/v1/models": models})
				f.reply("/tokenize", x.status, x.text)
				f.reply("/apply-template", x.status, x.text)
				e := open(t, engine.Config{Dialect: x.dialect}, f.line.dial)
				_, one := e.Count(t.Context(), "a")
				_, two := e.EncodePrompt(t.Context(), nil)
				if one == nil || two == nil || errors.Is(one, engine.ErrCannotCount) != x.cannot || errors.Is(two, engine.ErrCannotCount) != x.cannot {
					t.Errorf("got %v and %v", one, two)
				}
			})
		})
	}
}

// TestMoreHeaders: what the context carries goes with the run, and only with it.
func TestMoreHeaders(t *testing.T) {
	var got http.Header
	f := newFake(t, map[string]string{"/v1/models": `{"data":[]}`})
	f.handle("/v1/chat/completions", func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() })
	e := open(t, engine.Config{APIKey: "k"}, f.line.dial)
	ctx := engine.WithHeader(t.Context(), http.Header{"Traceparent": {"00-1"}})
	resp, err := e.Chat(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got.Get("Traceparent") != "00-1" || got.Get("Authorization") != "Bearer k" {
		t.Errorf("the run has %v", got)
	}
	if resp, err = e.Chat(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got.Get("Traceparent") != "" {
		t.Errorf("the next run has %v", got)
	}
}
