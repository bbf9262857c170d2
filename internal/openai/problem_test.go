package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"oneslot/internal/openai"
)

// envelope is the error object as an SDK reads it.
type envelope struct {
	Error struct {
		Message, Type *string
		Param, Code   *string
	}
}

// TestRename: only whole names, in the param and where the message quotes them.
func TestRename(t *testing.T) {
	names := openai.Names{"stop": "stop_sequences", "a": "b.c", "b": "d"}
	for _, c := range []struct{ param, message, renamed, said string }{
		{"stop", "'stop' stops; 'stopped' and stop do not.", "stop_sequences", "'stop_sequences' stops; 'stopped' and stop do not."},
		{"a[3].x", "'a[3].x' is 5.", "b.c[3].x", "'b.c[3].x' is 5."},
		{"b", "'b', not 'a' or 'n.a'.", "d", "'d', not 'b.c' or 'n.a'."},
		{"ab", "'ab'", "ab", "'ab'"},
		{"", "", "", ""},
	} {
		p := openai.Invalid(c.param, "code", "%s", c.message)
		var got *openai.Problem
		if err := names.Rename(p); !errors.As(err, &got) || got.Param != c.renamed || got.Message != c.said || got.Code != "code" {
			t.Errorf("%q is %q: %s", c.param, got.Param, got.Message)
		}
		if p.Param != c.param || p.Message != c.message {
			t.Errorf("the original is changed: %+v", p)
		}
		if got := openai.Names(nil).Rename(p); !errors.Is(got, p) {
			t.Errorf("without names: %v", got)
		}
	}
	if err := names.Rename(io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("another error is %v", err)
	}
}

func read(t *testing.T, p *openai.Problem) envelope {
	t.Helper()
	raw := string(p.JSON())
	var e envelope
	dec := json.NewDecoder(strings.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil || e.Error.Message == nil || e.Error.Type == nil {
		t.Fatalf("%s: %v", raw, err)
	}
	for _, key := range []string{"message", "type", "param", "code"} {
		if !strings.Contains(raw, `"`+key+`":`) {
			t.Errorf("%s has no %s", raw, key)
		}
	}
	if strings.ContainsAny(raw, "\n\r") {
		t.Errorf("not one line: %q", raw)
	}
	return e
}

func TestProblemJSON(t *testing.T) {
	p := &openai.Problem{Status: 400, Type: "invalid_request_error", Message: "a\n\"b\""}
	want := `{"error":{"message":"a\n\"b\"","type":"invalid_request_error","param":null,"code":null}}`
	if got := string(p.JSON()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p.Param, p.Code = "messages", "x"
	read(t, p)
	inside, err := json.Marshal(map[string]any{"last": p})
	if err != nil || string(inside) != `{"last":`+string(p.JSON())+`}` {
		t.Errorf("inside another value it is %s, %v", inside, err)
	}
	if p.Error() != p.Message {
		t.Errorf("as an error it says %q", p.Error())
	}
}

// secrets are what must not get out: paths, frames, addresses of the engine.
var secrets = regexp.MustCompile(`/\w+/\w+|site-packages|\.py\b|line \d+, in|Traceback`)

// TestEngineProblemRecordings reads every refusal of real engines.
func TestEngineProblemRecordings(t *testing.T) {
	for _, engine := range []string{"sglang", "vllm", "llama-server"} {
		text, err := os.ReadFile("testdata/" + engine + "/errors.json")
		if err != nil {
			t.Fatal(err)
		}
		var list []struct {
			Case, Body string
			Status     int
		}
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range list {
			if r.Status < 400 {
				continue
			}
			n++
			t.Run(engine+"/"+r.Case, func(t *testing.T) {
				p := openai.EngineProblem(r.Status, r.Body)
				e := read(t, p)
				want := r.Status
				if r.Status >= 500 {
					want = 502
				}
				if p.Status != want {
					t.Errorf("status %d became %d", r.Status, p.Status)
				}
				if m := secrets.FindString(*e.Error.Message); m != "" {
					t.Errorf("the message gives %q away: %q", m, *e.Error.Message)
				}
				if strings.Contains(r.Case, "context") || r.Case == "max_tokens 1e6" {
					if p.Code != "context_length_exceeded" {
						t.Errorf("code is %q: %s", p.Code, p.Message)
					}
				}
				if len(*e.Error.Message) < 10 {
					t.Errorf("the message says nothing: %q of %q", *e.Error.Message, r.Body)
				}
				if r.Status < 500 && *e.Error.Type != "invalid_request_error" {
					t.Errorf("type is %q", *e.Error.Type)
				}
			})
		}
		if n < 15 {
			t.Errorf("%s: only %d refusals are recorded", engine, n)
		}
	}
}

func TestEngineProblem(t *testing.T) {
	for _, c := range []struct {
		name       string
		status     int
		body       string
		want       int
		kind, code string
		param      string
		message    string
	}{
		{"SGLang's flat form", 400, `{"object":"error","message":"Messages cannot be empty.","type":"BadRequestError","param":null,"code":400}`, 400, "invalid_request_error", "", "", "Messages cannot be empty."},
		{"vLLM's field", 400, `{"error":{"message":"bad","param":"body.messages.0.role","code":400}}`, 400, "invalid_request_error", "", "messages.0.role", "bad"},
		{"vLLM's body", 400, `{"error":{"message":"bad","param":"body","code":400}}`, 400, "invalid_request_error", "", "", "bad"},
		{"vLLM's prompt", 400, `{"error":{"message":"This model's maximum context length is 8 tokens.","param":"input_text"}}`, 400, "invalid_request_error", "context_length_exceeded", "messages", "This model's maximum context length is 8 tokens."},
		{"a code of words", 404, `{"error":{"message":"no","code":"model_not_found"}}`, 404, "invalid_request_error", "model_not_found", "", "no"},
		{"FastAPI's detail", 405, `{"detail":"Method Not Allowed"}`, 405, "invalid_request_error", "", "", "Method Not Allowed"},
		{"FastAPI's list", 422, `{"detail":[{"msg":"x"}]}`, 422, "invalid_request_error", "", "", `[{"msg":"x"}]`},
		{"error as text", 400, `{"error":"just text"}`, 400, "invalid_request_error", "", "", "just text"},
		{"plain text", 400, "  plain text\n", 400, "invalid_request_error", "", "", "plain text"},
		{"no text", 400, "", 400, "invalid_request_error", "", "", "The engine refused the request with status 400 and no text."},
		{"JSON that says nothing", 400, "{}", 400, "invalid_request_error", "", "", "The engine refused the request with status 400 and no text."},
		{"too many", 429, `{"error":{"message":"slow down"}}`, 429, "rate_limit_error", "", "", "slow down"},
		{"busy", 503, `{"error":{"message":"/srv/secret/x.py","param":"/a/b","code":"x"}}`, 503, "service_unavailable_error", "engine_down", "", "The engine is busy or not ready. Try again later."},
		{"failed", 500, "trace /home/svc/x.py token sk-CANARY", 502, "server_error", "upstream_error", "", "The engine failed on this request. Its own log says why."},
		{"a redirect", 302, "", 502, "server_error", "upstream_error", "", "The engine failed on this request. Its own log says why."},
		{"the proxy's key", 401, `{"error":"Unauthorized"}`, 502, "server_error", "upstream_error", "", "The engine refused the proxy's own credentials. The operator has to correct the engine's api_key."},
		{"paths", 400, `{"message":"see /usr/lib/python3/x.py and <site-packages>/a/b.py or C:\\Users\\me\\x.py, not /v1/chat/completions or and/or"}`, 400, "invalid_request_error", "", "", "see … and … or …, not /v1/chat/completions or and/or"},
		{"frames", 400, "bad input\n  File \"/a/b.py\", line 3, in f\n    secret()", 400, "invalid_request_error", "", "", "bad input"},
		{"a traceback alone", 400, "Traceback (most recent call last):\n  File \"x\"", 400, "invalid_request_error", "", "", "The engine refused the request with status 400 and no text."},
		{"a param that is no name", 400, `{"error":{"message":"m","param":"/etc/passwd x","code":"/a/b"}}`, 400, "invalid_request_error", "", "", "m"},
		{"nested without end", 400, strings.Repeat("[", 5000), 400, "invalid_request_error", "", "", "The engine refused the request with status 400 and no text."},
		{"deep without end", 400, strings.Repeat(`{"error":`, 5000), 400, "invalid_request_error", "", "", "The engine refused the request with status 400 and no text."},
		{"JSON cut off", 400, `{"object":"error","message":"bad\n  File \"/a/b.py\", line 3, in f`, 400, "invalid_request_error", "", "", "The engine refused the request with status 400 and no text."},
		{"JSON cut off behind the message", 400, `{"object":"error","message":"bad","type":"Ba`, 400, "invalid_request_error", "", "", "bad"},
		{"a list", 400, `[{"message":"x"}]`, 400, "invalid_request_error", "", "", "The engine refused the request with status 400 and no text."},
		{"a character cut", 400, strings.Repeat("x", 1999) + "é", 400, "invalid_request_error", "", "", strings.Repeat("x", 1999) + "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := openai.EngineProblem(c.status, c.body)
			got := fmt.Sprintf("%d %s %q %q %q", p.Status, p.Type, p.Code, p.Param, p.Message)
			want := fmt.Sprintf("%d %s %q %q %q", c.want, c.kind, c.code, c.param, c.message)
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			read(t, p)
		})
	}
}
