package split_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"oneslot/internal/openai"
	"oneslot/proxy/split"
	"oneslot/reasoning"
)

// token is one entry as a test writes it: its text, and whether it is given as
// bytes.
type token struct {
	text  string
	bytes bool
}

func words(texts ...string) (out []token) {
	for _, t := range texts {
		out = append(out, token{text: t})
	}
	return out
}

func asBytes(texts ...string) (out []token) {
	for _, t := range texts {
		out = append(out, token{text: t, bytes: true})
	}
	return out
}

// object writes the logprobs object of a chunk with these tokens.
func object(list []token) string {
	var entries []string
	for _, tok := range list {
		bytes, name := "null", tok.text
		if tok.bytes {
			var nums []string
			for _, b := range []byte(tok.text) {
				nums = append(nums, fmt.Sprint(b))
			}
			bytes, name = "["+strings.Join(nums, ",")+"]", strings.ToValidUTF8(tok.text, "\ufffd")
		}
		text, _ := json.Marshal(name)
		entries = append(entries, fmt.Sprintf(`{"token":%s,"logprob":-1,"bytes":%s,"top_logprobs":[]}`, text, bytes))
	}
	return `{"content":[` + strings.Join(entries, ",") + `]}`
}

// tokens reads the token texts of a logprobs object.
func tokens(t *testing.T, raw string) (out []string) {
	t.Helper()
	if raw == "" {
		return nil
	}
	var o struct {
		Content []struct {
			Token string
			Bytes []int
		}
		Refusal *string
	}
	if err := json.Unmarshal([]byte(raw), &o); err != nil || len(o.Content) == 0 || !strings.Contains(raw, `"refusal":null`) {
		t.Errorf("no logprobs object: %s: %v", raw, err)
	}
	for _, e := range o.Content {
		text := e.Token
		if e.Bytes != nil {
			text = ""
			for _, b := range e.Bytes {
				text += string([]byte{byte(b)})
			}
		}
		out = append(out, text)
	}
	return out
}

// deal puts tokens into chunks of the given sizes, the last of which takes the
// rest. Their text is held back to whole characters, as engines do.
func deal(list []token, sizes ...int) (out []openai.Chunk) {
	pending := ""
	for len(list) > 0 {
		n := len(list)
		if len(sizes) > 0 {
			n, sizes = min(sizes[0], n), sizes[1:]
		}
		for _, tok := range list[:n] {
			pending += tok.text
		}
		text := pending
		for len(text) > 0 && !validEnd(text) {
			text = text[:len(text)-1]
		}
		pending = pending[len(text):]
		out = append(out, openai.Chunk{Content: text, Logprobs: object(list[:n])})
		list = list[n:]
	}
	return out
}

func validEnd(text string) bool { return strings.ToValidUTF8(text, "") == text }

// TestLogprobsFollowTheAnswer deals each list of tokens to chunks in every way
// of two cuts.
func TestLogprobsFollowTheAnswer(t *testing.T) {
	for _, x := range []struct {
		name   string
		start  reasoning.State
		tokens []token
		stop   []string
		answer string
		want   []string // nil: none
	}{
		{"one chunk of everything", reasoning.StartThinking, words("x", "</think>", "y"), nil, "y", []string{"y"}},
		{"a marker of several tokens", reasoning.StartThinking, words("x", "</", "think", ">", "\n\n", "y", " z"), nil, "y z", []string{"y", " z"}},
		{"the model opens thinking", reasoning.StartAnswer, words("<think>", "a", " b", "</think>", "y"), nil, "y", []string{"y"}},
		{"no thinking", reasoning.StartAnswer, words("y", " z", "\n"), nil, "y z\n", []string{"y", " z", "\n"}},
		{"only thinking", reasoning.StartThinking, words("a", " b"), nil, "", nil},
		{"the dropped edge is a part of a token", reasoning.StartThinking, words("a", "</think>", "\n", " y", " z"), nil, "y z", []string{" y", " z"}},
		{"a token over the boundary", reasoning.StartThinking, words("a", "</think>y", " z"), nil, "y z", nil},
		{"a token over the boundary that looks like answer", reasoning.StartThinking, words("a", "</think", ">>", ">x"), []string{"x"}, ">>", nil},
		{"bytes", reasoning.StartThinking, asBytes("a", "</think>", "日", "本"), nil, "日本", []string{"日", "本"}},
		{"half characters", reasoning.StartAnswer, asBytes("a", "\xf0\x9f", "\x99\x82", "b"), nil, "a🙂b", []string{"a", "\xf0\x9f", "\x99\x82", "b"}},
		{"half characters behind the boundary", reasoning.StartThinking, asBytes("a", "</think>", "\xe6", "\x97", "\xa5"), nil, "日", []string{"\xe6", "\x97", "\xa5"}},
		{"half characters without bytes", reasoning.StartAnswer, words("a", "\ufffd", "b"), nil, "", nil},
		{"an end token", reasoning.StartThinking, append(words("a", "</think>", "y"), token{}), nil, "y", []string{"y"}},
		{"stop between tokens", reasoning.StartAnswer, words("y", " z", " END", " w"), []string{" END"}, "y z", []string{"y", " z"}},
		{"stop inside a token", reasoning.StartAnswer, words("y", " zEN", "D w"), []string{"END"}, "y z", []string{"y"}},
		{"stop that was none", reasoning.StartAnswer, words("y", " E", "N", "X"), []string{"END"}, "y ENX", []string{"y", " E", "N", "X"}},
		{"stop in the first token", reasoning.StartThinking, words("a", "</think>", " yEND"), []string{"END"}, "y", nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			cfg := split.Config{Format: &formats[0], Start: x.start, Stop: x.stop, Logprobs: true}
			for a := range len(x.tokens) + 1 {
				for b := range len(x.tokens) - a + 1 {
					chunks := deal(x.tokens, a, b)
					if x.answer == "" && x.name != "only thinking" {
						chunks[len(chunks)-1].Content = "?" // a text that no token has
					}
					got := run(t, cfg, chunks)
					if x.answer != "" && got.answer != x.answer || !slices.Equal(got.probs, x.want) {
						t.Errorf("%d and %d: got %q, tokens %q; want %q, %q", a, b, got.answer, got.probs, x.answer, x.want)
					}
				}
			}
		})
	}
}

func TestLogprobsOfSplitText(t *testing.T) {
	r := func(text string, list ...token) openai.Chunk {
		return openai.Chunk{Reasoning: text, Logprobs: object(list)}
	}
	c := func(text string, list ...token) openai.Chunk {
		return openai.Chunk{Content: text, Logprobs: object(list)}
	}
	for _, x := range []struct {
		name   string
		chunks []openai.Chunk
		want   []string
	}{
		{"thinking is left out", []openai.Chunk{r("a", words("a")...), c("y", words("y")...), c(" z", words(" z")...)}, []string{"y", " z"}},
		{"the marker comes with the answer", []openai.Chunk{r("a", words("a")...), c("\n\ny", words("</think>", "\n\n", "y")...)}, []string{"y"}},
		{"the marker comes with the thinking", []openai.Chunk{r("a", words("a", "</think>")...), c("y", words("y")...)}, []string{"y"}},
		{"half a character waits", []openai.Chunk{r("a", words("a")...), c("", asBytes("\xc3")...), c("é", asBytes("\xa9")...)}, []string{"\xc3", "\xa9"}},
		{"both channels in one chunk", []openai.Chunk{{Reasoning: "a", Content: "y", Logprobs: object(words("a", "y"))}, c("z", words("z")...)}, nil},
		{"both channels in the last chunk", []openai.Chunk{r("a", words("a")...), c("y", words("y")...), {Reasoning: "b", Content: "z", Logprobs: object(words("b", "z"))}}, nil},
		{"half a character of thinking", []openai.Chunk{r("a", words("a")...), c("", asBytes("\xc3")...), r("é", asBytes("\xa9")...), c("y", words("y")...)}, []string{"y"}},
		{"raw text that the entries do not spell", []openai.Chunk{c("<think>ab</think>yy", words("<think>", "a", "</think>", "y", "y")...)}, nil},
		{"text without entries", []openai.Chunk{r("a", words("a")...), {Content: "y"}, c("z", words("z")...)}, nil},
		{"entries of another text", []openai.Chunk{r("a", words("a")...), c("y", words("n")...)}, nil},
		{"an end token at the end", []openai.Chunk{r("a", words("a")...), c("y", words("y", "<|im_end|>")...)}, []string{"y"}},
		{"the engine begins to split late", []openai.Chunk{c(" ", words(" ")...), r("a", words("a")...), c("y", words("y")...)}, []string{"y"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			got := run(t, split.Config{Format: &formats[0], Start: reasoning.StartAnswer, Logprobs: true}, x.chunks)
			if !slices.Equal(got.probs, x.want) {
				t.Errorf("got %q, want %q", got.probs, x.want)
			}
		})
	}
}

func TestLogprobsNotAskedFor(t *testing.T) {
	got := run(t, split.Config{Format: &formats[0], Start: reasoning.StartAnswer}, deal(words("y", " z")))
	if got.answer != "y z" || got.probs != nil {
		t.Errorf("got %+v", got)
	}
}

// TestLogprobsOfThinkingAreForgotten: an hour of thinking must not be kept.
func TestLogprobsOfThinkingAreForgotten(t *testing.T) {
	s := split.New(split.Config{Format: &formats[0], Start: reasoning.StartThinking, Logprobs: true})
	chunk := deal(words(" word"))[0]
	chunk.Logprobs = strings.Clone(chunk.Logprobs)
	for range 100 {
		s.Add(&chunk)
	}
	if n := testing.AllocsPerRun(1000, func() { s.Add(&chunk) }); n > 12 {
		t.Errorf("a chunk of thinking costs %v allocations", n)
	}
	if n := s.Waiting(); n > 1 {
		t.Errorf("%d entries are kept", n)
	}
}

// TestTextWithoutEntriesIsForgotten: an engine may ignore the wish for them.
func TestTextWithoutEntriesIsForgotten(t *testing.T) {
	s := split.New(split.Config{Format: &formats[0], Start: reasoning.StartThinking, Logprobs: true})
	s.Add(&openai.Chunk{Reasoning: "a"})
	for range 100 {
		s.Add(&openai.Chunk{Content: "word"})
	}
	if n := s.Waiting(); n > 0 || s.Aligned() {
		t.Errorf("%d bytes are kept", n)
	}
}
