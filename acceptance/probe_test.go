package acceptance_test

import (
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"oneslot/acceptance/stack"
)

// TestProbe asks a real engine what it is, in both modes, and serves with what
// was found: the split and the counts are the engine's own.
func TestProbe(t *testing.T) {
	for split, parser := range map[stack.Split]string{stack.ByEngine: "found reasoning_content", stack.ByProxy: "absent"} {
		t.Run("split by "+string(split), func(t *testing.T) {
			engine := stack.StartEngine(t, split)
			probe := stack.StartProbe(t, engine)
			for name, want := range map[string]string{
				"kind": "found llamacpp", "models": "found " + engine.Model, "context": "found " + strconv.Itoa(stack.Context), "slots": "found 1", "load": "found idle",
				"tokenizer": "found yes", "prompt": "found <|im_end|>\n<|im_start|>assistant", "reasoning_parser": parser,
				"markers": "found <think> … </think>", "marker_tokens": "found 1, 1", "starts_in": "found answer", "tools_in_thinking": "",
				"prefix_cache": "found on", "cached_tokens_told": "found yes", "continuous_usage": "found yes",
				"prefill": "found yes", "prefill_closed": "found yes", "prefill_completions": "found yes", "abort": "absent",
			} {
				if got := probe.Said(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if probe.ReadOnly != "" {
				t.Errorf("not all was asked: %s", probe.ReadOnly)
			}
			p := pair{engine, stack.StartConfigured(t, probe)}
			for seed := range int64(3) {
				want := engine.Reply(t, stack.Question{Text: "Wie lange dauert es?", Seed: seed})
				p.check(t, ask(t, p.proxy, question(engine, seed)), want)
				p.check(t, stream(t, p.proxy, question(engine, seed)), want)
			}
		})
	}
}

// TestProbeOfABusyEngine only reads, and leaves the other request alone.
func TestProbeOfABusyEngine(t *testing.T) {
	engine := stack.StartEngine(t, stack.ByProxy)
	body := `{"stream":true,"ignore_eos":true,"max_tokens":` + strconv.Itoa(engine.Long()) + `,"messages":[{"role":"user","content":"hi"}]}`
	response, err := http.DefaultClient.Do(request(t, http.MethodPost, engine.URL+"/v1/chat/completions", body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	ended := make(chan time.Time, 1)
	go func() {
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Errorf("the other request was disturbed: %v", err)
		}
		ended <- time.Now()
	}()
	probe := stack.StartProbe(t, engine)
	probed := time.Now()
	if !probed.Before(<-ended) {
		t.Fatal("the other request was over too early for this test to say anything")
	}
	for name, want := range map[string]string{
		"load": "found busy", "raw_output": "skipped", "markers": "found <think> … </think>", "starts_in": "found answer", "prefill": "skipped",
	} {
		if got := probe.Said(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if probe.ReadOnly == "" {
		t.Error("it does not say that it only read")
	}
}
