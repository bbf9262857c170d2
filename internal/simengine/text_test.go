package simengine_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
)

// tokens are the answer of /tokenize.
type tokens struct {
	Tokens []int
	Count  int
	Max    int `json:"max_model_len"`
}

func tokenize(t *testing.T, url, body string) tokens {
	t.Helper()
	status, text := read(t, url+"/tokenize", body)
	var out tokens
	if err := json.Unmarshal([]byte(text), &out); err != nil || status != 200 || len(out.Tokens) != out.Count {
		t.Fatalf("tokenize %s: %d %s %v", body, status, text, err)
	}
	return out
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b)
}

// ask sends a streamed chat with usage and puts the reply together.
func chat(t *testing.T, url, fields string) stream {
	t.Helper()
	status, body := read(t, url+"/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true},`+fields+`}`)
	if status != 200 {
		t.Fatalf("%s: %d %s", fields, status, body)
	}
	s := join(t, body)
	if !s.done || s.usage == nil {
		t.Fatalf("%s: %+v", fields, s)
	}
	return s
}

// formats are the kinds of markers there are.
var formats = map[string]simengine.Format{
	"default":         {},
	"opens itself":    {Open: "<think>", Close: "</think>"},
	"plain":           {Open: "<think>", Close: "</think>", Plain: true},
	"plain in prompt": {Open: "<think>", Close: "</think>", Plain: true, StartsInThinking: true},
	"shared prefix":   {Open: "[[T", Close: "[[/T", Plain: true},
	"words":           {Open: "THINKING", Close: "ANSWER", Plain: true},
	"special":         {Open: "<|t|>", Close: "<|/t|>", Special: true},
}

// TestCountsAgree is the promise of the tokenizer: what usage says is what
// /tokenize says of the prompt and of the text, for all formats, both ways of
// ending, streamed or not.
func TestCountsAgree(t *testing.T) {
	for name, format := range formats {
		t.Run(name, func(t *testing.T) {
			cfg := fast()
			cfg.Format, cfg.Output = format, simengine.Raw
			cfg.Thinking, cfg.Answer = 40, 30
			_, url := simtest.Start(t, cfg)
			prompt := tokenize(t, url, `{`+hi+`}`)
			for _, limit := range []string{"", `"max_tokens":1,`, `"max_tokens":25,`, `"max_tokens":60,`} {
				s := chat(t, url, limit+`"skip_special_tokens":false,`+hi)
				want := tokenize(t, url, `{"prompt":`+quoted(s.answer)+`}`).Count
				if s.finish == "stop" {
					want++
				}
				if s.usage.CompletionTokens != want || s.usage.PromptTokens != prompt.Count || s.usage.ReasoningTokens != 0 {
					t.Errorf("%susage %+v, want %d and %d tokens", limit, s.usage, prompt.Count, want)
				}
				_, body := read(t, url+"/v1/chat/completions", `{`+limit+`"skip_special_tokens":false,`+hi+`}`)
				var c chunk
				if err := json.Unmarshal([]byte(body), &c); err != nil {
					t.Fatal(err)
				}
				if *c.Choices[0].Message.Content != s.answer || *c.Usage != *s.usage || c.Choices[0].FinishReason != s.finish {
					t.Errorf("%snot streamed it is %s", limit, body)
				}
			}
		})
	}
}

// TestSplitAgreesWithRaw splits what raw output has in one.
func TestSplitAgreesWithRaw(t *testing.T) {
	for name, format := range formats {
		t.Run(name, func(t *testing.T) {
			cfg := fast()
			cfg.Format = format
			_, url := simtest.Start(t, cfg)
			f := format.WithDefaults()
			opener := f.Open
			if f.StartsInThinking {
				opener = ""
			}
			for _, chunked := range []int{1, 3, 7, 1000} {
				shape := fmt.Sprintf(`"sim":{"tokens_per_chunk":%d},`, chunked)
				split := chat(t, url, shape+hi)
				raw := chat(t, url, shape+`"separate_reasoning":false,"skip_special_tokens":false,`+hi)
				if want := opener + split.thinking + f.Close + split.answer; raw.answer != want || raw.thinking != "" {
					t.Errorf("%d a chunk:\n raw %q\nwant %q", chunked, raw.answer, want)
				}
				if split.usage.CompletionTokens != raw.usage.CompletionTokens {
					t.Errorf("%d a chunk: usage %+v and %+v", chunked, split.usage, raw.usage)
				}
			}
			held := chat(t, url, `"stream_reasoning":false,`+hi)
			if split := chat(t, url, hi); held.thinking != split.thinking || held.answer != split.answer || held.chunks >= split.chunks {
				t.Errorf("held back: %+v", held)
			}
		})
	}
}

func TestSpecialMarkersAreHidden(t *testing.T) {
	cfg := fast()
	cfg.Format, cfg.Output = formats["special"], simengine.Raw
	_, url := simtest.Start(t, cfg)
	if s := chat(t, url, hi); strings.Contains(s.answer, "<|") {
		t.Errorf("markers show: %q", s.answer)
	}
	s := chat(t, url, `"skip_special_tokens":false,"no_stop_trim":true,`+hi)
	if !strings.HasPrefix(s.answer, "<|t|>") || !strings.HasSuffix(s.answer, "<|im_end|>") {
		t.Errorf("markers do not show: %q", s.answer)
	}
}

// TestFirstTokenOfThePlainMarker keeps the engine's wrong count for markers of
// several tokens.
func TestFirstTokenOfThePlainMarker(t *testing.T) {
	cfg := fast()
	cfg.Format = formats["plain"]
	_, url := simtest.Start(t, cfg)
	if s := chat(t, url, hi); s.usage.ReasoningTokens != 1 {
		t.Errorf("thinking is counted up to the first token of the marker, here of the opening one: %+v", s.usage)
	}
}

func TestLimits(t *testing.T) {
	cfg := fast()
	cfg.ContextLength = 200
	_, url := simtest.Start(t, cfg)
	n := tokenize(t, url, `{`+hi+`}`).Count
	for _, tc := range []struct {
		name, fields       string
		completion, thinks int
		finish             string
	}{
		{"in thinking", `"max_tokens":5,`, 5, 5, "length"},
		{"with the marker", `"max_completion_tokens":13,"max_tokens":2,`, 13, 13, "length"},
		{"in the answer", `"max_tokens":"16",`, 16, 13, "length"},
		{"before the end of turn", `"max_tokens":22,`, 22, 13, "length"},
		{"at the end", `"max_tokens":23,`, 23, 13, "stop"},
		{"none", `"max_tokens":0,`, 0, 0, "length"},
		{"ignore_eos", `"ignore_eos":true,"max_tokens":100,`, 100, 13, "length"},
		{"to the end of the context", `"ignore_eos":true,`, 200 - n - 2, 13, "length"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := chat(t, url, tc.fields+hi)
			if s.finish != tc.finish || s.usage.CompletionTokens != tc.completion || s.usage.ReasoningTokens != tc.thinks {
				t.Errorf("%s, %+v", s.finish, s.usage)
			}
			if (s.matched == nil) != (tc.finish == "length") {
				t.Errorf("matched_stop %v", s.matched)
			}
		})
	}
}

func TestStopStrings(t *testing.T) {
	_, url := simtest.Start(t, fast())
	whole := chat(t, url, hi)
	inThinking, inAnswer := whole.thinking[8:14], whole.answer[9:13]
	s := chat(t, url, `"stop":[`+quoted(inAnswer)+`,`+quoted(inThinking)+`],`+hi)
	if s.finish != "stop" || s.matched != inThinking || s.answer != "" || s.thinking != whole.thinking[:8] {
		t.Errorf("in thinking: %+v", s)
	}
	if kept := chat(t, url, `"no_stop_trim":true,"stop":`+quoted(inThinking)+`,`+hi); kept.thinking != whole.thinking[:14] {
		t.Errorf("kept: %+v", kept)
	}
	s = chat(t, url, `"stop":`+quoted(inAnswer)+`,`+hi)
	if s.matched != inAnswer || s.answer != whole.answer[:strings.Index(whole.answer, inAnswer)] || s.thinking != whole.thinking {
		t.Errorf("in the answer: %+v", s)
	}
	text := strings.Repeat("x", 0) + whole.thinking + "</think>" + whole.answer
	until := strings.Index(text, inAnswer) + len(inAnswer)
	low := tokenize(t, url, `{"prompt":`+quoted(text[:until])+`}`).Count
	if n := s.usage.CompletionTokens; n != low {
		t.Errorf("%d tokens, want those of the stop string counted: %d", n, low)
	}
}

func TestContinuedMessage(t *testing.T) {
	own := fast()
	own.Format = formats["opens itself"]
	for _, tc := range []struct {
		name, prefill    string
		cfg              simengine.Config
		thinking, answer bool
	}{
		{"closed", "<think>So the queue.</think>\n\n", own, false, true},
		{"open", "<think>So the", own, true, true},
		{"no marker is taken for thinking", "OK! RED", own, true, false},
		{"close marker alone, opened by the template", "</think>", fast(), false, true},
		{"text alone, opened by the template", "So the", fast(), true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, url := simtest.Start(t, tc.cfg)
			fields := `"continue_final_message":true,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":` + quoted(tc.prefill) + `}]`
			s := chat(t, url, fields)
			if (s.thinking != "") != tc.thinking || (s.answer != "") != tc.answer {
				t.Errorf("%+v", s)
			}
			if s.usage.ReasoningTokens != s.usage.CompletionTokens {
				t.Errorf("all of a continued message counts as thinking: %+v", s.usage)
			}
			if got := tokenize(t, url, `{`+fields+`}`).Count; got != s.usage.PromptTokens {
				t.Errorf("tokenize says %d, usage %+v", got, s.usage)
			}
			if again := chat(t, url, strings.Replace(fields, "true", "false", 1)); again.thinking == "" || again.answer == "" {
				t.Errorf("not continued, a new turn thinks again: %+v", again)
			}
		})
	}
}

func TestSwitch(t *testing.T) {
	for _, known := range []bool{true, false} {
		cfg := fast()
		cfg.Format = formats["opens itself"]
		cfg.Format.Switch = known
		_, url := simtest.Start(t, cfg)
		for _, off := range []string{`"chat_template_kwargs":{"enable_thinking":false}`, `"reasoning_effort":"none"`} {
			s := chat(t, url, off+`,`+hi)
			if (s.thinking == "") != known || (s.usage.ReasoningTokens == 0) != known || s.answer == "" {
				t.Errorf("known %v, %s: %+v", known, off, s)
			}
		}
	}
}

func TestCompletions(t *testing.T) {
	_, url := simtest.Start(t, fast())
	whole := chat(t, url, hi)
	ids := tokenize(t, url, `{`+hi+`}`).Tokens
	_, body := read(t, url+"/detokenize", `{"tokens":`+strings.ReplaceAll(fmt.Sprint(ids), " ", ",")+`}`)
	var text struct{ Text string }
	if err := json.Unmarshal([]byte(body), &text); err != nil || !strings.HasSuffix(text.Text, "<|im_start|>assistant\n<think>") {
		t.Fatalf("detokenize: %s %v", body, err)
	}
	for name, prompt := range map[string]string{"text": quoted(text.Text), "ids": strings.ReplaceAll(fmt.Sprint(ids), " ", ",")} {
		_, body := read(t, url+"/v1/completions", `{"max_tokens":99,"stream":true,"stream_options":{"include_usage":true},"prompt":`+prompt+`}`)
		s := join(t, body)
		if want := whole.thinking + "</think>" + whole.answer; s.answer != want || s.usage.PromptTokens != len(ids) || s.usage.ReasoningTokens != 0 || s.finish != "stop" {
			t.Errorf("%s: %+v, want %q", name, s, want)
		}
		if !strings.Contains(body, `"object":"text_completion"`) || strings.Contains(body, "delta") {
			t.Errorf("%s: %s", name, body)
		}
	}
	_, body = read(t, url+"/v1/completions", `{"prompt":`+quoted(text.Text+"so.</think>\n\n")+`}`)
	var c chunk
	if err := json.Unmarshal([]byte(body), &c); err != nil || c.Usage.CompletionTokens != 9 || c.Choices[0].Text != strings.ToUpper(c.Choices[0].Text) {
		t.Errorf("after closed thinking: %s", body)
	}
	_, body = read(t, url+"/v1/completions", `{"prompt":"ONCE"}`)
	if err := json.Unmarshal([]byte(body), &c); err != nil || !strings.HasPrefix(c.Choices[0].Text, " ") {
		t.Errorf("a text is gone on with: %s", body)
	}
	for _, bad := range []string{`{}`, `{"prompt":[99999]}`, `{"prompt":{}}`} {
		if status, body := read(t, url+"/v1/completions", bad); status != 400 {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
}

func TestCache(t *testing.T) {
	cfg := fast()
	cfg.RadixCache, cfg.CacheReport, cfg.Answer = true, true, 8
	e, url := simtest.Start(t, cfg)
	cached := func(fields string) int {
		s := chat(t, url, fields)
		runs := e.Stats().Runs
		n := runs[len(runs)-1].CachedTokens
		if (s.usage.Details == nil) != (n == 0) || n > 0 && s.usage.Details.CachedTokens != n {
			t.Errorf("%+v, of which %d cached", s.usage, n)
		}
		return n
	}
	first := chat(t, url, hi)
	if first.usage.Details != nil {
		t.Errorf("cold: %+v", first.usage)
	}
	if n := cached(hi); n != first.usage.PromptTokens-1 {
		t.Errorf("the same again: %d cached of %d", n, first.usage.PromptTokens)
	}
	if n := cached(`"messages":[{"role":"user","content":"hi there"}]`); n != 4 {
		t.Errorf("changed tail: %d cached", n)
	}
	longer := `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":""},{"role":"user","content":"on"}]`
	if n := cached(longer); n != 10 {
		t.Errorf("a turn more: %d cached", n)
	}
	read(t, url+"/flush_cache", `{}`)
	if n := cached(hi); n != 0 {
		t.Errorf("flushed: %d cached", n)
	}
	quiet := cfg
	quiet.CacheReport = false
	_, url = simtest.Start(t, quiet)
	chat(t, url, hi)
	if s := chat(t, url, hi); s.usage.Details != nil {
		t.Errorf("not reported, but told: %+v", s.usage)
	}
}

func TestSameRequestSameReply(t *testing.T) {
	_, url := simtest.Start(t, fast())
	other := fast()
	other.Seed = 1
	_, url2 := simtest.Start(t, other)
	a, b, c := chat(t, url, hi), chat(t, url, hi), chat(t, url2, hi)
	if a.thinking != b.thinking || a.answer != b.answer || a.thinking == c.thinking {
		t.Errorf("%q %q %q", a.thinking, b.thinking, c.thinking)
	}
	if a.id == b.id || len(a.id) != 32 {
		t.Errorf("ids %q and %q", a.id, b.id)
	}
	d := chat(t, url, `"messages":[{"role":"user","content":"ho"}]`)
	if d.thinking == a.thinking {
		t.Error("the text does not follow the prompt")
	}
}

func TestUsageOnlyWhenAskedFor(t *testing.T) {
	_, url := simtest.Start(t, fast())
	_, body := read(t, url+"/v1/chat/completions", `{"stream":true,`+hi+`}`)
	if s := join(t, body); s.usage != nil || s.withUsage != 0 {
		t.Errorf("%+v", s)
	}
	s := chat(t, url, `"tools":[{"type":"function","function":{"name":"f"}}],`+hi)
	if plain := chat(t, url, hi); s.usage.PromptTokens <= plain.usage.PromptTokens {
		t.Errorf("tools cost no tokens: %+v", s.usage)
	}
	_, body = read(t, url+"/v1/chat/completions", `{"stream":true,"tools":[{"type":"function","function":{"name":"f"}}],`+hi+`}`)
	if !strings.Contains(body, `"delta":{"role":null,"content":null,"reasoning_content":"`) || !strings.Contains(body, `"tool_calls":null`) {
		t.Errorf("the deltas of a request with tools have all keys: %s", body)
	}
}

// TestGuises are the main differences of the other engines.
func TestGuises(t *testing.T) {
	cfg := opening(simengine.VLLM)
	e, url := simtest.Start(t, cfg)
	s := chat(t, url, `"model":"tiny",`+hi)
	if s.thinking == "" || s.answer == "" || s.usage.CompletionTokens != 24 {
		t.Errorf("vllm: %+v", s)
	}
	if status, body := read(t, url+"/v1/chat/completions", `{"model":"nope",`+hi+`}`); status != 404 || !strings.HasPrefix(body, `{"error":{`) {
		t.Errorf("vllm, unknown model: %d %s", status, body)
	}
	if status, _ := read(t, url+"/abort_request", `{}`); status != 404 {
		t.Errorf("vllm has no abort: %d", status)
	}
	chat(t, url, `"model":"tiny","thinking_token_budget":2,`+hi)
	if r := e.Stats().Runs[1]; r.ThinkingTokens != 2 {
		t.Errorf("vllm, budget: %+v", r)
	}
	if flowing := chat(t, url, `"model":"tiny","stream_reasoning":false,"separate_reasoning":false,`+hi); flowing.chunks < 20 || flowing.thinking == "" {
		t.Errorf("vllm does not know SGLang's switches: %+v", flowing)
	}
	cfg.ContextLength = 100
	_, url = simtest.Start(t, cfg)
	for _, limit := range []string{"", `"max_tokens":5000,`} {
		if s := chat(t, url, `"model":"tiny","ignore_eos":true,`+limit+hi); s.usage.TotalTokens != 100 || s.finish != "length" {
			t.Errorf("vllm goes to the end of the context: %+v", s.usage)
		}
	}
	_, body := read(t, url+"/v1/chat/completions", `{"model":"tiny","continue_final_message":true,"messages":[{"role":"assistant","content":"<think>so</think>"}]}`)
	if !strings.Contains(body, `"content":null,"reasoning":"`) {
		t.Errorf("vllm, not streamed, takes a continued answer for thinking: %s", body)
	}
	_, url = simtest.Start(t, opening(simengine.LlamaCPP))
	s = chat(t, url, `"thinking_budget_tokens":3,"max_tokens":999999,`+hi)
	if s.thinking == "" || strings.HasPrefix(s.answer, "\n") || s.model != "tiny" || s.usage.CompletionTokens != 3+2+1+8+1 {
		t.Errorf("llama: %+v", s)
	}
	if flowing := chat(t, url, `"stream_reasoning":false,"separate_reasoning":false,`+hi); flowing.chunks < 20 || flowing.thinking == "" {
		t.Errorf("llama does not know SGLang's switches: %+v", flowing)
	}
	if raw := chat(t, url, `"reasoning_format":"none",`+hi); !strings.HasPrefix(raw.answer, "<think>") {
		t.Errorf("llama, raw: %+v", raw)
	}
	if _, body := read(t, url+"/tokenize", `{"prompt":"a b"}`); body != `{"tokens":[]}` {
		t.Errorf("llama, tokenize with another engine's field: %s", body)
	}
	_, body = read(t, url+"/apply-template", `{`+hi+`}`)
	_, count := read(t, url+"/v1/chat/completions/input_tokens", `{`+hi+`}`)
	if !strings.Contains(body, "user\\nhi") || count != `{"input_tokens":10}` {
		t.Errorf("llama: %s %s", body, count)
	}
}

func TestRunsAreKept(t *testing.T) {
	e, url := simtest.Start(t, fast())
	for i := range 3 {
		chat(t, url, fmt.Sprintf(`"rid":"r%d",%s`, i, hi))
	}
	var rids []string
	for _, r := range e.Stats().Runs {
		rids = append(rids, r.RID)
		if r.Started.Before(r.Arrived) || r.FirstToken.Before(r.Started) || r.Ended.Before(r.FirstToken) || !r.Stream {
			t.Errorf("run %+v", r)
		}
	}
	if !slices.Equal(rids, []string{"r0", "r1", "r2"}) {
		t.Errorf("runs %v", rids)
	}
}

func TestNothingToSay(t *testing.T) {
	cfg := fast()
	cfg.Thinking, cfg.Answer = -1, -1
	_, url := simtest.Start(t, cfg)
	if s := chat(t, url, hi); s.thinking != "" || s.answer != "\n\n" || s.usage.CompletionTokens != 3 {
		t.Errorf("%+v", s)
	}
}

func TestHeadersAreSeen(t *testing.T) {
	e, url := simtest.Start(t, fast())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{`+hi+`}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("Authorization", "Bearer secret")
	if status, _, body := do(t, req); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	s := e.Stats()
	if got := s.Runs[0].Header.Get("Authorization"); got != "Bearer secret" {
		t.Errorf("header %q", got)
	}
	if told, err := json.Marshal(s); err != nil || strings.Contains(string(told), "secret") {
		t.Errorf("a header is told: %s %v", told, err)
	}
}
