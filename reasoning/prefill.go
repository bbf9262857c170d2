package reasoning

import "strings"

// StartAfter returns where a stream begins that continues prefill, the text of
// an assistant message that the engine does not repeat:
//
//   - after a closer: StartClosed, or StartMidAnswer if visible text follows it
//     (control tokens are not visible);
//   - after a tool opener of the format: StartMidAnswer;
//   - after an opener that none of these follows: StartThinking, or
//     StartMidThinking if visible text follows it;
//   - otherwise def: the prefill does not say whether the template has opened
//     thinking in front of it.
//
// A closer counts wherever it stands, since def may have opened thinking. A
// marker that the end of the prefill cuts off does not count.
func StartAfter(f *Format, prefill string, def State) State {
	switch {
	case f == nil:
		return def
	case f.Channels != nil:
		return afterChannels(f, prefill, def)
	}
	closer, after := first(prefill, f.Close)
	tool, toolEnd := first(prefill, f.ToolOpen)
	switch {
	case closer >= 0 && (tool < 0 || closer < tool || closer == tool && after > toolEnd):
		if visible(prefill[after:], f.ControlTokens) {
			return StartMidAnswer
		}
		return StartClosed
	case tool >= 0:
		return StartMidAnswer
	}
	if opener, after := first(prefill, f.Open); opener >= 0 {
		if visible(prefill[after:], f.ControlTokens) {
			return StartMidThinking
		}
		return StartThinking
	}
	return def
}

// StartInPrompt returns where a stream begins that goes on after a raw prompt,
// which may hold whole conversations: what its last marker has opened or closed
// counts. Where none says so, or text follows what was closed, the model may open
// thinking by itself: StartAnswer.
func StartInPrompt(f *Format, prompt string) State {
	if f.Channels != nil {
		return channelsInPrompt(f, prompt)
	}
	opener, _ := last(prompt, f.Open)
	closer, after := last(prompt, f.Close)
	switch {
	case opener > closer:
		return StartAfter(f, prompt[opener:], StartAnswer)
	case closer >= 0 && !visible(prompt[after:], f.ControlTokens):
		return StartClosed
	}
	return StartAnswer
}

// last finds the marker that begins last in text. Without one, at is -1.
func last(text string, markers []string) (at, end int) {
	at = -1
	for _, m := range markers {
		if i := strings.LastIndex(text, m); m != "" && i > at {
			at, end = i, i+len(m)
		}
	}
	return at, end
}

// afterChannels is StartAfter for a format with channels. A prefill without a
// header is put into the answer by the model's template.
func afterChannels(f *Format, prefill string, def State) State {
	end := 0
	for rest := prefill; ; {
		at, after := first(rest, f.Channels.Message)
		if at < 0 {
			break
		}
		rest, end = rest[after:], end+after
	}
	seen := visible(prefill[end:], nil)
	if end == 0 && !seen {
		return def
	}
	p := New(f, StartAnswer)
	p.Feed(prefill[:end])
	switch thinking := end > 0 && p.Phase() == Thinking; {
	case thinking && seen:
		return StartMidThinking
	case thinking:
		return StartThinking
	case seen:
		return StartMidAnswer
	default:
		return StartClosed
	}
}

// channelsInPrompt is StartInPrompt for a format with channels: what the header
// that begins last says counts, unless its message has ended.
func channelsInPrompt(f *Format, prompt string) State {
	if at, _ := last(prompt, f.Channels.Start); at >= 0 {
		message, after := first(prompt[at:], f.Channels.Message)
		if end, _ := last(prompt[at:], f.Channels.End); message >= 0 && end < after {
			return afterChannels(f, prompt[at:], StartAnswer)
		}
	}
	return StartAnswer
}

// visible reports whether text holds more than white space and control tokens.
func visible(text string, control []string) bool {
	for text = strings.TrimLeft(text, blanks); text != ""; text = strings.TrimLeft(text, blanks) {
		at, end := first(text, control)
		if at != 0 {
			return true
		}
		text = text[end:]
	}
	return false
}

// first finds the leftmost marker in text, the longest of those that begin
// there, and returns where it begins and ends. Without one, at is -1.
func first(text string, markers []string) (at, end int) {
	at = -1
	for _, m := range markers {
		i := strings.Index(text, m)
		if m == "" || i < 0 {
			continue
		}
		if at < 0 || i < at || i == at && i+len(m) > end {
			at, end = i, i+len(m)
		}
	}
	return at, end
}
