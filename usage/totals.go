package usage

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"oneslot/internal/openai"
)

// Figure is a number the engine may have told. The zero Figure was not told.
type Figure struct {
	N     int
	Known bool
}

// Totals are the engine's figures so far for one run.
type Totals struct {
	Prompt, Completion Figure
	// Thinking is the engine's own thinking figure, wherever it stood.
	Thinking Figure
	// Cached are the prompt tokens taken from the engine's prefix cache.
	Cached Figure
	// DraftsAccepted and DraftsRejected are speculative draft tokens.
	DraftsAccepted, DraftsRejected Figure
	// Extra holds the members this package does not know, to be passed on.
	Extra Extra
}

// Extra holds unknown members of a usage object as JSON members on one line,
// without braces, such as `"a":1,"b":null`: those of the object itself, of
// prompt_tokens_details and of completion_tokens_details.
type Extra struct {
	Top, Prompt, Completion string
}

// ParseTotals reads the engine's `usage` object. It reports false when raw is
// no such object or says nothing.
//
// A null, a negative number, a fraction and a text are no figures, at any
// depth. The thinking figure stands in completion_tokens_details (vLLM, OpenAI)
// or beside the totals (SGLang); where prompt + completion + thinking is the
// total, completion was told without thinking and is put right.
func ParseTotals(raw string) (Totals, bool) {
	var t Totals
	var total Figure
	ok := openai.Members(raw, func(name, value string) {
		switch name {
		case "prompt_tokens":
			t.Prompt.read(value)
		case "completion_tokens":
			t.Completion.read(value)
		case "total_tokens":
			total.read(value)
		case "reasoning_tokens":
			t.Thinking.read(value)
		case "prompt_tokens_details":
			t.promptDetails(value)
		case "completion_tokens_details":
			t.completionDetails(value)
		case "oneslot": // ours to write
		default:
			t.Extra.Top = member(t.Extra.Top, name, value)
		}
	})
	if !ok {
		return Totals{}, false
	}
	if t.Prompt.Known && t.Completion.Known && total.Known && t.Thinking.N > 0 &&
		total.N == t.Prompt.N+t.Completion.N+t.Thinking.N {
		t.Completion.N += t.Thinking.N
	}
	return t, t != Totals{}
}

// ParseTimings reads the `timings` object of llama.cpp's server, which tells
// the totals so far where there is no usage object. It reports false when raw
// holds none of them.
func ParseTimings(raw string) (Totals, bool) {
	var t Totals
	var prompt, drafts Figure
	ok := openai.Members(raw, func(name, value string) {
		switch name {
		case "cache_n":
			t.Cached.read(value)
		case "prompt_n":
			prompt.read(value)
		case "predicted_n":
			t.Completion.read(value)
		case "draft_n":
			drafts.read(value)
		case "draft_n_accepted":
			t.DraftsAccepted.read(value)
		}
	})
	if !ok {
		return Totals{}, false
	}
	if prompt.Known && t.Cached.Known {
		t.Prompt = Figure{N: prompt.N + t.Cached.N, Known: true}
	}
	if drafts.Known && t.DraftsAccepted.Known && drafts.N >= t.DraftsAccepted.N {
		t.DraftsRejected = Figure{N: drafts.N - t.DraftsAccepted.N, Known: true}
	}
	return t, t != Totals{}
}

func (t *Totals) promptDetails(details string) {
	openai.Members(details, func(name, value string) {
		if name == "cached_tokens" {
			t.Cached.read(value)
		} else {
			t.Extra.Prompt = member(t.Extra.Prompt, name, value)
		}
	})
}

func (t *Totals) completionDetails(details string) {
	openai.Members(details, func(name, value string) {
		switch name {
		case "reasoning_tokens":
			t.Thinking.read(value)
		case "text_tokens": // follows from the rest
		case "accepted_prediction_tokens":
			t.DraftsAccepted.read(value)
		case "rejected_prediction_tokens":
			t.DraftsRejected.read(value)
		default:
			t.Extra.Completion = member(t.Extra.Completion, name, value)
		}
	})
}

// read takes a figure from value, raw JSON, and leaves f alone when value is none.
func (f *Figure) read(value string) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		fraction, err := strconv.ParseFloat(value, 64)
		if err != nil || fraction != math.Trunc(fraction) || fraction > math.MaxInt32 {
			return
		}
		n = int64(fraction)
	}
	if n >= 0 {
		*f = Figure{N: int(n), Known: true}
	}
}

// member appends a name and its value to members, on one line.
func member(members, name, value string) string {
	if strings.ContainsAny(value, "\r\n") {
		var line bytes.Buffer
		if json.Compact(&line, []byte(value)) == nil {
			value = line.String()
		}
	}
	if members != "" {
		members += ","
	}
	return members + openai.String(name) + ":" + value
}

// replace takes over every figure that newer tells.
func (t *Totals) replace(newer *Totals) {
	for _, f := range [...]struct{ old, new *Figure }{
		{&t.Prompt, &newer.Prompt},
		{&t.Completion, &newer.Completion},
		{&t.Thinking, &newer.Thinking},
		{&t.Cached, &newer.Cached},
		{&t.DraftsAccepted, &newer.DraftsAccepted},
		{&t.DraftsRejected, &newer.DraftsRejected},
	} {
		if f.new.Known {
			*f.old = *f.new
		}
	}
	if newer.Extra != (Extra{}) {
		t.Extra = newer.Extra
	}
}
