package ask

import (
	"encoding/json"
	"strings"

	"oneslot/internal/simengine/wire"
	"oneslot/internal/simengine/words"
)

// Phase is where the model goes on after the prompt.
type Phase int

// The phases at the start of a generation.
const (
	Opening    Phase = iota // nothing is open: the model writes the open marker itself
	InThinking              // the prompt ends inside thinking
	InAnswer                // the prompt has a closed thinking or begins the answer
)

// Request is one request for text.
type Request struct {
	Path            string
	Chat            bool // /v1/chat/completions, else /v1/completions
	RID             string
	Model           string
	Stream          bool
	Usage           bool // stream_options.include_usage
	ContinuousUsage bool // stream_options.continuous_usage_stats
	MaxTokens       int
	GaveMax         bool // MaxTokens was given, so that a negative one is a fault
	Stop            []string
	Separate        bool // separate_reasoning
	StreamThinking  bool // stream_reasoning
	SkipSpecial     bool // skip_special_tokens
	KeepStop        bool // no_stop_trim
	IgnoreEOS       bool
	Tools           bool // the request had tools
	Unparsed        bool // reasoning_format is "none", which llama.cpp knows

	// ThinkingBudget is the most tokens of thinking by engine, for those that
	// know such a field. An engine that is not in it has no budget.
	ThinkingBudget map[wire.Dialect]int

	Prompt    string // rendered
	Start     Phase
	Prefilled bool // the last assistant message is continued
	Unmarked  bool // …and has no marker, so that the engine's parser takes all for thinking
	NoThink   bool // thinking was switched off

	Shape Shape
	Body  json.RawMessage
}

// Shape is what a request may ask of the simulated engine alone, in the field
// "sim" of its body, or as the text "sim:{…}" at the start of its last message.
// A nil field means the engine's setting.
type Shape struct {
	Thinking               *int     `json:"thinking"` // tokens
	Answer                 *int     `json:"answer"`   // tokens
	TokensPerSecond        *float64 `json:"tokens_per_second"`
	PrefillTokensPerSecond *float64 `json:"prefill_tokens_per_second"`
	TokensPerChunk         *int     `json:"tokens_per_chunk"`
	Script                 string   `json:"script"` // a script file; its first script is played
}

// Reader reads requests for a model with one format. Text turns token ids into
// text.
type Reader struct {
	Format Format
	Text   func(ids []int) (string, bool)
}

// Read reads the body of a POST to path.
func (r Reader) Read(path string, body []byte) (*Request, *wire.Problem) {
	f, problem := parse(path, body)
	if problem != nil {
		return nil, problem
	}
	req := &Request{Path: path, Chat: path == "/v1/chat/completions", Body: body}
	req.common(f)
	if req.Chat {
		r.chat(f, req)
	} else {
		r.completion(f, req)
	}
	if f.problem != nil {
		return nil, f.problem
	}
	req.Start, req.Unmarked = r.phase(req.Prompt)
	return req, nil
}

// common reads the fields that chats and completions share.
func (req *Request) common(f *fields) {
	budgetFields := map[string]wire.Dialect{
		"thinking_token_budget": wire.VLLM, "thinking_budget_tokens": wire.LlamaCPP, "reasoning_budget_tokens": wire.LlamaCPP,
	}
	req.RID = f.text("rid")
	if req.Model = f.text("model"); req.Model == "" {
		req.Model = "default"
	}
	req.Stream = f.flag("stream", false)
	options := f.object("stream_options")
	req.Usage = req.Stream && options.flag("include_usage", false)
	req.ContinuousUsage = req.Stream && options.flag("continuous_usage_stats", false)
	req.Stop = f.words("stop")
	req.SkipSpecial = f.flag("skip_special_tokens", true)
	req.KeepStop = f.flag("no_stop_trim", false)
	req.IgnoreEOS = f.flag("ignore_eos", false)
	req.Unparsed = f.text("reasoning_format") == "none"
	req.ThinkingBudget = map[wire.Dialect]int{}
	for name, dialect := range budgetFields {
		if f.has(name) {
			req.ThinkingBudget[dialect] = max(f.whole(name, 0), 0)
		}
	}
	for _, name := range []string{"temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty"} {
		f.number(name)
	}
	if n := f.whole("n", 1); n > 1 {
		f.fail(wire.Refused("The simulated engine gives one choice, n was %d.", n))
	}
	if f.has("sim") && json.Unmarshal(f.raw["sim"], &req.Shape) != nil {
		f.invalid("sim", "dict_type", "Input should be an object of the simulated engine")
	}
}

func (r Reader) completion(f *fields, req *Request) {
	req.MaxTokens, req.GaveMax = f.whole("max_tokens", 16), true
	var ids []int
	if json.Unmarshal(f.raw["prompt"], &ids) == nil && f.has("prompt") {
		text, ok := r.Text(ids)
		if !ok {
			f.fail(wire.Refused("The prompt holds token ids that are not in the vocabulary."))
		}
		req.Prompt = text
		return
	}
	if !f.has("prompt") {
		f.invalid("prompt", "missing", "Field required")
	}
	req.Prompt = f.text("prompt")
}

func (r Reader) chat(f *fields, req *Request) {
	req.MaxTokens = f.whole("max_completion_tokens", f.whole("max_tokens", -1))
	req.GaveMax = f.has("max_completion_tokens") || f.has("max_tokens")
	req.Separate = f.flag("separate_reasoning", true)
	req.StreamThinking = f.flag("stream_reasoning", true)
	req.Tools = f.has("tools") && string(f.raw["tools"]) != "[]"
	messages := f.messages()
	if len(messages) == 0 {
		return
	}
	last := messages[len(messages)-1]
	req.Prefilled = last.Role == "assistant" && f.flag("continue_final_message", false)
	if r.Format.Switch {
		req.NoThink = f.text("reasoning_effort") == "none" || !f.object("chat_template_kwargs").flag("enable_thinking", true)
	}
	if !f.has("sim") {
		if text, ok := strings.CutPrefix(last.text, "sim:"); ok {
			// Whatever follows the object is part of the question.
			_ = json.NewDecoder(strings.NewReader(text)).Decode(&req.Shape)
		}
	}
	req.Prompt = r.Format.render(messages, f.raw["tools"], req)
}

// phase tells from the last assistant turn of prompt where the model goes on,
// and whether that turn has text without any marker.
func (r Reader) phase(prompt string) (start Phase, unmarked bool) {
	const turn = words.TurnStart + "assistant\n"
	tail := prompt
	if i := strings.LastIndex(prompt, turn); i >= 0 {
		tail = prompt[i+len(turn):]
	}
	switch {
	case strings.Contains(tail, r.Format.Close):
		return InAnswer, false
	case strings.Contains(tail, r.Format.Open):
		return InThinking, false
	case strings.TrimSpace(tail) != "":
		return InAnswer, true
	}
	return Opening, false
}
