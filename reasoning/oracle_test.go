package reasoning_test

import (
	"strings"

	"oneslot/reasoning"
)

const blanks = " \t\r\n"

// verdict is what becomes of a whole text.
type verdict struct {
	thinking, answer string
	boundary         int  // bytes of the text that belong to thinking
	ended            bool // thinking has ended, or there was none
}

// judge splits a whole text. It is the plain reading of the contract and shares
// nothing with the parser: the text is read once, from left to right, byte by
// byte, and at each byte it looks for the longest marker that counts there.
func judge(f reasoning.Format, start reasoning.State, text string) verdict {
	if f.Channels != nil {
		return judgeChannels(f.Channels, start, text)
	}
	if start == reasoning.StartAuto {
		start = f.Otherwise
	}
	i := 0 // the byte being looked at

	// The edge before thinking or before the answer.
	lead, mayOpen, inside := "", true, false
	switch start {
	case reasoning.StartThinking:
		inside = true
	case reasoning.StartMidThinking:
		inside, mayOpen = true, false
	case reasoning.StartClosed:
		return verdict{answer: strings.TrimLeft(clean(f, text), blanks), ended: true}
	case reasoning.StartMidAnswer:
		return verdict{answer: clean(f, text), ended: true}
	case reasoning.StartAnswer, reasoning.StartAuto:
		// As set above.
	}
	for mayOpen && i < len(text) {
		sets := [][]string{f.Open, f.ControlTokens}
		if inside {
			sets = [][]string{f.Open, f.Close, f.ToolOpen, f.ControlTokens}
		}
		m, set := longest(text[i:], sets...)
		switch {
		case m != "" && set == 0:
			i += len(m)
			lead, inside, mayOpen = "", true, false
		case m != "" && set == len(sets)-1:
			i += len(m)
		case m == "" && strings.Contains(blanks, text[i:i+1]):
			lead += text[i : i+1]
			i++
		default:
			mayOpen = false
		}
	}
	if !inside {
		return verdict{answer: lead + clean(f, text[i:]), ended: true}
	}

	// Thinking, with the white space at its beginning if that touches an opener.
	trim := start != reasoning.StartMidThinking
	thought := ""
	for i < len(text) {
		m, set := longest(text[i:], f.Close, f.ToolOpen, f.ControlTokens)
		if m == "" {
			thought += text[i : i+1]
			i++
			continue
		}
		i += len(m)
		if set == 2 {
			continue
		}
		if trim {
			thought = strings.TrimLeft(thought, blanks)
		}
		if set == 1 {
			return verdict{thought, m + clean(f, text[i:]), i - len(m), true}
		}
		return verdict{strings.TrimRight(thought, blanks), strings.TrimLeft(clean(f, text[i:]), blanks), i, true}
	}
	if trim {
		thought = strings.TrimLeft(thought, blanks)
	}
	return verdict{thinking: thought}
}

// clean removes control tokens.
func clean(f reasoning.Format, text string) string {
	out := ""
	for i := 0; i < len(text); {
		if m, _ := longest(text[i:], f.ControlTokens); m != "" {
			i += len(m)
			continue
		}
		out += text[i : i+1]
		i++
	}
	return out
}

// longest returns the longest marker that text begins with, and the first of
// the sets it is in.
func longest(text string, sets ...[]string) (marker string, set int) {
	for s, markers := range sets {
		for _, m := range markers {
			if len(m) > len(marker) && strings.HasPrefix(text, m) {
				marker, set = m, s
			}
		}
	}
	return marker, set
}
