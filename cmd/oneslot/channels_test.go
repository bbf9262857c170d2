package main

import (
	"fmt"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

const gptOSS = `engines: [{name: spark, url: "http://engine.test", model: ripple, dialect: sglang, format: gpt-oss}]`

// texts makes a chunk of each text.
func texts(pieces ...string) script.Script {
	var s script.Script
	for _, piece := range pieces {
		s = append(s, chunk(fmt.Sprintf(`{"content":%q}`, piece), ""))
	}
	return append(s, finish())
}

// A model that names channels, raw: the headers go, and a tool call stays as the
// model wrote it.
func TestChannels(t *testing.T) {
	for name, c := range map[string]struct {
		script             script.Script
		reasoning, content string
	}{
		"answer": {
			texts("<|channel|>", "analysis", "<|message|>", "Greet ", "back.", "<|end|>", "<|start|>", "assistant", "<|channel|>", "final", "<|message|>", "Hel", "lo!"),
			"Greet back.", "Hello!",
		},
		"tool call": {
			texts("<|channel|>analysis<|mess", "age|>Ask.<|end|><|start|>assi", "stant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":", "1}<|call|>"),
			"Ask.", `<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>`,
		},
		"cut off between them": {texts("<|channel|>analysis<|message|>Greet", " back.<|end|>", "<|start|>assistant"), "Greet back.", ""},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stream=%v", name, stream), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := start(t, simengine.Config{Scripts: []script.Script{c.script}}, gptOSS)
					r := p.post(t.Context(), ask(stream, ""), nil)
					if a := (&r).answer(t); a.reasoning != c.reasoning || a.content != c.content || a.finish != "stop" {
						t.Errorf("the client got %q | %q, %s", a.reasoning, a.content, a.finish)
					}
					if got := p.upstream()["skip_special_tokens"]; got != false {
						t.Errorf("skip_special_tokens is %v: the headers would be lost", got)
					}
					if record := p.record(r); record["answer_started"] != (c.content != "") {
						t.Errorf("its record is %v", record)
					}
				})
			})
		}
	}
}

// Where the engine reads the channels itself, its fields pass as they came, tool
// calls too.
func TestChannelsSplitByTheEngine(t *testing.T) {
	s := script.Script{
		chunk(`{"role":"assistant","reasoning_content":"Ask."}`, ""),
		chunk(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}`, ""),
		chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}`, ""), chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`, ""),
		script.Write(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"),
	}
	for _, stream := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{Scripts: []script.Script{s}}, gptOSS)
			r := p.post(t.Context(), ask(stream, ""), nil)
			a := (&r).answer(t)
			if call := a.tools[0]; a.reasoning != "Ask." || a.content != "" || len(a.tools) != 1 || call["name"] != "f" || call["id"] != "a" || call["arguments"] != `{"a":1}` || a.finish != "tool_calls" {
				t.Errorf("stream=%v: the client got %+v", stream, a)
			}
		})
	}
}

// The simulated engine thinks in that format too, and is cut at a budget: the
// prefill spells the channels out.
func TestBudgetInChannels(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		marks := simengine.Format{Open: "<|channel|>analysis<|message|>", Close: "<|end|><|start|>assistant<|channel|>final<|message|>"}
		p := start(t, simengine.Config{Thinking: 200, Answer: 20, Output: simengine.Raw, Format: marks}, gptOSS)
		r := p.post(t.Context(), ask(true, `,"thinking_budget":24`), nil)
		a := (&r).answer(t)
		if s := p.engine.Stats(); len(s.Runs) != 2 || a.finish != "stop" || a.content == "" || a.reasoning == "" {
			t.Errorf("%d runs, the client got %+v", len(s.Runs), a)
		}
		if record := p.record(r); record["budget"] != "cut" {
			t.Errorf("its record is %v", record)
		}
	})
}
