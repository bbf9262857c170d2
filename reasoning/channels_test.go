package reasoning_test

import (
	"slices"
	"strings"
	"testing"

	"oneslot/reasoning"
)

// The tests of this package were tried on these 30 mutants of the code for
// channels; each makes at least one of them fail.
//
// Header: it has no bound · it may hold a line break · a name counts anywhere in
// it · a recipient counts inside a word, or only after a marker · an end, or a
// start, in it is text of it · one that the stream cuts off is given out · one
// that is none is lost, leaves the start open, or forgets the tool call around it ·
// one that begins with a channel has no name · the prompt cannot have begun it ·
// white space behind it stays · white space before it is dropped without an end.
//
// Messages: a tool call loses its header, or its end · one in a channel of
// thinking is thinking, one in the last channel is the last · headers count in
// the last channel · other channels are thinking · an end always counts, is text
// at the end of the stream, or before a header · the boundary is the last end of
// thinking, or behind a tool call's header · a stream without a header goes on.
//
// Prefill: an answer that goes on is trimmed · unfinished thinking is answer ·
// the first header counts.

// headerLimit is how long a header may be; see the package comment.
const headerLimit = 256

// reading is a whole text in a format with channels as the oracle reads it. It
// looks ahead as far as it likes, and holds nothing back.
type reading struct {
	c    *reasoning.Channels
	text string
	verdict

	thinking bool // the message is thinking
	last     bool // it ends the reply
	call     bool // it is a tool call
	fresh    bool // its leading white space is yet to be dropped
	floor    int  // of its thinking, what trimming must not pass
}

// judgeChannels splits a whole text. It shares nothing with the parser.
func judgeChannels(c *reasoning.Channels, start reasoning.State, text string) verdict {
	r := &reading{c: c, text: text}
	i := 0
	switch start {
	case reasoning.StartThinking, reasoning.StartMidThinking:
		r.thinking, r.fresh = true, start == reasoning.StartThinking
	case reasoning.StartClosed, reasoning.StartMidAnswer:
		r.last, r.fresh, r.ended = true, start == reasoning.StartClosed, true
	case reasoning.StartAnswer, reasoning.StartAuto:
		fallthrough
	default:
		i = r.beginning()
	}
	for i < len(text) {
		i = r.step(i)
	}
	return r.verdict
}

// beginning reads what stands before the first message.
func (r *reading) beginning() int {
	i := 0
	for ; i < len(r.text); i++ {
		m, set := longest(r.text[i:], r.c.Start, r.c.Channel, r.c.Message, r.c.Recipient)
		if m != "" {
			inside := i
			if set < 2 {
				inside += len(m)
			}
			return r.header(0, i, inside, set == 1)
		}
		if !strings.Contains(blanks, r.text[i:i+1]) {
			break
		}
	}
	r.last = true
	r.answered(0)
	r.give(r.text[:i])
	return i
}

func (r *reading) answered(n int) {
	if !r.ended {
		r.ended, r.boundary = true, n
	}
}

func (r *reading) give(s string) {
	if r.thinking {
		r.verdict.thinking += s
	} else {
		r.answer += s
	}
}

// trim drops the white space at the end of the message's thinking.
func (r *reading) trim() {
	if t := r.verdict.thinking; r.thinking {
		kept := strings.TrimRight(t[r.floor:], blanks)
		r.verdict.thinking = t[:r.floor] + kept
	}
}

// heads and ends are the markers that count in the message.
func (r *reading) heads() (start, channel []string) {
	if r.last {
		return nil, nil
	}
	return r.c.Start, r.c.Channel
}

func (r *reading) ends() []string {
	if r.call {
		return nil
	}
	return r.c.End
}

// step reads what stands at i in a message, and returns where to go on.
func (r *reading) step(i int) int {
	start, channel := r.heads()
	m, set := longest(r.text[i:], start, channel, r.ends())
	switch {
	case m != "" && set < 2:
		r.fresh = false
		return r.header(i, i, i+len(m), set == 1)
	case m != "":
		r.fresh = false
		return r.end(i, m)
	case r.fresh && strings.Contains(blanks, r.text[i:i+1]):
	default:
		r.fresh = false
		r.give(r.text[i : i+1])
	}
	return i + 1
}

// end reads an end of the message at i, which counts if nothing visible follows
// but a header.
func (r *reading) end(i int, m string) int {
	start, channel := r.heads()
	for j := i + len(m); ; {
		next, set := longest(r.text[j:], start, channel, r.ends())
		switch {
		case j == len(r.text):
			r.trim()
			return j
		case next == "" && strings.Contains(blanks, r.text[j:j+1]):
			j++
		case next == "":
			r.give(m)
			return i + len(m)
		case set == 2:
			j += len(next)
		default:
			r.trim()
			return r.header(j, j, j+len(next), set == 1)
		}
	}
}

// header reads a header of which inside is the next byte; raw is where what is
// passed of a tool call begins, and at where the header does.
func (r *reading) header(raw, at, inside int, named bool) int {
	edge, name, tool := true, "", false
	i := inside
	for i < len(r.text) {
		lists := [][]string{r.c.Start, r.c.Channel, r.c.Message, r.c.End, nil, nil, nil}
		if named {
			lists[4], lists[5] = r.c.Thinking, r.c.Last
		}
		if edge {
			lists[6] = r.c.Recipient
		}
		m, set := longest(r.text[i:], lists...)
		if i-at >= headerLimit || m == "" && r.text[i] == '\n' || m != "" && (set == 0 || set == 3) {
			return r.noHeader(raw, i)
		}
		if m != "" && set == 2 {
			return r.message(raw, at, i+len(m), name, tool)
		}
		named, edge = set == 1 && m != "", set == 1 && m != "" || m == "" && strings.Contains(blanks, r.text[i:i+1])
		switch {
		case m == "":
			i++
			continue
		case set == 4:
			name = "thinking"
		case set == 5:
			name = "last"
		case set == 6:
			tool = true
		}
		i += len(m)
	}
	return i // cut off, and dropped
}

// noHeader gives out what looked like a header up to i.
func (r *reading) noHeader(from, i int) int {
	r.give(r.text[from:i])
	r.floor = len(r.verdict.thinking)
	if !r.thinking && !r.ended {
		r.last = true
		r.answered(0)
	}
	return i
}

// message begins the message behind a header.
func (r *reading) message(raw, at, i int, name string, tool bool) int {
	r.thinking, r.last, r.call, r.fresh, r.floor = false, name == "last" && !tool, tool, !tool, len(r.verdict.thinking)
	switch {
	case tool:
		r.answered(at)
		r.give(r.text[raw:i])
	case name == "thinking":
		r.thinking = true
	default:
		r.answered(i)
	}
	return i
}

// conservedByChannels reports whether out is text without white space, ends of
// messages, and headers, the last of which may be cut off.
func conservedByChannels(c *reasoning.Channels, text, out string) bool {
	type place struct{ at, given int }
	todo, seen := []place{{}}, map[place]bool{}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if p.at == len(text) && p.given == len(out) {
			return true
		}
		if seen[p] || p.at == len(text) {
			continue
		}
		seen[p] = true
		if p.given < len(out) && text[p.at] == out[p.given] {
			todo = append(todo, place{p.at + 1, p.given + 1})
		}
		if strings.IndexByte(blanks, text[p.at]) >= 0 {
			todo = append(todo, place{p.at + 1, p.given})
		}
		for _, m := range c.End {
			if strings.HasPrefix(text[p.at:], m) {
				todo = append(todo, place{p.at + len(m), p.given})
			}
		}
		begins := slices.Concat(c.Start, c.Channel)
		if p.given == 0 { // the prompt may have begun it
			begins = slices.Concat(begins, c.Message, c.Recipient)
		}
		if m, _ := longest(text[p.at:], begins); m == "" {
			continue
		}
		todo = append(todo, place{len(text), p.given})
		for i := p.at; i < len(text); i++ {
			for _, m := range c.Message {
				if strings.HasPrefix(text[i:], m) {
					todo = append(todo, place{i + len(m), p.given})
				}
			}
		}
	}
	return false
}

// harmony is the shipped format with channels.
func harmony(t *testing.T) reasoning.Format {
	t.Helper()
	for _, f := range shipped(t) {
		if f.Channels != nil {
			return f
		}
	}
	t.Fatal("no shipped format has channels")
	return reasoning.Format{}
}

// TestChannels tells stories with S for the start of a header, C for what stands
// before a channel's name, M for the end of a header, E, R and T for the ends of
// a message, a reply and a tool call.
func TestChannels(t *testing.T) {
	for _, f := range []reasoning.Format{harmony(t), pool[15]} {
		t.Run(f.Name, func(t *testing.T) { tellOfChannels(t, f) })
	}
}

func tellOfChannels(t *testing.T, f reasoning.Format) {
	c := f.Channels
	tell := strings.NewReplacer("°e", c.End[0][:1], "S", c.Start[0]+"assistant", "C", c.Channel[0], "M", c.Message[0], "E", c.End[0], "R", c.End[1], "T", c.End[2])
	long := strings.Repeat("x", headerLimit)
	for _, s := range []struct {
		name, text       string
		start            reasoning.State
		thinking, answer string
	}{
		{"thinking, then the answer", "CanalysisMhmESCfinalMokR", 0, "hm", "ok"},
		{"white space at the edges", "CanalysisM\n hm \nE\nSCfinalM\n ok \n", 0, "hm", "ok \n"},
		{"thinking alone", "CanalysisMhm", 0, "hm", ""},
		{"no thinking", "CfinalMok", 0, "", "ok"},
		{"no header", "ok, CfinalMthat", 0, "", tell.Replace("ok, CfinalMthat")},
		{"an object", "{\"a\":1}", 0, "", "{\"a\":1}"},
		{"a preamble", "CanalysisMhmESCcommentaryMsoon. ESCfinalMok", 0, "hm", "soon. ok"},
		{"thinking again", "CanalysisMhmESCcommentaryMsoon. ESCanalysisMaha ESCfinalMok", 0, "hmaha", "soon. ok"},
		{"two blocks of thinking", "CanalysisMaESCanalysisMbESCfinalMok", 0, "ab", "ok"},
		{"tool call", "CanalysisMhmESCcommentary to=functions.f jsonM{\"a\": 1}T", 0, "hm", tell.Replace("SCcommentary to=functions.f jsonM{\"a\": 1}T")},
		{"tool call named first", "CanalysisMhmES to=functions.fCcommentaryM{}", 0, "hm", tell.Replace("S to=functions.fCcommentaryM{}")},
		{"tool call at once, begun by the prompt", " to=functions.fCcommentaryM{}T", 0, "", tell.Replace(" to=functions.fCcommentaryM{}T")},
		{"tool call of a built-in tool", "CanalysisMhmESCanalysis to=python codeMx = 1\nT", 0, "hm", tell.Replace("SCanalysis to=python codeMx = 1\nT")},
		{"tool call in the last channel", "Cfinal to=fM{}TSCanalysisMhm", 0, "hm", tell.Replace("Cfinal to=fM{}T")},
		{"tool call with a header that is none", "Ccommentary to=fM{S\n}TSCfinalMok", 0, "", tell.Replace("Ccommentary to=fM{S\n}Tok")},
		{"two tool calls", "Ccommentary to=fM{}TSCcommentary to=gM{}T", 0, "", tell.Replace("Ccommentary to=fM{}TSCcommentary to=gM{}T")},
		{"thinking after a tool call", "Ccommentary to=fM{}TSCanalysisMhmESCfinalMok", 0, "hm", tell.Replace("Ccommentary to=fM{}Tok")},
		{"markers quoted in thinking", "CanalysisMthe T and E stayESCfinalMok", 0, tell.Replace("the T and E stay"), "ok"},
		{"markers quoted in the answer", "CfinalMuse E, SCanalysisMx or R!R", 0, "", tell.Replace("use E, SCanalysisMx or R!")},
		{"a header that is none", "CanalysisMa S\nb", 0, tell.Replace("a S\nb"), ""},
		{"a header that is too long", "CanalysisMaS" + long + "M", 0, tell.Replace("aS" + long + "M"), ""},
		{"the end is missing", "CanalysisMhm CfinalMok", 0, "hm ", "ok"},
		{"cut off in a header", "CanalysisMhmES", 0, "hm", ""},
		{"cut off in a name", "CanalysisMhmESCfin", 0, "hm", ""},
		{"cut off in a marker", "CanalysisMhm°e", 0, tell.Replace("hm°e"), ""},
		{"opened by the prompt", "hmESCfinalMok", reasoning.StartThinking, "hm", "ok"},
		{"in the middle of the answer", " E ok SR", reasoning.StartMidAnswer, "", tell.Replace(" E ok S")},
		{"behind closed thinking", "\nok", reasoning.StartClosed, "", "ok"},
	} {
		t.Run(s.name, func(t *testing.T) {
			text := tell.Replace(s.text)
			want := judge(f, s.start, text)
			if want.thinking != s.thinking || want.answer != s.answer {
				t.Fatalf("the oracle says %+v, want %q | %q", want, s.thinking, s.answer)
			}
			everyCut(text, func(pieces ...string) {
				if got := split(t, f, s.start, pieces...); got != want {
					t.Fatalf("%q = %+v, want %+v", pieces, got, want)
				}
			})
		})
	}
}

// TestStartAfterChannels continues every part of a reply.
func TestStartAfterChannels(t *testing.T) {
	f := harmony(t)
	think, answer := f.Open[0], f.OffPrefill
	for prefill, want := range map[string]reasoning.State{
		"": reasoning.StartAnswer, "\n": reasoning.StartAnswer, "so": reasoning.StartMidAnswer,
		think: reasoning.StartThinking, think + "\n": reasoning.StartThinking, think + "hm": reasoning.StartMidThinking,
		think + answer: reasoning.StartClosed, think + "hm" + answer + "\n": reasoning.StartClosed, think + answer + "so": reasoning.StartMidAnswer,
	} {
		if got := reasoning.StartAfter(&f, prefill, f.StartsIn); got != want {
			t.Errorf("after %q it begins in %v, want %v", prefill, got, want)
		}
	}
}

// TestStartInPromptOfChannels goes on after a raw prompt.
func TestStartInPromptOfChannels(t *testing.T) {
	f := harmony(t)
	c := f.Channels
	user := c.Start[0] + "user" + c.Message[0] + "hi" + c.End[0] + c.Start[0] + "assistant"
	for prompt, want := range map[string]reasoning.State{
		"once": reasoning.StartAnswer, user: reasoning.StartAnswer, user + f.Open[0]: reasoning.StartThinking,
		user + f.Open[0] + "hm": reasoning.StartMidThinking, user + f.Open[0] + "hm" + c.End[0]: reasoning.StartAnswer,
		user + f.Open[0] + "hm" + f.OffPrefill: reasoning.StartClosed, user + f.Open[0] + "hm" + f.OffPrefill + "so": reasoning.StartMidAnswer,
	} {
		if got := reasoning.StartInPrompt(&f, prompt); got != want {
			t.Errorf("after %q it begins in %v, want %v", prompt, got, want)
		}
	}
}
