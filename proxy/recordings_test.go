package proxy_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oneslot/internal/openai"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
	"oneslot/proxy"
	"oneslot/proxy/engine"
	"oneslot/reasoning"
)

// recording is a stream of a real engine and what must come of it, found by
// another decoder and strings.Cut.
type recording struct {
	name, dialect      string
	body               string // as it was received
	reasoning, content string
	finish             string
	usage              struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
	tools openai.ToolCalls
}

func readRecording(t *testing.T, file string) *recording {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir, name := filepath.Split(file)
	r := &recording{name: filepath.Base(dir) + "/" + strings.TrimSuffix(name, ".sse"), body: string(text)}
	r.dialect = map[string]string{"sglang": engine.SGLang, "vllm": engine.VLLM, "llama-server": engine.LlamaCpp}[filepath.Base(dir)]
	for line := range strings.Lines(r.body) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" {
			r.event(t, data)
		}
	}
	r.split()
	return r
}

func (r *recording) event(t *testing.T, data string) {
	t.Helper()
	var e struct {
		Choices []struct {
			Delta struct {
				Content, Reasoning, ReasoningContent *string
				Tools                                json.RawMessage `json:"tool_calls"`
			}
			Finish *string `json:"finish_reason"`
		}
		Usage *json.RawMessage
	}
	// encoding/json matches names without regard to case, and to underscores not.
	if err := json.Unmarshal([]byte(strings.ReplaceAll(data, `"reasoning_content"`, `"ReasoningContent"`)), &e); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if e.Usage != nil {
		if err := json.Unmarshal(*e.Usage, &r.usage); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range e.Choices {
		for _, s := range []*string{c.Delta.Reasoning, c.Delta.ReasoningContent} {
			if s != nil {
				r.reasoning += *s
			}
		}
		if c.Delta.Content != nil {
			r.content += *c.Delta.Content
		}
		if c.Finish != nil {
			r.finish = *c.Finish
		}
		r.tools.Add(string(c.Delta.Tools))
	}
}

// split does what the engine did not, and trims the edges of the boundary.
func (r *recording) split() {
	const blanks = " \t\r\n"
	if opened, ok := strings.CutPrefix(strings.TrimLeft(r.content, blanks), "<think>"); ok && r.reasoning == "" {
		r.reasoning, r.content, _ = strings.Cut(opened, "</think>")
	}
	if strings.Contains(r.name, "echoed") {
		r.reasoning, r.content = strings.TrimPrefix(r.reasoning, "So the queue."), strings.TrimPrefix(r.content, "OK! RED")
		return
	}
	if r.reasoning == "" {
		return
	}
	r.reasoning = strings.TrimLeft(strings.TrimPrefix(strings.TrimLeft(r.reasoning, blanks), "<think>"), blanks)
	if r.content != "" {
		r.reasoning, r.content = strings.TrimRight(r.reasoning, blanks), strings.TrimLeft(r.content, blanks)
	}
}

// request is what had to be asked for that stream.
func (r *recording) request(stream bool) string {
	switch {
	case strings.Contains(r.name, "echoed"):
		return ask(stream, `"messages":[{"role":"user","content":"hi"},{"role":"assistant","reasoning_content":"So the queue.","content":"OK! RED"}]`)
	case strings.Contains(r.name, "prefill_closed"):
		return ask(stream, `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"<think>So the queue.</think>\n\n"}],"continue_final_message":true`)
	case strings.Contains(r.name, "grammar"):
		return ask(stream, `"grammar":"root ::= think"`)
	}
	return ask(stream, "")
}

func recordings(t *testing.T) (out []*recording) {
	t.Helper()
	files, err := filepath.Glob("../internal/openai/testdata/*/*.sse")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		if !strings.Contains(file, "nonstream") {
			out = append(out, readRecording(t, file))
		}
	}
	return out
}

// TestRecordings plays back what real engines sent, whole and in small pieces: to
// clients that stream and to those that do not it must come to the same.
func TestRecordings(t *testing.T) {
	for _, rec := range recordings(t) {
		t.Run(rec.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, stream bool) {
				rec.play(t, stream, script.Script{script.Write(rec.body)})
				rec.play(t, stream, inPieces(rec.body, 1+len(rec.body)/2000))
			})
		})
	}
}

// inPieces writes n bytes at a time.
func inPieces(text string, n int) (s script.Script) {
	for ; len(text) > n; text = text[n:] {
		s = append(s, script.Write(text[:n]))
	}
	return append(s, script.Write(text))
}

func (r *recording) play(t *testing.T, stream bool, steps script.Script) {
	t.Helper()
	rig := newRig(t, setup{
		sim:    simengine.Config{Dialect: r.simulated(), Scripts: []script.Script{steps}},
		engine: engine.Config{Dialect: r.dialect}, format: xml(reasoning.StartAnswer),
	})
	x := rig.serve(r.request(stream))
	got := x.read()
	if r.finish == "" {
		if !errors.Is(x.err, proxy.ErrTruncated) || got.fault == nil || got.finish != "" || x.idle.Load() != 0 {
			t.Errorf("without a finish reason: %v, %+v", x.err, got)
		}
		if stream && (got.reasoning != r.reasoning || got.content != r.content) {
			t.Errorf("got  %q | %q\nwant %q | %q", got.reasoning, got.content, r.reasoning, r.content)
		}
		return
	}
	if x.err != nil || x.idle.Load() != 1 {
		t.Fatalf("%v, idle %d", x.err, x.idle.Load())
	}
	if got.reasoning != r.reasoning || got.content != r.content || got.toolCalls() != string(r.tools.JSON()) || got.finish != r.finish {
		t.Errorf("got  %q | %q | %s | %s\nwant %q | %q | %s | %s", got.reasoning, got.content, got.toolCalls(), got.finish, r.reasoning, r.content, r.tools.JSON(), r.finish)
	}
	tok := x.report.Tokens
	if r.usage.Completion > 0 && (tok.Prompt.N != r.usage.Prompt || tok.Completion.N != r.usage.Completion || tok.Thinking.N+tok.Answer.N != tok.Completion.N) {
		t.Errorf("the report says %+v, the engine %+v", tok, r.usage)
	}
	if (got.reasoning == "") != (tok.Thinking.N == 0) {
		t.Errorf("thinking %q has %d tokens", got.reasoning, tok.Thinking.N)
	}
}

func (r *recording) simulated() simengine.Dialect {
	return map[string]simengine.Dialect{engine.SGLang: simengine.SGLang, engine.VLLM: simengine.VLLM, engine.LlamaCpp: simengine.LlamaCPP}[r.dialect]
}

// TestRecordingsEveryCut cuts streams of each engine at every byte; of a long one
// that has its markers in several tokens, at every byte from the closer on.
func TestRecordingsEveryCut(t *testing.T) {
	for name, size := range map[string]int{"sglang/cut_inside_thinking": 1 << 20, "vllm/chat_continuous_usage": 1500, "llama-server/think_grammar_multi_token_markers_split": 1200} {
		rec := readRecording(t, "../internal/openai/testdata/"+name+".sse")
		t.Run(rec.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) { rec.cut(t, size) })
		})
	}
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

func (r *recording) cut(t *testing.T, size int) {
	t.Helper()
	from := max(strings.Index(r.body, `"content":"</"`)-100, 0)
	source := &canned{}
	rig := &rig{t: t}
	rig.open(setup{engine: engine.Config{Dialect: r.dialect, Dial: source.dial}, format: xml(reasoning.StartAnswer)})
	body := r.request(true)
	want := ""
	for cut := from; cut < min(from+size, len(r.body)); cut++ {
		source.pieces = []string{streamHead, r.body[:cut], r.body[cut:]}
		if cut == from {
			source.pieces = []string{streamHead + r.body}
		}
		x := rig.serve(body)
		if x.err != nil {
			t.Fatalf("cut at %d: %v", cut, x.err)
		}
		if cut == from {
			want = x.w.got()
			if got := x.read(); got.reasoning != r.reasoning || got.content != r.content {
				t.Fatalf("got  %q | %q\nwant %q | %q", got.reasoning, got.content, r.reasoning, r.content)
			}
		}
		if got := x.w.got(); got != want {
			t.Fatalf("cut at %d: got\n%s\nwant\n%s", cut, got, want)
		}
	}
}
