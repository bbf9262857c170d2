package usage

import (
	"strconv"

	"oneslot/internal/openai"
)

// Usage is the wire form of a report: the `usage` object of the OpenAI API.
// What is unknown is left out of it.
type Usage struct {
	Tokens         Tokens
	DraftsRejected Count
	// Extra are members of the engine's own usage object; none of the names
	// written here are among them.
	Extra Extra
	// IncludeSources adds {"oneslot":{"sources":{…}}}.
	IncludeSources bool
}

// Complete reports whether the three totals that clients rely on are there.
func (u Usage) Complete() bool { return u.Tokens.Prompt.Known() && u.Tokens.Completion.Known() }

// MarshalJSON is AppendJSON for encoding/json.
func (u Usage) MarshalJSON() ([]byte, error) { return u.AppendJSON(nil), nil }

// AppendJSON appends u on one line.
func (u Usage) AppendJSON(b []byte) []byte {
	t := &u.Tokens
	w := writer{b: append(b, '{')}
	w.count("prompt_tokens", t.Prompt)
	w.count("completion_tokens", t.Completion)
	w.count("total_tokens", plus(t.Prompt, t.Completion))
	w.open("completion_tokens_details")
	w.count("reasoning_tokens", t.Thinking)
	w.count("text_tokens", t.Answer)
	w.count("accepted_prediction_tokens", t.DraftsAccepted)
	w.count("rejected_prediction_tokens", u.DraftsRejected)
	w.members(u.Extra.Completion)
	w.close()
	w.open("prompt_tokens_details")
	w.count("cached_tokens", t.CachedPrompt)
	w.members(u.Extra.Prompt)
	w.close()
	w.members(u.Extra.Top)
	if u.IncludeSources {
		w.sources(t)
	}
	return append(w.b, '}')
}

// writer appends the members of nested objects. An object without members
// leaves no trace.
type writer struct {
	b []byte
	// undo is where the object opened last begins, its name included.
	undo int
	// comma says that a member was written to the object that is open.
	comma, outer bool
}

func (w *writer) key(name string) {
	if w.comma {
		w.b = append(w.b, ',')
	}
	w.comma = true
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

func (w *writer) count(name string, c Count) {
	if !c.Known() {
		return
	}
	w.key(name)
	w.b = strconv.AppendInt(w.b, int64(c.N), 10)
}

// members appends members that are JSON already.
func (w *writer) members(members string) {
	if members == "" {
		return
	}
	if w.comma {
		w.b = append(w.b, ',')
	}
	w.comma = true
	w.b = append(w.b, members...)
}

// open begins the object name inside the outer one.
func (w *writer) open(name string) {
	w.undo, w.outer = len(w.b), w.comma
	w.key(name)
	w.b = append(w.b, '{')
	w.comma = false
}

func (w *writer) close() {
	if !w.comma {
		w.b, w.comma = w.b[:w.undo], w.outer
		return
	}
	w.b = append(w.b, '}')
}

func (w *writer) sources(t *Tokens) {
	w.key("oneslot")
	w.b = append(w.b, `{"sources":{`...)
	w.comma = false
	for _, s := range [...]struct {
		name string
		Count
	}{
		{"prompt", t.Prompt},
		{"cached_prompt", t.CachedPrompt},
		{"thinking", t.Thinking},
		{"answer", t.Answer},
		{"completion", t.Completion},
		{"drafts_accepted", t.DraftsAccepted},
	} {
		w.key(s.name)
		source := s.Source
		if source == "" {
			source = Unknown
		}
		w.b = openai.AppendString(w.b, string(source))
	}
	w.b = append(w.b, "}}"...)
	w.comma = true
}
