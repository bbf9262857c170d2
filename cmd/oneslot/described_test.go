package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// The failure cases of the categories A and B that are described rather than
// given as data, or that ask for more than a comparison of texts.

// upstream is the first body that the engine got, as an object.
func (p *proxyUnderTest) upstream() map[string]any {
	p.t.Helper()
	s := p.engine.Stats()
	if len(s.Runs) == 0 {
		p.t.Fatal("the engine saw no request")
	}
	var out map[string]any
	if err := json.Unmarshal(s.Runs[0].Body, &out); err != nil {
		p.t.Fatal(err)
	}
	return out
}

func chunk(delta, more string) script.Step {
	return script.Write(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"ripple","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null` + more + `}]}` + "\n\n")
}

func finish() script.Step {
	return script.Write(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
}

const raw = `formats: [{name: ripple, open: ["<think>"], close: ["</think>"], starts_in: thinking}]`

// B019: stop strings are the proxy's, so that they cannot end the thinking.
func TestStopStringsStayHere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Scripts: []script.Script{{
			chunk(`{"content":"to the END and on</think>The E"}`, ""), chunk(`{"content":"ND is near"}`, ""), script.Hold(),
		}}}, raw)
		r := p.post(t.Context(), `{"model":"ripple","stream":true,"stop":["END"],"messages":[{"role":"user","content":"hi"}]}`, nil)
		a := (&r).answer(t)
		if a.reasoning != "to the END and on" || a.content != "The " || a.finish != "stop" {
			t.Errorf("the client got %+v", a)
		}
		if _, ok := p.upstream()["stop"]; ok {
			t.Error("the engine got the stop strings")
		}
		if s := p.engine.Stats(); s.AbortsEffective != 1 {
			t.Errorf("the engine was aborted %d times", s.AbortsEffective)
		}
		if text := p.fetch("/metrics").body; !strings.Contains(text, `oneslot_aborts_total{reason="stop_string"} 1`) || !strings.Contains(text, "oneslot_request_bodies_bytes 0") {
			t.Errorf("the metrics are %s", text)
		}
	})
}

// B028, B030, B089: what the proxy does not own reaches the engine as it came.
func TestRequestPassesUnharmed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "")
		p.post(t.Context(), `{"model":"ripple","stream":true,"chat_template_kwargs":{"a":1},"top_k":7,"custom_x":{"deep":[1,null]},"tools":null,`+
			`"rid":"mine","priority":9,"session_params":{},"metadata":{"who":"me"},"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning_content":"c"},{"role":"user","content":"d"}]}`, nil)
		got := p.upstream()
		for _, key := range []string{"skip_special_tokens", "tools", "priority", "session_params", "metadata"} {
			if v, ok := got[key]; ok {
				t.Errorf("the engine got %s: %v", key, v)
			}
		}
		if got["rid"] == "mine" || got["top_k"] != 7.0 {
			t.Errorf("the engine got rid %v and top_k %v", got["rid"], got["top_k"])
		}
		want := `[{"content":"a","role":"user"},{"content":"b","reasoning_content":"c","role":"assistant"},{"content":"d","role":"user"}] {"deep":[1,null]} {"a":1}`
		if text := asJSON(t, got["messages"]) + " " + asJSON(t, got["custom_x"]) + " " + asJSON(t, got["chat_template_kwargs"]); text != want {
			t.Errorf("the engine got %s\nwant %s", text, want)
		}
	})
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// B028: markers that are special tokens have to be asked for.
func TestSpecialMarkersAreAskedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, `formats: [{name: ripple, open: ["<think>"], close: ["</think>"], starts_in: thinking, markers_special: true}]`)
		p.post(t.Context(), hello, nil)
		if got := p.upstream()["skip_special_tokens"]; got != false {
			t.Errorf("skip_special_tokens is %v, want false", got)
		}
	})
}

// B032: token probabilities follow their text.
func TestLogprobsFollowTheAnswer(t *testing.T) {
	for _, mode := range []string{"true", "false"} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{Scripts: []script.Script{{
				chunk(`{"content":"x</think>y"}`, `,"logprobs":{"content":[{"token":"x","logprob":-1},{"token":"</think>","logprob":-1},{"token":"y","logprob":-1}]}`), finish(),
			}}}, raw)
			r := p.post(t.Context(), `{"model":"ripple","logprobs":true,"stream":`+mode+`,"messages":[{"role":"user","content":"hi"}]}`, nil)
			if a := (&r).answer(t); a.content != "y" || len(a.logprobs) != 1 || a.logprobs[0] != "y" {
				t.Errorf("stream=%s: the client got %+v", mode, a)
			}
		})
	}
}

// B034: a line that never ends is stopped at the limit, the client is told, and
// the slot is free afterwards.
func TestEndlessLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		endless := script.Script{script.Write("data: "), script.Repeat(strings.Repeat("a", 1<<16), 4096, 0), script.Hold()}
		p := start(t, simengine.Config{Scripts: []script.Script{endless, {chunk(`{"content":"r</think>a"}`, ""), finish()}}}, raw+"\nlimits: {event: 1MiB}")
		r := p.post(t.Context(), hello, nil)
		if a := (&r).answer(t); a.err == nil || a.finish != "" {
			t.Errorf("the client got %+v", a)
		}
		r = p.post(t.Context(), hello, nil)
		if a := (&r).answer(t); a.content != "a" || a.finish != "stop" {
			t.Errorf("the next client got %d %+v", r.status, a)
		}
	})
}

// B035: framing depends on blank lines, never on reads.
func TestOneByteAWrite(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s script.Script
		for _, b := range []byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"grün</think>日\"},\"finish_reason\":null}]}\r\n\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\r\n\r\n") {
			s = append(s, script.Write(string([]byte{b})))
		}
		p := start(t, simengine.Config{Scripts: []script.Script{s}}, raw)
		r := p.post(t.Context(), hello, nil)
		if a := (&r).answer(t); a.reasoning != "grün" || a.content != "日" || a.finish != "stop" || a.done != 1 {
			t.Errorf("the client got %+v", a)
		}
	})
}

// B037: the usage chunk comes after the finish and before [DONE].
func TestOrderOfTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "")
		r := p.post(t.Context(), hello, nil)
		n := len(r.events)
		if n < 4 || !strings.Contains(r.events[n-3].data, `"finish_reason":"stop"`) || !strings.Contains(r.events[n-2].data, `"choices":[],"usage":{`) || r.events[n-1].data != "[DONE]" {
			t.Errorf("the last events are %v", r.events[max(0, n-3):])
		}
		if !strings.Contains(r.events[0].data, `"delta":{"role":"assistant","content":""}`) {
			t.Errorf("the first event is %s", r.events[0].data)
		}
	})
}

// B049: nothing is compressed or gathered: each token is there when it comes.
func TestTokensAreNotGathered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Scripts: []script.Script{{
			chunk(`{"content":"r</think>a"}`, ""), script.Sleep(300 * time.Millisecond), chunk(`{"content":"b"}`, ""), finish(),
		}}}, raw)
		r := p.post(t.Context(), hello, http.Header{"Accept-Encoding": {"gzip"}})
		at := map[string]time.Time{}
		for _, e := range r.events {
			for _, text := range []string{"a", "b"} {
				if strings.Contains(e.data, `"content":"`+text+`"`) {
					at[text] = e.at
				}
			}
		}
		if gap := at["b"].Sub(at["a"]); gap != 300*time.Millisecond {
			t.Errorf("b came %v after a", gap)
		}
		if r.header.Get("Content-Encoding") != "" || !strings.Contains(r.header.Get("Cache-Control"), "no-cache") || r.header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("headers are %v", r.header)
		}
	})
}

// B052: a stream may be longer than any write timeout.
func TestLongStreamIsNotMuted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		event := `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
		p := start(t, simengine.Config{Scripts: []script.Script{{script.Repeat(event, 1800, time.Second), finish()}}},
			`formats: [{name: ripple, open: ["<think>"], close: ["</think>"], starts_in: answer}]`+"\nlimits: {write_timeout: 5s}")
		r := p.post(t.Context(), hello, nil)
		if a := (&r).answer(t); len(a.content) != 1800 || a.finish != "stop" {
			t.Errorf("%d of 1800 pieces came, finish %q, error %v", len(a.content), a.finish, a.err)
		}
	})
}
