package wire

import "time"

type sglangEnvelope struct {
	ID       string          `json:"id"`
	Object   string          `json:"object"`
	Created  int64           `json:"created"`
	Model    string          `json:"model"`
	Choices  []any           `json:"choices"`
	Usage    *sglangUsage    `json:"usage,omitempty"`
	Metadata *sglangMetadata `json:"metadata,omitempty"`
}

type sglangUsage struct {
	Prompt     int           `json:"prompt_tokens"`
	Total      int           `json:"total_tokens"`
	Completion int           `json:"completion_tokens"`
	Details    *cachedTokens `json:"prompt_tokens_details"`
	Reasoning  int           `json:"reasoning_tokens"`
}

type cachedTokens struct {
	Cached int `json:"cached_tokens"`
}

type sglangMetadata struct {
	Version  string          `json:"weight_version"`
	Versions []sglangVersion `json:"weight_versions"`
}

type sglangVersion struct {
	Version string `json:"version"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
}

// sglangChoice holds a delta, a message or a text, and then how it ended.
type sglangChoice struct {
	Index    int     `json:"index"`
	Delta    any     `json:"delta,omitempty"`
	Message  any     `json:"message,omitempty"`
	Text     *string `json:"text,omitempty"`
	Logprobs any     `json:"logprobs"`
	Finish   *string `json:"finish_reason"`
	Matched  any     `json:"matched_stop"`
}

type sglangDelta struct {
	Reasoning *string `json:"reasoning_content"`
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
}

// sglangToolDelta is the delta of a request with tools, which another
// serializer writes with all its null keys.
type sglangToolDelta struct {
	Role      *string `json:"role"`
	Content   *string `json:"content"`
	Reasoning *string `json:"reasoning_content"`
	ToolCalls any     `json:"tool_calls"`
}

type sglangMessage struct {
	Role      string  `json:"role"`
	Content   string  `json:"content"`
	Reasoning *string `json:"reasoning_content"`
	ToolCalls any     `json:"tool_calls"`
}

func (r Reply) sglangChunk(c Chunk, now time.Time) any {
	choice := sglangChoice{Finish: optional(c.Finish), Matched: c.Matched}
	switch {
	case r.Text:
		choice.Text = &c.Answer
	case r.Tools && !c.Role && c.Finish == "":
		choice.Delta = sglangToolDelta{Content: optional(c.Answer), Reasoning: optional(c.Thinking)}
	case c.Role:
		empty := ""
		choice.Delta = sglangDelta{Role: "assistant", Content: &empty}
	default:
		choice.Delta = sglangDelta{Content: optional(c.Answer), Reasoning: optional(c.Thinking)}
	}
	out := r.sglang(true, now)
	out.Choices = append(out.Choices, choice)
	if c.Usage != nil {
		out.Usage = c.Usage.sglang()
	}
	return out
}

func (r Reply) sglangTotals(u Usage, now time.Time) any {
	out := r.sglang(true, now)
	out.Usage = u.sglang()
	return out
}

func (r Reply) sglangWhole(w Whole, now time.Time) any {
	choice := sglangChoice{Finish: optional(w.Finish), Matched: w.Matched}
	if r.Text {
		choice.Text = &w.Answer
	} else {
		choice.Message = sglangMessage{Role: "assistant", Content: w.Answer, Reasoning: optional(w.Thinking)}
	}
	out := r.sglang(false, now)
	out.Choices = append(out.Choices, choice)
	out.Usage = w.Usage.sglang()
	out.Metadata = &sglangMetadata{"default", []sglangVersion{{"default", 0, w.Usage.Completion}}}
	return out
}

func (r Reply) sglang(chunk bool, now time.Time) sglangEnvelope {
	return sglangEnvelope{ID: r.ID, Object: r.object(chunk), Created: now.Unix(), Model: r.Model, Choices: []any{}}
}

// sglang gives the cached tokens only when there were some: a reported zero is
// null too.
func (u Usage) sglang() *sglangUsage {
	out := &sglangUsage{
		Prompt: u.Prompt, Total: u.Prompt + u.Completion, Completion: u.Completion, Reasoning: u.Thinking,
	}
	if u.Cached > 0 {
		out.Details = &cachedTokens{u.Cached}
	}
	return out
}
