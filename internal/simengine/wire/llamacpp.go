package wire

import "time"

type llamaEnvelope struct {
	Choices     []any         `json:"choices"`
	Created     int64         `json:"created"`
	ID          string        `json:"id"`
	Model       string        `json:"model"`
	Fingerprint string        `json:"system_fingerprint"`
	Object      string        `json:"object"`
	Usage       *llamaUsage   `json:"usage,omitempty"`
	Timings     *llamaTimings `json:"timings,omitempty"`
}

type llamaUsage struct {
	Completion int          `json:"completion_tokens"`
	Prompt     int          `json:"prompt_tokens"`
	Total      int          `json:"total_tokens"`
	Details    cachedTokens `json:"prompt_tokens_details"`
}

type llamaTimings struct {
	CacheN         int     `json:"cache_n"`
	PromptN        int     `json:"prompt_n"`
	PromptMS       float64 `json:"prompt_ms"`
	PromptTokenMS  float64 `json:"prompt_per_token_ms"`
	PromptSpeed    float64 `json:"prompt_per_second"`
	PredictedN     int     `json:"predicted_n"`
	PredictedMS    float64 `json:"predicted_ms"`
	PredictTokenMS float64 `json:"predicted_per_token_ms"`
	PredictSpeed   float64 `json:"predicted_per_second"`
}

type llamaChoice struct {
	Finish  *string `json:"finish_reason"`
	Index   int     `json:"index"`
	Delta   any     `json:"delta,omitempty"`
	Message any     `json:"message,omitempty"`
	Text    *string `json:"text,omitempty"`
}

type llamaDelta struct {
	Role      string  `json:"role,omitempty"`
	Reasoning *string `json:"reasoning_content,omitempty"`
	Content   *string `json:"content,omitempty"`
}

func (r Reply) llamaChunk(c Chunk, now time.Time) any {
	choice := llamaChoice{Finish: optional(c.Finish)}
	switch {
	case r.Text:
		choice.Text = &c.Answer
	case c.Role:
		choice.Delta = struct {
			Role    string  `json:"role"`
			Content *string `json:"content"`
		}{"assistant", nil}
	default:
		choice.Delta = llamaDelta{Reasoning: optional(c.Thinking), Content: optional(c.Answer)}
	}
	out := r.llama(true, now)
	out.Choices = append(out.Choices, choice)
	if c.Usage != nil && c.Finish != "" {
		_, out.Timings = c.Usage.llama()
	}
	return out
}

func (r Reply) llamaTotals(u Usage, now time.Time) any {
	out := r.llama(true, now)
	out.Usage, out.Timings = u.llama()
	return out
}

func (r Reply) llamaWhole(w Whole, now time.Time) any {
	choice := llamaChoice{Finish: optional(w.Finish)}
	if r.Text {
		choice.Text = &w.Answer
	} else {
		choice.Message = llamaDelta{Role: "assistant", Reasoning: optional(w.Thinking), Content: &w.Answer}
	}
	out := r.llama(false, now)
	out.Choices = append(out.Choices, choice)
	out.Usage, out.Timings = w.Usage.llama()
	return out
}

func (r Reply) llama(chunk bool, now time.Time) llamaEnvelope {
	return llamaEnvelope{
		ID: r.ID, Object: r.object(chunk), Created: now.Unix(), Model: r.Model,
		Fingerprint: "b0-unknown", Choices: []any{},
	}
}

// llama gives usage and timings. The server always reports what was cached.
func (u Usage) llama() (*llamaUsage, *llamaTimings) {
	cached := max(u.Cached, 0)
	prefill, decode := u.Prefill.Seconds(), u.Decode.Seconds()
	return &llamaUsage{u.Completion, u.Prompt, u.Prompt + u.Completion, cachedTokens{cached}}, &llamaTimings{
		CacheN: cached, PromptN: u.Prompt - cached, PromptMS: prefill * 1000,
		PromptTokenMS: ratio(prefill*1000, u.Prompt-cached), PromptSpeed: rate(u.Prompt-cached, prefill),
		PredictedN: u.Completion, PredictedMS: decode * 1000,
		PredictTokenMS: ratio(decode*1000, u.Completion), PredictSpeed: rate(u.Completion, decode),
	}
}

func rate(n int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

func ratio(x float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return x / float64(n)
}
