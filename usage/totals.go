package usage

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"

	"github.com/tidwall/gjson"
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
	root, ok := object(raw)
	if !ok {
		return t, false
	}
	var total Figure
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
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
			t.Extra.Top = member(t.Extra.Top, key, value)
		}
		return true
	})
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
	root, ok := object(raw)
	if !ok {
		return t, false
	}
	var prompt, drafts Figure
	root.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
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
		return true
	})
	if prompt.Known && t.Cached.Known {
		t.Prompt = Figure{N: prompt.N + t.Cached.N, Known: true}
	}
	if drafts.Known && t.DraftsAccepted.Known && drafts.N >= t.DraftsAccepted.N {
		t.DraftsRejected = Figure{N: drafts.N - t.DraftsAccepted.N, Known: true}
	}
	return t, t != Totals{}
}

func object(raw string) (gjson.Result, bool) {
	if !gjson.Valid(raw) {
		return gjson.Result{}, false
	}
	root := gjson.Parse(raw)
	return root, root.IsObject()
}

func (t *Totals) promptDetails(details gjson.Result) {
	if !details.IsObject() {
		return
	}
	details.ForEach(func(key, value gjson.Result) bool {
		if key.Str == "cached_tokens" {
			t.Cached.read(value)
		} else {
			t.Extra.Prompt = member(t.Extra.Prompt, key, value)
		}
		return true
	})
}

func (t *Totals) completionDetails(details gjson.Result) {
	if !details.IsObject() {
		return
	}
	details.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "reasoning_tokens":
			t.Thinking.read(value)
		case "text_tokens": // follows from the rest
		case "accepted_prediction_tokens":
			t.DraftsAccepted.read(value)
		case "rejected_prediction_tokens":
			t.DraftsRejected.read(value)
		default:
			t.Extra.Completion = member(t.Extra.Completion, key, value)
		}
		return true
	})
}

// read takes a figure from value, and leaves f alone when value is none.
func (f *Figure) read(value gjson.Result) {
	if value.Type != gjson.Number || value.Num < 0 || value.Num > math.MaxInt32 || value.Num != math.Trunc(value.Num) {
		return
	}
	*f = Figure{N: int(value.Num), Known: true}
}

// member appends key and value to members, on one line.
func member(members string, key, value gjson.Result) string {
	raw := value.Raw
	if strings.ContainsAny(raw, "\r\n") {
		var line bytes.Buffer
		if json.Compact(&line, []byte(raw)) == nil {
			raw = line.String()
		}
	}
	if members != "" {
		members += ","
	}
	return members + key.Raw + ":" + raw
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
