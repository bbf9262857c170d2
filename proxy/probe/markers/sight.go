package markers

import (
	"slices"
	"strings"

	"oneslot/reasoning"
)

// blanks are what may stand between a marker and its text.
const blanks = " \t\r\n"

// A Sight is what an engine showed. What it did not show is empty.
type Sight struct {
	// Model and Parser are what the engine calls its model and the parser with
	// which it splits thinking from the answer itself.
	Model, Parser string
	// Raw is the beginning of a reply with its markers in it.
	Raw string
	// Tail is how a prompt ends after the user's last text.
	Tail string
	// Header is what stands between a user's text and an earlier answer without
	// thinking; Before the same with thinking, up to the thinking; Between what
	// stands between that thinking and its answer.
	Header, Before, Between string
	// Template is the source of the chat template.
	Template string
	// Splits names the rows at whose markers the engine's own parser splits.
	Splits []string
}

// Where a marker was seen, in the words of a report.
const (
	inRaw      = "raw output"
	inTail     = "the end of the prompt"
	inRendered = "rendered thinking"
	byParser   = "the engine's parser"
	inTemplate = "the chat template"
)

// seen is one marker and where it was seen; the zero value was not.
type seen struct {
	text, where string
	// strong is whether it was seen at work, not only named in a source.
	strong bool
}

// worth orders what was seen.
func (s seen) worth() int {
	switch {
	case s.text == "":
		return 0
	case s.strong:
		return 3
	default:
		return 1
	}
}

// opener finds a spelling of what begins thinking.
func (s *Sight) opener(spellings []string, splits bool) seen {
	raw := strings.TrimLeft(s.Raw, blanks)
	begins := func(m string) bool { return strings.HasPrefix(raw, m) }
	switch {
	case pick(spellings, begins) != "":
		return seen{pick(spellings, begins), inRaw, true}
	case pick(spellings, ends(s.Tail)) != "":
		return seen{pick(spellings, ends(s.Tail)), inTail, true}
	case pick(spellings, ends(s.Before)) != "":
		return seen{pick(spellings, ends(s.Before)), inRendered, true}
	case splits && len(spellings) > 0:
		return seen{spellings[0], byParser, true}
	}
	return named(spellings, s.Template)
}

// closer finds a spelling of what ends thinking.
func (s *Sight) closer(spellings []string, splits bool) seen {
	between := strings.TrimLeft(s.Between, blanks)
	has := func(m string) bool { return strings.Contains(s.Raw, m) }
	begins := func(m string) bool { return strings.HasPrefix(between, strings.TrimLeft(m, blanks)) }
	switch {
	case pick(spellings, has) != "":
		return seen{pick(spellings, has), inRaw, true}
	case pick(spellings, begins) != "":
		return seen{pick(spellings, begins), inRendered, true}
	case splits && len(spellings) > 0:
		return seen{spellings[0], byParser, true}
	}
	return named(spellings, s.Template)
}

func named(spellings []string, template string) seen {
	m := pick(spellings, func(m string) bool { return strings.Contains(template, m) })
	if m == "" {
		return seen{}
	}
	return seen{m, inTemplate, false}
}

// ends returns whether text ends with a marker, blanks aside.
func ends(text string) func(string) bool {
	text = strings.TrimRight(text, blanks)
	return func(m string) bool { return text != "" && strings.HasSuffix(text, strings.TrimRight(m, blanks)) }
}

// pick returns the longest spelling for which is holds, or "".
func pick(spellings []string, is func(string) bool) string {
	best := ""
	for _, m := range spellings {
		if len(m) > len(best) && is(m) {
			best = m
		}
	}
	return best
}

// start tells where a stream begins in a format with these openers, and from
// what that is known; the zero State when nothing tells.
func (s *Sight) start(open []string, closer string) (reasoning.State, string) {
	raw := strings.TrimLeft(s.Raw, blanks)
	opens := pick(open, func(m string) bool { return strings.HasPrefix(raw, m) }) != ""
	switch {
	case pick(open, ends(s.Tail)) != "":
		return reasoning.StartThinking, "the prompt ends with the opener"
	case opens:
		return reasoning.StartAnswer, "the model writes the opener"
	case closer != "" && strings.Contains(s.Raw, closer):
		return reasoning.StartThinking, "the model writes the closer without an opener"
	case s.Tail != "":
		return reasoning.StartAnswer, "the prompt does not end with the opener"
	}
	return 0, ""
}

// gap returns the blanks that follow the closer, where they were seen.
func (s *Sight) gap(closer string) (string, bool) {
	for _, text := range []string{s.Between, s.Raw} {
		_, after, ok := strings.Cut(text, closer)
		rest := strings.TrimLeft(after, blanks)
		// Thinking that was cut behind its closer has not shown all blanks.
		if ok && (rest != "" || text == s.Between) {
			return after[:len(after)-len(rest)], true
		}
	}
	return "", false
}

// own takes markers that no row has out of a rendered conversation.
func (s *Sight) own() (open, closer string) {
	header := s.Header
	if header == "" {
		header = s.Tail
	}
	n := 0
	for n < min(len(header), len(s.Before)) && header[n] == s.Before[n] {
		n++
	}
	// Two markers may begin alike: go back to where a token may end.
	if at := strings.LastIndexAny(s.Before[:n], blanks+">]"); n < len(s.Before) {
		n = at + 1
	}
	open, closer = strings.Trim(s.Before[n:], blanks), strings.Trim(s.Between, blanks)
	if open == "" || closer == "" || open == closer {
		return "", ""
	}
	return open, closer
}

// belongs reports whether the row's name is part of the names of the model or
// of its parser.
func (s *Sight) belongs(row string) bool {
	row = bare(row)
	return row != "" && slices.ContainsFunc([]string{s.Model, s.Parser}, func(name string) bool { return strings.Contains(bare(name), row) })
}

// bare keeps the letters and digits of a name.
func bare(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
}
