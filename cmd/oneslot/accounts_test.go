package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"oneslot/internal/openai"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// The failure cases of category C: what the ledger says of a request. Those that
// are not in the table: B063, own counts of a prompt, is TestEncodePrompt and
// TestBeginToken of proxy/engine and TestPromptOfARunThatToldNothing of proxy.

// several reports whether a case asks for more than one choice. Such requests
// are refused here, before they wait for a slot that cannot serve them.
func (f failure) several() bool {
	var o struct{ N int }
	return json.Unmarshal(f.Request, &o) == nil && o.N > 1
}

func (f failure) checkRefused(t *testing.T, p *proxyUnderTest, r reply) {
	t.Helper()
	if r.status != http.StatusBadRequest || !strings.Contains(r.body, `"param":"n"`) || !strings.Contains(r.body, `"code":"unsupported_value"`) {
		t.Errorf("got %d %s", r.status, r.body)
	}
	if n := len(p.engine.Stats().Runs); n > 0 {
		t.Errorf("the engine saw %d requests", n)
	}
	record := p.record(r)
	if record["outcome"] != "rejected" || tokens(record, "completion") != 0.0 || tokens(record, "prompt") != nil {
		t.Errorf("the ledger says %v", record)
	}
}

var (
	ruleBound  = regexp.MustCompile(`^(?:(\d+)<=)?([a-z+]+)(>=|<=|==)(.+)$`)
	ruleEncode = regexp.MustCompile(`^len\(encode\('(.*)'\)\)$`)
)

// checkRule holds a row of the ledger to the rules of a case, such as
// "2<=thinking<=40, thinking+answer==40, source=estimate".
func checkRule(t *testing.T, p *proxyUnderTest, r reply, rules string) {
	t.Helper()
	record := p.record(r)
	for rule := range strings.SplitSeq(rules, ", ") {
		switch rule {
		case "source=estimate": // or better: the engine of these cases has a tokenizer
			if s := source(record, "thinking"); s != "estimate" && s != "tokenizer" {
				t.Errorf("the source of thinking is %v", s)
			}
		case "status=incomplete":
			if record["outcome"] != "engine_failed" || record["finish_reason"] != nil {
				t.Errorf("the outcome is %v, the finish reason %v", record["outcome"], record["finish_reason"])
			}
		default:
			p.checkBounds(record, rule)
		}
	}
}

// checkBounds holds figures, or their sum, to numbers.
func (p *proxyUnderTest) checkBounds(record map[string]any, rule string) {
	p.t.Helper()
	m := ruleBound.FindStringSubmatch(rule)
	if m == nil {
		p.t.Fatalf("nothing here checks the rule %q", rule)
	}
	got := 0
	for name := range strings.SplitSeq(m[2], "+") {
		n, ok := tokens(record, name).(float64)
		if !ok {
			p.t.Errorf("%s is unknown: %v", name, record["tokens"])
		}
		got += int(n)
	}
	low, _ := strconv.Atoi(m[1])
	want, err := strconv.Atoi(m[4])
	if e := ruleEncode.FindStringSubmatch(m[4]); e != nil {
		want, err = p.encoded(e[1]), nil
	}
	holds := map[string]bool{">=": got >= want, "<=": got <= want, "==": got == want}
	if err != nil || got < low || !holds[m[3]] {
		p.t.Errorf("%s does not hold: it is %d, of %d (%v)", rule, got, want, err)
	}
}

// source is where one figure of a record comes from.
func source(record map[string]any, name string) any {
	all, _ := record["tokens"].(map[string]any)
	one, _ := all[name].(map[string]any)
	return one["source"]
}

// encoded is how many tokens the engine's own tokenizer makes of a text.
func (p *proxyUnderTest) encoded(text string) int {
	p.t.Helper()
	w := httptest.NewRecorder()
	body := strings.NewReader(`{"prompt":` + openai.String(text) + `}`)
	p.engine.ServeHTTP(w, httptest.NewRequestWithContext(p.t.Context(), http.MethodPost, "/tokenize", body))
	var out struct{ Count int }
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Count == 0 {
		p.t.Fatalf("the tokenizer answered %s", w.Body)
	}
	return out.Count
}

// TestUsageInTheResponse: what a client is told of its tokens, and only if it asks;
// drafts and what else the engine says pass on, and the ledger has the same.
func TestUsageInTheResponse(t *testing.T) {
	const told = `"usage":{"prompt_tokens":10,"completion_tokens":7,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":4,"accepted_prediction_tokens":5,"rejected_prediction_tokens":11},"later":{"x":1}}`
	run := script.Script{
		chunk(`{"content":"r</think>a"}`, ""),
		script.Write(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + `data: {"choices":[],` + told + "}\n\ndata: [DONE]\n\n"),
	}
	const settings = raw + "\nengines: [{name: spark, url: \"http://engine.test\", model: ripple, dialect: openai}]\n"
	for options, want := range map[string]string{
		"": "null",
		`"stream_options":{"include_usage":false},`:                       "null",
		`"stream_options":{"include_usage":true},`:                        `{"completion_tokens":7,"completion_tokens_details":{"accepted_prediction_tokens":5,"reasoning_tokens":4,"rejected_prediction_tokens":11,"text_tokens":3},"later":{"x":1},"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":6},"total_tokens":17}`,
		`"stream_options":{"include_usage":true,"include_sources":true},`: `{"completion_tokens":7,"completion_tokens_details":{"accepted_prediction_tokens":5,"reasoning_tokens":4,"rejected_prediction_tokens":11,"text_tokens":3},"later":{"x":1},"oneslot":{"sources":{"answer":"engine_split","cached_prompt":"engine","completion":"engine","drafts_accepted":"engine","prompt":"engine","thinking":"engine_split"}},"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":6},"total_tokens":17}`,
	} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{Scripts: []script.Script{run}}, settings)
			r := p.post(t.Context(), `{"model":"ripple","stream":true,`+options+`"messages":[{"role":"user","content":"hi"}]}`, nil)
			if got := asJSON(t, r.answer(t).usage); got != want {
				t.Errorf("%s\ngot  %s\nwant %s", options, got, want)
			}
			record := p.record(r)
			if tokens(record, "drafts_accepted") != 5.0 || source(record, "drafts_accepted") != "engine" || tokens(record, "cached_prompt") != 6.0 {
				t.Errorf("the ledger says %v", record["tokens"])
			}
			for _, name := range []string{"X-Request-Id", "X-Oneslot-Wait-Ms"} {
				if r.header.Get(name) == "" {
					t.Errorf("no %s: %v", name, r.header)
				}
			}
		})
	}
}

// TestCachedIsLeftOutWhenUnknown: the client of an engine that has a cache and does
// not tell gets no figure with its first request, and one with its second.
func TestCachedIsLeftOutWhenUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{RadixCache: true}, "")
		for i, want := range []any{nil, 10.0} {
			r := p.post(t.Context(), `{"model":"ripple","messages":[{"role":"user","content":"hi"}]}`, nil)
			details, _ := r.answer(t).usage["prompt_tokens_details"].(map[string]any)
			if got := details["cached_tokens"]; got != want || tokens(p.record(r), "cached_prompt") != want {
				t.Errorf("request %d: %v and %v, want %v", i, got, tokens(p.record(r), "cached_prompt"), want)
			}
		}
	})
}
