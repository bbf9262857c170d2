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
)

// The failure cases of category C: what the ledger says of a request.

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
