package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// failure is one line of testdata/cases.jsonl: a fault that was reported of a
// program of this kind, and what is right.
type failure struct {
	ID, Category, Title string
	Upstream            []json.RawMessage
	Request             json.RawMessage
	Config              struct {
		Start     string
		Keepalive *int `json:"keepalive_ms"`
	}
	Expect map[string]any `json:"expect_json"`
}

// markers are the pairs every case is run with; the last two share a prefix.
var markers = []struct{ open, close string }{
	{"<think>", "</think>"},
	{"◁think▷", "◁/think▷"},
	{"[REASON>>", "[REASON<<"},
}

func readFailures(t *testing.T) []failure {
	t.Helper()
	text, err := os.ReadFile("testdata/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out []failure
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var f failure
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		out = append(out, f)
	}
	return out
}

// TestCases plays every case that can be checked by machine through the whole
// program, with each pair of markers, streamed and not.
func TestCases(t *testing.T) {
	ran := 0
	for _, f := range readFailures(t) {
		if !strings.Contains("ABCE", f.Category) || f.Expect == nil {
			continue
		}
		ran++
		for i, m := range markers {
			for _, stream := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%d/stream=%v", f.ID, i+1, stream), func(t *testing.T) {
					t.Parallel()
					inBubble(t, func(t *testing.T) { f.play(t, m.open, m.close, stream) })
				})
			}
		}
	}
	if ran < 36 {
		t.Errorf("only %d cases ran; is the file whole?", ran)
	}
}

func (f failure) play(t *testing.T, open, close string, stream bool) {
	p := start(t, simengine.Config{RadixCache: true, Scripts: []script.Script{f.script(t, open, close)}}, f.settings(open, close))
	body := fill(string(f.Request), open, close, true)
	r := p.post(t.Context(), setStream(t, body, stream), nil)
	if f.several() {
		f.checkRefused(t, p, r)
		return
	}
	f.check(t, p, r, func(s string) string { return fill(s, open, close, false) })
}

// settings is the configuration that a case asks for.
func (f failure) settings(open, close string) string {
	beat := 10_000
	if f.Config.Keepalive != nil {
		beat = *f.Config.Keepalive
	}
	row, _ := json.Marshal([]map[string]any{{"name": "ripple", "open": []string{open}, "close": []string{close}, "starts_in": f.Config.Start}})
	text := fmt.Sprintf("queue: {heartbeat: %dms}\nformats: %s\n", beat, row)
	if f.Expect["ledger"] != nil {
		// These cases bring no tokenizer, and this dialect has none to ask.
		text += "engines: [{name: spark, url: \"http://engine.test\", model: ripple, dialect: openai}]\n"
	}
	return text
}

func setStream(t *testing.T, body string, stream bool) string {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		t.Fatal(err)
	}
	o["stream"] = stream
	out, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

var placeholder = regexp.MustCompile(`\{\{(OPEN|CLOSE)(?:\[(-?\d*):(-?\d*)\])?\}\}`)

// fill puts the markers, or slices of them by characters, in their places.
func fill(s, open, close string, escaped bool) string {
	return placeholder.ReplaceAllStringFunc(s, func(ph string) string {
		m := placeholder.FindStringSubmatch(ph)
		text := []rune(open)
		if m[1] == "CLOSE" {
			text = []rune(close)
		}
		if strings.Contains(ph, "[") {
			from, to := bound(m[2], 0, len(text)), bound(m[3], len(text), len(text))
			text = text[from:to]
		}
		if !escaped {
			return string(text)
		}
		raw, _ := json.Marshal(string(text))
		return string(raw[1 : len(raw)-1])
	})
}

func bound(s string, empty, n int) int {
	if s == "" {
		return empty
	}
	i, _ := strconv.Atoi(s)
	if i < 0 {
		i += n
	}
	return min(max(i, 0), n)
}

// script turns the upstream of a case into the steps of a simulated engine.
func (f failure) script(t *testing.T, open, close string) script.Script {
	t.Helper()
	var s script.Script
	for _, raw := range f.Upstream {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			s = append(s, writes(text, open, close)...)
			continue
		}
		s = append(s, f.step(t, raw))
	}
	return s
}

// writes is one write, or one for each character of a marker where {{OPEN[*]}}
// or {{CLOSE[*]}} stands.
func writes(text, open, close string) (out []script.Step) {
	for name, marker := range map[string]string{"{{OPEN[*]}}": open, "{{CLOSE[*]}}": close} {
		if !strings.Contains(text, name) {
			continue
		}
		for _, c := range marker {
			raw, _ := json.Marshal(string(c))
			out = append(out, script.Write(strings.Replace(text, name, string(raw[1:len(raw)-1]), 1)))
		}
		return out
	}
	return []script.Step{script.Write(fill(text, open, close, true))}
}

func (f failure) step(t *testing.T, raw json.RawMessage) script.Step {
	t.Helper()
	var o struct {
		Hex          string
		Repeat       int
		Char, In     string
		RepeatEvent  string `json:"repeat_event"`
		Times, Every int
		Sleep        int `json:"sleep_ms"`
		Close        string
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	switch {
	case o.Hex != "":
		b, err := hex.DecodeString(o.Hex)
		if err != nil {
			t.Fatal(err)
		}
		return script.Write(string(b))
	case o.Repeat > 0:
		return script.Write(strings.Replace(o.In, "@@", strings.Repeat(o.Char, o.Repeat), 1))
	case o.Sleep > 0:
		return script.Sleep(time.Duration(o.Sleep) * time.Millisecond)
	case o.Close == "eof":
		return script.End()
	case o.Close == "reset":
		return script.Reset()
	}
	t.Fatalf("%s: no such step: %s", f.ID, raw)
	return script.Step{}
}

// check compares what the client got and what the ledger says with the case.
func (f failure) check(t *testing.T, p *proxyUnderTest, r reply, fill func(string) string) {
	t.Helper()
	got := r.answer(t)
	stream := strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream")
	trim := func(key, s string) string {
		if list, _ := f.Expect["trim"].([]any); slices.Contains(list, any(key)) {
			return strings.TrimSpace(s)
		}
		return s
	}
	texts := map[string]string{"reasoning": got.reasoning, "content": got.content}
	failed := f.Expect["error"] == true
	for key, want := range f.Expect {
		switch key {
		case "reasoning", "content":
			if failed && !stream {
				continue // an answer that failed has no text
			}
			if trim(key, texts[key]) != fill(want.(string)) {
				t.Errorf("%s is %q, want %q", key, texts[key], fill(want.(string)))
			}
		case "content_len":
			if len(got.content) != int(want.(float64)) {
				t.Errorf("content has %d bytes, want %v", len(got.content), want)
			}
		case "finish_reason":
			if s, _ := want.(string); got.finish != s {
				t.Errorf("finish_reason is %q, want %q", got.finish, s)
			}
		case "done":
			if stream && got.done != 1 {
				t.Errorf("%d [DONE] events, want 1", got.done)
			}
		case "error":
			if (got.err != nil) != want.(bool) {
				t.Errorf("error is %v, want one: %v", got.err, want)
			}
		case "tool_args":
			f.checkTools(t, got, want.([]any))
		case "usage":
			f.checkUsage(t, got, want, stream)
		case "must_not":
			f.checkAbsent(t, r, want.([]any), stream)
		case "min_comments", "max_comments":
			f.checkComments(t, r, key, int(want.(float64)), stream)
		case "ledger":
			f.checkLedger(t, p.record(r), want.(map[string]any))
		case "ledger_rule":
			checkRule(t, p, r, want.(string))
		case "trim":
		default:
			t.Errorf("the case expects %q, which nothing here checks", key)
		}
	}
}

func (f failure) checkTools(t *testing.T, got answer, want []any) {
	t.Helper()
	if len(got.tools) != len(want) {
		t.Errorf("%d tool calls, want %d", len(got.tools), len(want))
	}
	for i, args := range want {
		if got.tools[i]["arguments"] != args {
			t.Errorf("arguments of tool call %d are %q, want %q", i, got.tools[i]["arguments"], args)
		}
	}
}

func (f failure) checkUsage(t *testing.T, got answer, want any, stream bool) {
	t.Helper()
	if want == nil {
		if stream && got.usage != nil {
			t.Errorf("usage %v, want none", got.usage)
		}
		return
	}
	for key, n := range want.(map[string]any) {
		if got.usage[key] != n {
			t.Errorf("usage.%s is %v, want %v", key, got.usage[key], n)
		}
	}
}

// checkAbsent looks for strings that must not reach the client. A whole answer
// always has a usage object; what a case forbids there is meant for streams.
func (f failure) checkAbsent(t *testing.T, r reply, words []any, stream bool) {
	t.Helper()
	for _, w := range words {
		if strings.Contains(w.(string), "usage") && !stream {
			continue
		}
		if strings.Contains(r.body, w.(string)) {
			t.Errorf("the client got %q: %s", w, r.body)
		}
	}
}

func (f failure) checkComments(t *testing.T, r reply, key string, n int, stream bool) {
	t.Helper()
	if stream && (key == "min_comments" && len(r.comments) < n || key == "max_comments" && len(r.comments) > n) {
		t.Errorf("%d comments, want %s %d: %q", len(r.comments), key, n, r.comments)
	}
}

func (f failure) checkLedger(t *testing.T, record map[string]any, want map[string]any) {
	t.Helper()
	names := map[string]string{"prompt": "prompt", "cached": "cached_prompt", "thinking": "thinking", "answer": "answer"}
	for key, n := range want {
		if got := tokens(record, names[key]); got != n {
			t.Errorf("ledger: %s is %v, want %v (%v)", key, got, n, record["tokens"])
		}
	}
}
