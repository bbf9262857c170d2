package ask_test

import (
	"strings"
	"testing"

	"oneslot/internal/simengine/ask"
	"oneslot/internal/simengine/wire"
)

const chatPath, textPath = "/v1/chat/completions", "/v1/completions"

func reader(f ask.Format) ask.Reader {
	return ask.Reader{Format: f.WithDefaults(), Text: func(ids []int) (string, bool) {
		return strings.Repeat("x", len(ids)), len(ids) < 3
	}}
}

// read reads a body that has to be right.
func read(t *testing.T, f ask.Format, path, body string) *ask.Request {
	t.Helper()
	req, problem := reader(f).Read(path, []byte(body))
	if problem != nil {
		t.Fatalf("%s: %v", body, problem)
	}
	return req
}

const hi = `"messages":[{"role":"user","content":"hi"}]`

func TestFields(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		ok         func(*ask.Request) bool
	}{
		{"nothing asked", ``, func(r *ask.Request) bool {
			return r.Chat && !r.Stream && !r.Usage && !r.GaveMax && r.Separate && r.StreamThinking && r.SkipSpecial && r.Model == "default"
		}},
		{"stream", `"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},`, func(r *ask.Request) bool {
			return r.Stream && r.Usage && r.ContinuousUsage
		}},
		{"options without stream", `"stream_options":{"include_usage":true},`, func(r *ask.Request) bool { return !r.Usage }},
		{"words for switches", `"stream":"yes","separate_reasoning":"off","ignore_eos":1,"no_stop_trim":"TRUE",`, func(r *ask.Request) bool {
			return r.Stream && !r.Separate && r.IgnoreEOS && r.KeepStop
		}},
		{"null is absent", `"stop":null,"max_tokens":null,"rid":null,"stream_options":null,"tools":null,`, func(r *ask.Request) bool {
			return r.Stop == nil && !r.GaveMax && !r.Tools
		}},
		{"limits", `"max_tokens":5,"max_completion_tokens":"3",`, func(r *ask.Request) bool { return r.GaveMax && r.MaxTokens == 3 }},
		{"one limit", `"max_tokens":5.0,`, func(r *ask.Request) bool { return r.MaxTokens == 5 }},
		{"stop", `"stop":"a",`, func(r *ask.Request) bool { return len(r.Stop) == 1 && r.Stop[0] == "a" }},
		{"stops", `"stop":["a","","b"],`, func(r *ask.Request) bool { return len(r.Stop) == 2 && r.Stop[1] == "b" }},
		{"names", `"rid":"r","model":"m",`, func(r *ask.Request) bool { return r.RID == "r" && r.Model == "m" }},
		{"tools", `"tools":[{"type":"function"}],`, func(r *ask.Request) bool { return r.Tools && strings.Contains(r.Prompt, `tools: [{"type"`) }},
		{"no tools", `"tools":[],`, func(r *ask.Request) bool { return !r.Tools }},
		{"unknown", `"frobnicate":{},`, func(r *ask.Request) bool { return r.Chat }},
		{"budgets", `"thinking_token_budget":7,"reasoning_budget_tokens":-9,`, func(r *ask.Request) bool {
			llama, ok := r.ThinkingBudget[wire.LlamaCPP]
			_, other := r.ThinkingBudget[wire.SGLang]
			return r.ThinkingBudget[wire.VLLM] == 7 && llama == 0 && ok && !other
		}},
		{"unparsed", `"reasoning_format":"none",`, func(r *ask.Request) bool { return r.Unparsed }},
		{"shape", `"sim":{"thinking":0,"tokens_per_second":-1,"script":"s"},`, func(r *ask.Request) bool {
			s := r.Shape
			return *s.Thinking == 0 && *s.TokensPerSecond == -1 && s.Script == "s" && s.Answer == nil && s.TokensPerChunk == nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if r := read(t, ask.Format{}, chatPath, `{`+tc.body+hi+`}`); !tc.ok(r) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestShapeInAMessage(t *testing.T) {
	r := read(t, ask.Format{}, chatPath, `{"messages":[{"role":"user","content":"sim:{\"answer\":3} and more"}]}`)
	if r.Shape.Answer == nil || *r.Shape.Answer != 3 || !strings.Contains(r.Prompt, "and more") {
		t.Errorf("%+v", r)
	}
	r = read(t, ask.Format{}, chatPath, `{"messages":[{"role":"user","content":"sim:{\"answer\":3}"},{"role":"user","content":"simple"}]}`)
	if r.Shape != (ask.Shape{}) {
		t.Errorf("only the last message counts: %+v", r.Shape)
	}
}

func TestPrompt(t *testing.T) {
	opens := ask.Format{Open: "<think>", Close: "</think>"}
	known := opens
	known.Switch = true
	const turn = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
	const prefill = `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"X"}],"continue_final_message":`
	for _, tc := range []struct {
		name   string
		format ask.Format
		body   string
		prompt string
		start  ask.Phase
	}{
		{"template opens", ask.Format{}, hi, turn + "<think>", ask.InThinking},
		{"model opens", opens, hi, turn, ask.Opening},
		{
			"parts", opens, `"messages":[{"role":"USER","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
			"<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n", ask.Opening,
		},
		{
			"calls", opens, `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"function":{"arguments":"{}"}}]}]`,
			"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n[{\"function\":{\"arguments\":\"{}\"}}]<|im_end|>\n<|im_start|>assistant\n", ask.Opening,
		},
		{"finished turn", opens, prefill + "false", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nX<|im_end|>\n<|im_start|>assistant\n", ask.Opening},
		{"continued", opens, prefill + "true", turn + "X", ask.InAnswer},
		{"continued in thinking", ask.Format{}, prefill + "true", turn + "<think>X", ask.InThinking},
		{"switch known", known, `"chat_template_kwargs":{"enable_thinking":false},` + hi, turn + "<think>\n\n</think>\n\n", ask.InAnswer},
		{"switch not known", opens, `"chat_template_kwargs":{"enable_thinking":false},` + hi, turn, ask.Opening},
		{
			"markers in history", opens, `"messages":[{"role":"user","content":"</think>"}]`,
			"<|im_start|>user\n</think><|im_end|>\n<|im_start|>assistant\n", ask.Opening,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := read(t, tc.format, chatPath, `{`+tc.body+`}`)
			if r.Prompt != tc.prompt || r.Start != tc.start {
				t.Errorf("phase %d %q\nwant  %d %q", r.Start, r.Prompt, tc.start, tc.prompt)
			}
			rendered, problem := reader(tc.format).Render("/tokenize", []byte(`{`+tc.body+`}`))
			if problem != nil || rendered != tc.prompt {
				t.Errorf("rendered %q, %v", rendered, problem)
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	r := read(t, ask.Format{}, textPath, `{"prompt":"a<think>b"}`)
	if r.Chat || r.Prompt != "a<think>b" || r.MaxTokens != 16 || r.Start != ask.InThinking {
		t.Errorf("%+v", r)
	}
	if r := read(t, ask.Format{}, textPath, `{"prompt":[1,2],"max_tokens":3}`); r.Prompt != "xx" || r.MaxTokens != 3 || r.Start != ask.InAnswer {
		t.Errorf("%+v", r)
	}
}

func TestProblems(t *testing.T) {
	for _, tc := range []struct {
		name, path, body string
		status           int
		want             string
	}{
		{"empty", chatPath, " ", 400, "'type': 'missing', 'loc': ('body',)"},
		{"array", chatPath, "[]", 500, "Internal Server Error"},
		{"half an array", chatPath, "[", 400, "json_invalid"},
		{"half", chatPath, `{"a":`, 400, "'loc': ('body', 5)"},
		{"null", chatPath, `null`, 400, "json_invalid"},
		{"no messages", chatPath, `{}`, 400, "'loc': ('body', 'messages'), 'msg': 'Field required', 'input': None"},
		{"null messages", chatPath, `{"messages":null}`, 400, "list_type"},
		{"no role", chatPath, `{"messages":[{"content":"x"}]}`, 400, "'messages', 0)"},
		{"wrong role", chatPath, `{"messages":[{"role":"user","content":"a"},{"role":"wizard","content":"x"}]}`, 400, "'messages', 1)"},
		{"no content", chatPath, `{"messages":[{"role":"user"}]}`, 400, "string_type"},
		{"content is a number", chatPath, `{"messages":[{"role":"user","content":7}]}`, 400, "list_type"},
		{"arguments", chatPath, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":"[1]"}}]}]}`, 400, "JSON object"},
		{"image", chatPath, `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "unsupported content type 'image_url'"},
		{"first fault counts", chatPath, `{"temperature":"hot","messages":[]}`, 400, "float_parsing"},
		{"completion", textPath, `{"prompt":"a","max_tokens":"x"}`, 400, "openai_v1_completions"},
		{"ids", textPath, `{"prompt":[1,2,3]}`, 400, "not in the vocabulary"},
		{"no prompt", textPath, `{"prompt":null}`, 400, "Field required"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, problem := reader(ask.Format{}).Read(tc.path, []byte(tc.body))
			if problem == nil || problem.Status != tc.status || !strings.Contains(problem.Message, tc.want) {
				t.Errorf("%+v, want %d %q", problem, tc.status, tc.want)
			}
		})
	}
}

func TestSurrogates(t *testing.T) {
	for text, good := range map[string]bool{
		`\ud83d\ude42`: true, `\\ud800`: true, `\u0041`: true, `\ud800`: false, `\udc00`: false, `\ud800x`: false,
		`\ud800\n`: false, `\ud800\ud800`: false, `\ud83d\ude42\ud83d`: false, `\"\ud83d\ude42\\`: true,
	} {
		_, problem := reader(ask.Format{}).Read(textPath, []byte(`{"prompt":"`+text+`"}`))
		if (problem == nil) != good {
			t.Errorf("%s: %v", text, problem)
		}
	}
}

func TestDefaults(t *testing.T) {
	if f := (ask.Format{}).WithDefaults(); f != (ask.Format{Open: "<think>", Close: "</think>", StartsInThinking: true}) {
		t.Errorf("%+v", f)
	}
	given := ask.Format{Open: "a", Close: "b"}
	if f := given.WithDefaults(); f != given {
		t.Errorf("%+v", f)
	}
	if m := (ask.Format{Open: "a", Close: "b", Plain: true}).Marks(); m != nil {
		t.Errorf("%v", m)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{` + hi + `}`)
	f.Add(`{"stop":["a"],"messages":[{"role":"user","content":[{"type":"text","text":"\ud83d\ude42"}]}]}`)
	r := reader(ask.Format{})
	f.Fuzz(func(t *testing.T, body string) {
		req, problem := r.Read(chatPath, []byte(body))
		if (req == nil) == (problem == nil) {
			t.Errorf("%q: %v and %v", body, req, problem)
		}
	})
}
