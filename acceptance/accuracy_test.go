package acceptance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"

	"oneslot/acceptance/stack"
)

// TestAccuracy holds the counts of two hundred streams to the engine's own token
// ids: each reply is made once more by the engine's native route, which tells
// them. The tokenizer is the model's, so that every count has to be exact.
func TestAccuracy(t *testing.T) {
	const seeds = 100
	for _, split := range []stack.Split{stack.ByProxy, stack.ByEngine} {
		t.Run("split by "+string(split), func(t *testing.T) {
			p := connect(t, split)
			var runs, thinking, answer int
			sources := map[string]int{}
			for seed := range int64(seeds) {
				params := question(p.engine, seed)
				q := stack.Question{Text: "Wie lange dauert es?", Seed: seed}
				if seed%10 == 9 { // some end in the middle
					q.MaxTokens = 3 + seed/2
					params.MaxCompletionTokens = openai.Int(q.MaxTokens)
				}
				want := p.engine.Reply(t, q)
				got := stream(t, p.proxy, params)
				row := closed(t, p.proxy, got.id, "served")
				runs++
				sources[row.Tokens["thinking"].Source]++
				if n := row.Of(t, "thinking"); n != want.ThinkingTokens {
					thinking++
					t.Errorf("seed %d: %d thinking tokens (%s), the engine made %d: %q", seed, n, row.Tokens["thinking"].Source, want.ThinkingTokens, got.thinking)
				}
				if n := row.Of(t, "answer"); n != want.CompletionTokens-want.ThinkingTokens {
					answer++
				}
				if row.Of(t, "completion") != want.CompletionTokens || row.Of(t, "prompt") != want.PromptTokens {
					t.Errorf("seed %d: %+v, the engine counted %d and %d", seed, row.Tokens, want.PromptTokens, want.CompletionTokens)
				}
			}
			t.Logf("measured: split by %s: %d streams, thinking wrong in %d, answer wrong in %d, sources of thinking %v", split, runs, thinking, answer, sources)
		})
	}
}

// silent is an engine that tells nothing of its cache, in front of the real one,
// and remembers what that told. One that is mute does not tokenize prompts either.
type silent struct {
	mu   sync.Mutex
	told []int // cached tokens of each request
}

var (
	cachedTokens = regexp.MustCompile(`"prompt_tokens_details":\{"cached_tokens":(\d+)\}`)
	cachedTiming = regexp.MustCompile(`"cache_n":\d+,?`)
)

func silence(t *testing.T, engine *stack.Engine, mute bool) (*silent, *stack.Engine) {
	t.Helper()
	s := &silent{}
	target, err := url.Parse(engine.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true}, // the engine closes connections without a word
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
				return nil
			}
			body, err := io.ReadAll(r.Body) // the replies are short
			if err != nil {
				return err
			}
			if m := cachedTokens.FindSubmatch(body); m != nil {
				n := 0
				_, _ = fmt.Sscan(string(m[1]), &n)
				s.mu.Lock()
				s.told = append(s.told, n)
				s.mu.Unlock()
			}
			body = cachedTokens.ReplaceAll(body, []byte(`"prompt_tokens_details":null`))
			body = cachedTiming.ReplaceAll(body, nil)
			r.Body = io.NopCloser(bytes.NewReader(body))
			r.ContentLength = -1
			r.Header.Del("Content-Length")
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mute && r.URL.Path == "/apply-template" {
			http.NotFound(w, r)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return s, &stack.Engine{URL: server.URL, Model: engine.Model, Tokenizer: engine.Tokenizer}
}

// last is what the real engine told of the latest request.
func (s *silent) last(t *testing.T, n int) int {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.told) != n {
		t.Fatalf("the engine told of %d requests, not %d", len(s.told), n)
	}
	return s.told[n-1]
}

// talk is one message of a conversation.
type talk struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// TestCachedPrompt holds the prediction of cached prompt tokens to what the real
// engine tells, which is kept from the proxy: conversations that go on, take
// turns, are edited, and begin alike.
func TestCachedPrompt(t *testing.T) {
	by := []string{"the engine's tokens"}
	if os.Getenv("ONESLOT_TOKENIZER") == "yes" { // else the program is built without one
		by = append(by, "own tokens")
	}
	for _, by := range by {
		t.Run(by, func(t *testing.T) {
			mute := by == "own tokens"
			real := stack.StartEngine(t, stack.ByProxy)
			s, engine := silence(t, real, mute)
			proxy := stack.StartProxy(t, engine)
			c := cached{t: t, silent: s, engine: engine, proxy: proxy}
			c.converse()
			t.Logf("measured: cached by %s: %s", by, c.summary())
			if c.wrong*20 > c.known || c.off*100 > c.tokens*2 && !mute {
				t.Errorf("more than one in twenty is wrong: %s", c.summary())
			}
		})
	}
}

// cached adds up the predictions.
type cached struct {
	t      *testing.T
	silent *silent
	engine *stack.Engine
	proxy  *stack.Proxy

	asked, known, exact, wrong int
	off, worst, tokens         int // of known ones: summed and largest error, prompt tokens in all
}

func (c *cached) summary() string {
	return fmt.Sprintf("%d requests, %d predicted, %d exact, %d more than 2 %% of the prompt off, mean error %.2f tokens, largest %d, of %d prompt tokens on average",
		c.asked, c.known, c.exact, c.wrong, float64(c.off)/float64(max(c.known, 1)), c.worst, c.tokens/max(c.known, 1))
}

// converse has five conversations with the engine, one after the other and in
// turn.
func (c *cached) converse() {
	rules := strings.Repeat("maybe nobody waits, maybe twenty clients wait, they all share one slot. ", 30)
	var open [5][]talk
	for i := range open {
		open[i] = []talk{{"system", rules}, {"user", fmt.Sprintf("so one user asks about our queue %d times", i)}}
	}
	for turn := range 8 {
		for i := range open {
			answer := c.ask(open[i], int64(10*turn+i))
			open[i] = append(open[i], talk{"assistant", answer}, talk{"user", strings.Repeat("check that again, slowly ", 1+(turn+i)%7)})
		}
	}
	for turn := range 8 { // one of them alone
		answer := c.ask(open[0], int64(turn))
		open[0] = append(open[0], talk{"assistant", answer}, talk{"user", "step by step"})
	}
	for cut := 3; cut < 15; cut += 2 { // an earlier question is asked in another way
		c.ask(append(open[1][:cut:cut], talk{"user", "nothing is lost?"}), 1)
	}
	for range 3 { // and the same again
		c.ask(open[2], 3)
	}
	for i := range 6 { // questions without a history
		c.ask([]talk{{"user", strings.Repeat("wait, ", 10*(i+1))}}, int64(i))
	}
}

// ask sends a conversation, compares, and returns the answer.
func (c *cached) ask(messages []talk, seed int64) string {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{"model": c.engine.Model, "messages": messages, "seed": seed, "max_tokens": 40})
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request(c.t, http.MethodPost, c.proxy.URL+"/v1/chat/completions", string(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	var reply struct {
		ID      string
		Choices []struct{ Message talk }
	}
	if err := json.NewDecoder(response.Body).Decode(&reply); err != nil || len(reply.Choices) != 1 {
		c.t.Fatalf("%v: %s", err, response.Status)
	}
	row := closed(c.t, c.proxy, reply.ID, "served")
	c.asked++
	c.compare(row, c.silent.last(c.t, c.asked))
	return reply.Choices[0].Message.Content
}

func (c *cached) compare(row stack.Record, really int) {
	c.t.Helper()
	count := row.Tokens["cached_prompt"]
	if count.N == nil {
		if c.asked > 1 {
			c.t.Errorf("request %d: unknown, it was %d", c.asked, really)
		}
		return
	}
	if count.Source != "prefix_model" {
		c.t.Errorf("request %d: the source is %s", c.asked, count.Source)
	}
	prompt := int(row.Of(c.t, "prompt"))
	off := max(int(*count.N)-really, really-int(*count.N))
	c.known++
	c.tokens += prompt
	c.off += off
	c.worst = max(c.worst, off)
	switch {
	case off == 0:
		c.exact++
	case off*50 > prompt:
		c.wrong++
		c.t.Logf("request %d: %d predicted, %d of %d tokens were cached", c.asked, *count.N, really, prompt)
	}
}
