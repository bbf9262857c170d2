package probe_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"oneslot/internal/openai"
	"oneslot/internal/simengine"
	"oneslot/proxy/probe"

	"github.com/tidwall/gjson"
)

// rewriting changes the bodies of chat requests on their way to the engine.
func rewriting(change func(body string) string) wrap {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "tokenize") && r.URL.Path != "/apply-template" {
				raw, _ := io.ReadAll(r.Body)
				body := change(string(raw))
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
			}
			next.ServeHTTP(w, r)
		})
	}
}

// continuing makes the simulated engine go on with an assistant's message that
// stands last, as llama.cpp's server does without being asked, and put thinking
// of its own member before the text.
func continuing(body string) string {
	last := gjson.Get(body, "messages.@reverse.0")
	if last.Get("role").Str != "assistant" {
		return body
	}
	set := []openai.Member{{Key: "continue_final_message", Raw: "true"}}
	if thought := last.Get("reasoning_content").Str; thought != "" {
		text := openai.String(thought + "</think>\n\n" + last.Get("content").Str)
		set = append(set, openai.Member{Key: "messages", Raw: "[" + gjson.Get(body, "messages.0").Raw + `,{"role":"assistant","content":` + text + "}]"})
	}
	return string(openai.Rewrite([]byte(body), set, nil))
}

// forgetting leaves a member out.
func forgetting(member string) func(string) string {
	return func(body string) string {
		return string(openai.Rewrite([]byte(body), nil, func(key string) bool { return key == member }))
	}
}

// TestPrefill: whether a message is continued shows, whatever the flags say.
func TestPrefill(t *testing.T) {
	raw := simengine.Format{Open: "<think>", Close: "</think>"}
	for _, tt := range []struct {
		name string
		sim  simengine.Config
		wrap wrap
		want map[string]string
		says map[string]string
	}{
		{
			name: "by a flag, the parser takes it for thinking", sim: simengine.Config{},
			want: map[string]string{probe.Prefill: "found yes", probe.PrefillClosed: "found yes", probe.Completions: "found yes"},
			says: map[string]string{probe.Prefill: "with continue_final_message: true; the engine takes the continuation for thinking", probe.PrefillClosed: "with continue_final_message: true: a budget of thinking can be kept by closing it and going on"},
		},
		{
			name: "by two flags, in the text", sim: simengine.Config{Dialect: simengine.VLLM, Metrics: true, Output: simengine.Raw, Format: raw},
			want: map[string]string{probe.Prefill: "found yes", probe.PrefillClosed: "found yes"},
			says: map[string]string{probe.Prefill: "with continue_final_message: true, add_generation_prompt: false"},
		},
		{
			name: "always, thinking in a member of its own", sim: simengine.Config{Dialect: simengine.LlamaCPP}, wrap: rewriting(continuing),
			want: map[string]string{probe.Prefill: "found yes", probe.PrefillClosed: "found yes"},
			says: map[string]string{probe.Prefill: "without a flag", probe.PrefillClosed: `with continue_final_message: "content", add_generation_prompt: false: a budget`},
		},
		{
			name: "always, in the text", sim: simengine.Config{Dialect: simengine.LlamaCPP, Output: simengine.Raw, Format: raw}, wrap: rewriting(continuing),
			want: map[string]string{probe.Prefill: "found yes", probe.PrefillClosed: "found yes"},
			says: map[string]string{probe.PrefillClosed: "without a flag: a budget"},
		},
		{
			name: "the flag is ignored", sim: simengine.Config{Output: simengine.Raw, Format: raw},
			wrap: rewriting(forgetting("continue_final_message")),
			want: map[string]string{probe.Prefill: "absent ", probe.PrefillClosed: "absent ", probe.Completions: "found yes"},
			says: map[string]string{probe.PrefillClosed: "a new turn begins: a budget of thinking cannot be kept"},
		},
		{
			name: "the flag is refused", sim: simengine.Config{}, wrap: refusing("continue_final_message"),
			want: map[string]string{probe.Prefill: "absent ", probe.PrefillClosed: "absent ", probe.Abort: "found yes"},
			says: map[string]string{probe.Prefill: "refused"},
		},
		{
			name: "it thinks again", sim: simengine.Config{}, wrap: thinkingAgain,
			want: map[string]string{probe.Prefill: "found yes", probe.PrefillClosed: "absent ", probe.Completions: "absent "},
			says: map[string]string{probe.PrefillClosed: "thinks again", probe.Completions: "thinks again"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := open(t, tt.sim, tt.wrap).probe()
				wantAll(t, r, tt.want)
				for name, says := range tt.says {
					if f, _ := r.Find(name); !strings.Contains(f.Detail, says) {
						t.Errorf("%s: %q, want %q in it", name, f.Detail, says)
					}
				}
			})
		})
	}
}

// refusing answers 400 to requests with a member.
func refusing(member string) wrap {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			if gjson.GetBytes(raw, member).Exists() {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprintf(w, `{"object":"error","message":"%s is not allowed","code":400}`, member)
				return
			}
			r.Body = io.NopCloser(strings.NewReader(string(raw)))
			next.ServeHTTP(w, r)
		})
	}
}

// thinkingAgain answers what begins behind closed thinking with more of it.
func thinkingAgain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(raw)))
		prompt := gjson.GetBytes(raw, "prompt").Str + gjson.GetBytes(raw, "messages.1.content").Str
		if !strings.HasPrefix(r.URL.Path, "/v1/") || !strings.Contains(prompt, "</think>") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		choice := `"delta":{"reasoning_content":"but wait"}`
		if r.URL.Path == "/v1/completions" {
			choice = `"text":"but wait</think>OK"`
		}
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,%s,\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":42,\"completion_tokens\":8}}\n\n", choice)
	})
}

// TestOrder: findings stand in one order, each once, also where one is told
// again.
func TestOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := open(t, simengine.Config{Dialect: simengine.VLLM, Metrics: true, Thinking: 3000}, nil).probe()
		var got []string
		for _, f := range r.Findings {
			got = append(got, f.Name)
		}
		expected := []string{
			probe.Kind, probe.Version, probe.Models, probe.Context, probe.Slots, probe.Load, probe.Tokenizer, probe.Prompt, probe.Parser, probe.Raw,
			probe.Markers, probe.MarkerTokens, probe.StartsIn, probe.Rows, probe.Cache, probe.CacheReport, probe.ContinuousUsage,
			probe.Prefill, probe.PrefillClosed, probe.Completions, probe.Abort,
		}
		if !slices.Equal(got, expected) {
			t.Errorf("got  %q\nwant %q", got, expected)
		}
		if _, ok := r.Find("weather"); ok {
			t.Error("a finding that is not there was found")
		}
	})
}

// TestCompletionIsReadOnce: the text of a completion stands in the evidence as the
// engine sent it.
func TestCompletionIsReadOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answered := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/completions" {
					next.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"text\":\"BLUE\",\"finish_reason\":null}]}\n\n"+
					"data: {\"choices\":[{\"index\":0,\"text\":\" SLOT\",\"finish_reason\":\"stop\"}]}\n\n")
			})
		}
		f, ok := open(t, simengine.Config{}, answered).probe().Find(probe.Completions)
		if !ok || len(f.Evidence) != 1 || !strings.Contains(f.Evidence[0].Reply, `"BLUE SLOT"`) {
			t.Errorf("the completion is shown as %+v", f)
		}
	})
}
