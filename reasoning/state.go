package reasoning

import "fmt"

// State says where a stream begins. A format may name StartThinking,
// StartAnswer or StartAuto; the others follow from a prefill, see StartAfter.
// The zero State is not set; a Parser takes it for StartAnswer.
type State uint8

// The places where a stream may begin.
const (
	// StartThinking is inside thinking: the prompt ends with an opener.
	StartThinking State = iota + 1
	// StartAnswer is before everything: a leading opener begins thinking.
	StartAnswer
	// StartAuto leaves the choice to the first visible text and, where that is
	// no opener, to Format.Otherwise.
	StartAuto
	// StartMidThinking is inside thinking, after visible thinking: leading white
	// space is kept and an opener is text.
	StartMidThinking
	// StartClosed is right after a closer: leading white space is dropped and
	// every marker is text.
	StartClosed
	// StartMidAnswer is inside the answer: white space is kept and every marker
	// is text.
	StartMidAnswer
)

// String returns the name of the state; for the first three it is the text that
// a configuration uses.
func (s State) String() string {
	switch s {
	case 0:
		return ""
	case StartThinking:
		return "thinking"
	case StartAnswer:
		return "answer"
	case StartAuto:
		return "auto"
	case StartMidThinking:
		return "mid-thinking"
	case StartClosed:
		return "closed"
	case StartMidAnswer:
		return "mid-answer"
	default:
		return "unknown"
	}
}

// MarshalText writes the state as a configuration does. States that only a
// prefill leads to are an error.
func (s State) MarshalText() ([]byte, error) {
	if s > StartAuto {
		return nil, fmt.Errorf("%w: state %q has no place in a configuration", ErrFormat, s.String())
	}
	return []byte(s.String()), nil
}

// UnmarshalText reads "thinking", "answer", "auto", or nothing for the zero
// State.
func (s *State) UnmarshalText(text []byte) error {
	for state := State(0); state <= StartAuto; state++ {
		if string(text) == state.String() {
			*s = state
			return nil
		}
	}
	return fmt.Errorf("%w: unknown state %q: want thinking, answer or auto", ErrFormat, text)
}

// History says what becomes of the thinking of earlier turns that a client
// sends back. The zero History is HistoryKeep.
type History uint8

// What may become of earlier thinking.
const (
	// HistoryKeep forwards it, in the field the engine reads; the model's
	// template decides what to do with it.
	HistoryKeep History = iota
	// HistoryKeepLastToolTurn forwards it only for the turn that is still
	// calling tools, that is after the last message of the user.
	HistoryKeepLastToolTurn
	// HistoryDrop removes it.
	HistoryDrop
)

// String returns the text that a configuration uses.
func (h History) String() string {
	switch h {
	case HistoryKeep:
		return "keep"
	case HistoryKeepLastToolTurn:
		return "keep_last_tool_turn"
	case HistoryDrop:
		return "drop"
	default:
		return "unknown"
	}
}

// MarshalText writes the history rule as a configuration does.
func (h History) MarshalText() ([]byte, error) {
	if h > HistoryDrop {
		return nil, fmt.Errorf("%w: history rule %d does not exist", ErrFormat, h)
	}
	return []byte(h.String()), nil
}

// UnmarshalText reads "keep", "keep_last_tool_turn" or "drop". Nothing is
// HistoryKeep.
func (h *History) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*h = HistoryKeep
		return nil
	}
	for rule := HistoryKeep; rule <= HistoryDrop; rule++ {
		if string(text) == rule.String() {
			*h = rule
			return nil
		}
	}
	return fmt.Errorf("%w: unknown history rule %q: want keep, keep_last_tool_turn or drop", ErrFormat, text)
}
