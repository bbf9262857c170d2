package reasoning

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Validate returns every fault of the format, joined, or nil. Each names the
// field as a configuration spells it and is an ErrFormat.
func (f Format) Validate() error {
	c := check{name: f.Name}
	c.names(f)
	for _, l := range f.lists() {
		c.spellings(l)
	}
	c.clashes(f)
	c.channels(f)
	c.states(f)
	c.rest(f)
	return errors.Join(c.faults...)
}

// list is a field of a Format that holds markers.
type list struct {
	field   string
	markers []string
}

func (f Format) lists() []list {
	lists := []list{{"open", f.Open}, {"close", f.Close}, {"tool_open", f.ToolOpen}, {"control_tokens", f.ControlTokens}}
	if c := f.Channels; c != nil {
		lists = append(lists, list{"channels.start", c.Start}, list{"channels.channel", c.Channel}, list{"channels.message", c.Message},
			list{"channels.end", c.End}, list{"channels.thinking", c.Thinking}, list{"channels.last", c.Last}, list{"channels.recipient", c.Recipient})
	}
	return lists
}

// check collects the faults of one format.
type check struct {
	name   string
	faults []error
}

func (c *check) fault(field, text string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("%w: %q: %s: %s", ErrFormat, c.name, field, fmt.Sprintf(text, args...)))
}

func (c *check) names(f Format) {
	switch {
	case f.Name == "":
		c.fault("name", "is missing")
	case strings.ContainsFunc(f.Name, func(r rune) bool { return r <= ' ' }):
		c.fault("name", "holds white space")
	}
}

func (c *check) spellings(l list) {
	for i, m := range l.markers {
		field := fmt.Sprintf("%s[%d]", l.field, i)
		switch {
		case m == "":
			c.fault(field, "is empty")
		case strings.Trim(m, blanks) == "":
			c.fault(field, "is nothing but white space")
		case !utf8.ValidString(m):
			c.fault(field, "%q is not valid UTF-8", m)
		case slices.Contains(l.markers[:i], m):
			c.fault(field, "%q stands twice", m)
		}
	}
}

// clashes finds markers with two meanings. A closer or an opener may also be a
// control token: it is then removed where it does not count as a marker.
func (c *check) clashes(f Format) {
	clash := func(field string, markers []string, other string, others []string) {
		for i, m := range markers {
			if m != "" && slices.Contains(others, m) {
				c.fault(fmt.Sprintf("%s[%d]", field, i), "%q is also in %s", m, other)
			}
		}
	}
	clash("close", f.Close, "open", f.Open)
	clash("tool_open", f.ToolOpen, "open", f.Open)
	clash("tool_open", f.ToolOpen, "close", f.Close)
	clash("tool_open", f.ToolOpen, "control_tokens", f.ControlTokens)
}

// channels finds what is missing for headers to be read, and what has no meaning
// beside them.
func (c *check) channels(f Format) {
	if f.Channels == nil {
		return
	}
	seen := map[string]string{}
	for _, l := range f.lists() {
		name, of := strings.CutPrefix(l.field, "channels.")
		switch need := of && slices.Contains([]string{"channel", "message", "thinking"}, name); {
		case need && len(l.markers) == 0:
			c.fault(l.field, "is missing: no header could be read")
		case !of && len(l.markers) > 0 && (name == "tool_open" || name == "control_tokens"):
			c.fault(l.field, "has no meaning with channels")
		}
		for i, m := range l.markers {
			if other := seen[m]; of && other != "" && other != l.field {
				c.fault(fmt.Sprintf("%s[%d]", l.field, i), "%q is also in %s", m, other)
			}
			if of {
				seen[m] = l.field
			}
		}
	}
}

func (c *check) states(f Format) {
	thinks := f.Channels != nil || len(f.Open) > 0 || len(f.Close) > 0 || len(f.ToolOpen) > 0
	switch {
	case f.StartsIn > StartAuto:
		c.fault("starts_in", "%q is not thinking, answer or auto", f.StartsIn)
	case f.StartsIn == 0 && thinks:
		c.fault("starts_in", "is missing: say thinking if the prompt opens thinking, answer if the model does, auto if either may")
	}
	if f.ConstrainedStartsIn > StartAuto {
		c.fault("constrained_starts_in", "%q is not thinking, answer or auto", f.ConstrainedStartsIn)
	}
	switch {
	case f.Otherwise > StartAnswer:
		c.fault("otherwise", "%q is not thinking or answer", f.Otherwise)
	case f.Otherwise != 0 && f.StartsIn != StartAuto && f.ConstrainedStartsIn != StartAuto:
		c.fault("otherwise", "counts only with starts_in or constrained_starts_in: auto")
	}
	if f.Channels != nil {
		return
	}
	if len(f.Close) == 0 && (thinks || f.begins(StartThinking)) {
		c.fault("close", "is missing: thinking would never end")
	}
	if len(f.Open) == 0 && len(f.Close) > 0 && !f.begins(StartThinking) {
		c.fault("open", "is missing: nothing would ever begin thinking")
	}
}

// begins reports whether some stream of this format begins in state s.
func (f Format) begins(s State) bool {
	return f.StartsIn == s || f.ConstrainedStartsIn == s || f.Otherwise == s
}

func (c *check) rest(f Format) {
	if f.History > HistoryDrop {
		c.fault("history", "%d is not keep, keep_last_tool_turn or drop", f.History)
	}
	if len(f.ControlTokens) > 0 && !f.MarkersSpecial {
		c.fault("control_tokens", "needs markers_special: special tokens are not in the text unless the engine is asked for them")
	}
	if at, _ := first(f.OffPrefill, f.Close); f.OffPrefill != "" && at < 0 {
		c.fault("off_prefill", "%q holds no closer, so it does not end thinking", f.OffPrefill)
	}
	if t := f.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		c.fault("temperature", "%v is not between 0 and 2", *t)
	}
}
