package wire

import "time"

const vllmFingerprint = "vllm-0.32.0-ca555df1"

type vllmEnvelope struct {
	ID          string     `json:"id"`
	Object      string     `json:"object"`
	Created     int64      `json:"created"`
	Model       string     `json:"model"`
	Choices     []any      `json:"choices"`
	Usage       *vllmUsage `json:"usage,omitempty"`
	Fingerprint string     `json:"system_fingerprint,omitempty"`
}

type vllmUsage struct {
	Prompt     int          `json:"prompt_tokens"`
	Total      int          `json:"total_tokens"`
	Completion int          `json:"completion_tokens"`
	Details    any          `json:"prompt_tokens_details,omitempty"`
	Completed  vllmThinking `json:"completion_tokens_details"`
}

type vllmThinking struct {
	Reasoning int `json:"reasoning_tokens"`
}

type vllmCached struct {
	Cached  int `json:"cached_tokens"`
	Created int `json:"created_cache_tokens"`
}

type vllmChoice struct {
	Index    int     `json:"index"`
	Delta    any     `json:"delta,omitempty"`
	Message  any     `json:"message,omitempty"`
	Text     *string `json:"text,omitempty"`
	Logprobs any     `json:"logprobs"`
	Finish   *string `json:"finish_reason"`
}

// vllmSpoken is a choice with text, vllmEnded one with a finish reason.
type (
	vllmSpoken struct {
		vllmChoice
		TokenIDs any `json:"token_ids"`
	}
	vllmEnded struct {
		vllmChoice
		Stop     any `json:"stop_reason"`
		TokenIDs any `json:"token_ids"`
	}
)

// vllmFirst is the chunk with the role.
type vllmFirst struct {
	vllmEnvelope
	PromptIDs  any `json:"prompt_token_ids"`
	PromptText any `json:"prompt_text"`
}

type vllmDelta struct {
	Role      string  `json:"role,omitempty"`
	Reasoning *string `json:"reasoning,omitempty"`
	Content   *string `json:"content,omitempty"`
}

func (r Reply) vllmChunk(c Chunk, now time.Time) any {
	choice := vllmChoice{Finish: optional(c.Finish)}
	if r.Text {
		choice.Text = &c.Answer
	} else {
		choice.Delta = vllmDelta{Reasoning: optional(c.Thinking), Content: optional(c.Answer)}
	}
	out := r.vllm(true, now)
	if c.Usage != nil {
		out.Usage = c.Usage.vllm()
		out.Usage.Details = nil // only the totals have it
	}
	switch {
	case c.Role:
		empty := ""
		choice.Delta = vllmDelta{Role: "assistant", Content: &empty}
		out.Choices = append(out.Choices, choice)
		return vllmFirst{vllmEnvelope: out}
	case c.Finish != "":
		out.Choices = append(out.Choices, vllmEnded{vllmChoice: choice, Stop: stopText(c.Matched)})
	default:
		out.Choices = append(out.Choices, vllmSpoken{vllmChoice: choice})
	}
	return out
}

func (r Reply) vllmTotals(u Usage, now time.Time) any {
	out := r.vllm(true, now)
	out.Usage = u.vllm()
	out.Fingerprint = vllmFingerprint
	return out
}

func (r Reply) vllmWhole(w Whole, now time.Time) any {
	choice := vllmChoice{Finish: optional(w.Finish)}
	if r.Text {
		choice.Text = &w.Answer
	} else {
		choice.Message = struct {
			Role      string  `json:"role"`
			Content   *string `json:"content"`
			Reasoning *string `json:"reasoning"`
			ToolCalls []any   `json:"tool_calls"`
		}{"assistant", optional(w.Answer), optional(w.Thinking), []any{}}
	}
	out := r.vllm(false, now)
	out.Choices = append(out.Choices, vllmEnded{vllmChoice: choice, Stop: stopText(w.Matched)})
	out.Usage = w.Usage.vllm()
	out.Fingerprint = vllmFingerprint
	return out
}

func (r Reply) vllm(chunk bool, now time.Time) vllmEnvelope {
	return vllmEnvelope{ID: r.ID, Object: r.object(chunk), Created: now.Unix(), Model: r.Model, Choices: []any{}}
}

func (u Usage) vllm() *vllmUsage {
	out := &vllmUsage{
		Prompt: u.Prompt, Total: u.Prompt + u.Completion, Completion: u.Completion,
		Completed: vllmThinking{u.Thinking},
	}
	if u.Cached >= 0 {
		out.Details = vllmCached{u.Cached, 0}
	}
	return out
}

// stopText is the stop string that matched: vLLM names no token ids there.
func stopText(matched any) any {
	if s, ok := matched.(string); ok {
		return s
	}
	return nil
}
