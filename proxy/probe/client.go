package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"oneslot/internal/openai"

	"github.com/tidwall/gjson"
)

const (
	smallTime  = 10 * time.Second // for a call that is no test request
	smallReply = 8 << 20          // bytes
)

// caller makes the calls for which package engine has no name.
type caller struct {
	base, key string
	client    *http.Client
}

func newCaller(cfg *Config) *caller {
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	}
	return &caller{
		base: strings.TrimRight(strings.TrimSuffix(strings.TrimRight(cfg.URL, "/"), "/v1"), "/"), key: cfg.APIKey,
		client: &http.Client{
			// llama.cpp's server closes the connection after a stream without a word.
			Transport:     &http.Transport{DialContext: dial, DisableCompression: true, DisableKeepAlives: true, TLSHandshakeTimeout: smallTime},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// send sends a request. The caller closes the body.
func (c *caller) send(ctx context.Context, path, body string) (*http.Response, error) {
	method, payload := http.MethodGet, io.Reader(nil)
	if body != "" {
		method, payload = http.MethodPost, strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "oneslot")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return c.client.Do(req)
}

// An answer is what came back from a small call.
type answer struct {
	call   string // method and path
	status int    // 0: nothing came
	body   string
	err    error
}

func (a answer) ok() bool { return a.err == nil && a.status == http.StatusOK }

// get is a GET, post a POST of a JSON object. Both only read.
func (c *caller) get(ctx context.Context, path string) answer { return c.small(ctx, path, "") }

func (c *caller) post(ctx context.Context, path, body string) answer { return c.small(ctx, path, body) }

func (c *caller) small(ctx context.Context, path, body string) answer {
	ctx, cancel := context.WithTimeout(ctx, smallTime)
	defer cancel()
	a := answer{call: "GET " + path}
	if body != "" {
		a.call = "POST " + path
	}
	resp, err := c.send(ctx, path, body)
	if err != nil {
		a.err = err
		return a
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, smallReply))
	a.status, a.body, a.err = resp.StatusCode, string(text), err
	return a
}

// evidence shows an answer whole, if it is short.
func (a answer) evidence() Evidence { return a.saying(a.body) }

// saying shows an answer with text in place of its body.
func (a answer) saying(text string) Evidence {
	if a.err != nil {
		return Evidence{a.call, "no answer: " + short(cause(a.err), replyWidth)}
	}
	return Evidence{a.call, short(fmt.Sprintf("%d %s", a.status, text), replyWidth)}
}

// showing shows the named members of an answer that is an object, and no other:
// an engine's settings may hold keys. Where there is none of them, or no answer,
// it shows what is there.
func (a answer) showing(members ...string) Evidence {
	if !a.ok() {
		return a.evidence()
	}
	var parts []string
	for _, m := range members {
		if v := gjson.Get(a.body, m); v.Exists() {
			parts = append(parts, fmt.Sprintf("%q: %s", m, v.Raw))
		}
	}
	if parts == nil {
		return a.saying("without " + strings.Join(members, ", "))
	}
	return a.saying("{" + strings.Join(parts, ", ") + "}")
}

// cause is the innermost reason of a failed call: the outer ones repeat the
// address.
func cause(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[i+2:]
	}
	return text
}

// A reply is what came back from a question, as far as it came.
type reply struct {
	call              string
	status            int
	fault             string // why there is no finish, or what the engine refused
	thinking, content string
	field             string // the name of the field that thinking came in
	toolCall          bool
	untilCall         string // content before the first tool call
	finish            string
	running           bool // totals came beside the text
	prompt            int  // tokens; these are -1 if not told
	completion        int
	cached            int
}

func (r *reply) done() bool { return r.finish != "" }

// evidence shows the reply.
func (r *reply) evidence() Evidence {
	if !r.done() {
		return Evidence{r.call, short(r.fault, replyWidth)}
	}
	var parts []string
	if r.field != "" {
		parts = append(parts, r.field+" "+bothEnds(r.thinking))
	}
	if r.content != "" || r.field == "" {
		parts = append(parts, "content "+bothEnds(r.content))
	}
	if r.toolCall {
		parts = append(parts, "a tool call")
	}
	parts = append(parts, "finish "+r.finish)
	if r.prompt >= 0 {
		parts = append(parts, fmt.Sprintf("%d+%d tokens", r.prompt, r.completion))
	}
	return Evidence{r.call, strings.Join(parts, ", ")}
}

// event reads one event and reports whether it brought text.
func (r *reply) event(data string) bool {
	c, err := openai.ParseChunk(data)
	if err != nil { // [DONE], which proves nothing
		return false
	}
	if c.Error != "" {
		r.fault = "an error in the stream: " + c.Error
	}
	r.thinking, r.content = r.thinking+c.Reasoning, r.content+c.Content
	for _, name := range []string{"reasoning", "reasoning_content"} {
		if gjson.Get(data, "choices.0.delta."+name).String() != "" {
			r.field = name
		}
	}
	if c.ToolCalls != "" && !r.toolCall {
		r.toolCall, r.untilCall = true, r.content
	}
	if c.FinishReason != "" {
		r.finish = c.FinishReason
	}
	said := c.Content != "" || c.Reasoning != ""
	r.running = r.running || said && (gjson.Get(c.Usage, "completion_tokens").Exists() || gjson.Get(c.Timings, "predicted_n").Exists())
	r.totals(c.Usage)
	return said
}

func (r *reply) totals(usage string) {
	read := func(path string, to *int) {
		if v := gjson.Get(usage, path); v.Type == gjson.Number {
			*to = int(v.Int())
		}
	}
	read("prompt_tokens", &r.prompt)
	read("completion_tokens", &r.completion)
	read("prompt_tokens_details.cached_tokens", &r.cached)
}
