package engine

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// The dialects. Auto asks the engine.
const (
	Auto     = "auto"
	SGLang   = "sglang"
	VLLM     = "vllm"
	LlamaCpp = "llamacpp"
	OpenAI   = "openai"
)

// A Dialect is what differs between engines, as data. The facts were measured
// on SGLang 0.5.19, vLLM 0.32.0 and llama.cpp's server of build 11434.
type Dialect struct {
	// Name is one of the constants above.
	Name string
	// AbortPath takes {"rid":…} or {"abort_all":true}; empty where closing the
	// connection is what stops a run.
	AbortPath string
	// RequestID is whether a request may carry its own id as `rid`.
	RequestID bool
	// ContinuousUsage is whether stream_options.continuous_usage_stats makes the
	// engine tell its running totals with every chunk.
	ContinuousUsage bool
	// Running is the request field that makes the engine tell its running totals
	// in `timings` with every chunk; empty where there is none.
	Running string
	// LimitName is the request field for the token limit.
	LimitName string
	// Clamps is whether the engine shortens a limit that does not fit the
	// context by itself; SGLang refuses such a request instead.
	Clamps bool
	// Continues is whether a last message of the assistant is always continued,
	// and Echoes whether what it said is then repeated before it goes on.
	Continues, Echoes bool
	// ThinkingField is the member of a message in which the engine reads earlier
	// thinking; empty where that is not known.
	ThinkingField string
	// BudgetField is the request field with which the engine itself limits
	// thinking, in tokens; empty where it cannot.
	BudgetField string
	// Continue is how a run goes on behind thinking that was closed for it.
	Continue Continuation
	// HangsUp is whether the engine closes the connection after a stream without
	// having said so; the next request on it would meet its end.
	HangsUp bool
	// ParsesEffort is whether reasoning_effort and its relatives switch the
	// engine's parser, so that they must not reach it.
	ParsesEffort bool

	loads    []load
	tokenize tokenize
}

// A Continuation is how an engine goes on with a message of the assistant that
// stands last in the request.
type Continuation uint8

// The ways to go on. The zero value is none.
const (
	// ContinueNone: nobody knows how.
	ContinueNone Continuation = iota
	// ContinueFlag: with continue_final_message alone (SGLang).
	ContinueFlag
	// ContinueBoth: with add_generation_prompt false as well (vLLM).
	ContinueBoth
	// ContinueAlways: without being asked; where the engine splits thinking by its
	// template, thinking goes into reasoning_content and the flag names the part
	// that goes on (llama.cpp).
	ContinueAlways
)

// A load is one way in which an engine tells how much it has to do.
type load struct {
	path string
	// running reads the number of requests that run or wait inside the engine.
	running func(body string) (n int, ok bool)
}

// tokenize is how an engine counts tokens of a text and of messages.
type tokenize struct {
	path string
	// field carries the text; extra is further members as raw JSON.
	field, extra string
	// count reads the number of tokens out of the reply.
	count string
	// prompt takes a chat request; empty where the engine cannot. Where rendered is
	// set the reply has the text under that name. begun are the further members
	// with which such a text, or one to complete, is tokenized.
	prompt, rendered, begun string
}

// reasoningContent is where all three engines read earlier thinking.
const reasoningContent = "reasoning_content"

func dialects() map[string]*Dialect {
	return map[string]*Dialect{
		SGLang: {
			Name: SGLang, AbortPath: "/abort_request", RequestID: true, ContinuousUsage: true, LimitName: "max_tokens",
			ParsesEffort: true, ThinkingField: reasoningContent, Continue: ContinueFlag,
			loads: []load{
				{"/get_load", sglangLoad},
				{"/v1/loads", sglangLoads},
				{"/metrics", metric("sglang:num_running_reqs", "sglang:num_queue_reqs")},
			},
			tokenize: tokenize{path: "/tokenize", field: "prompt", extra: `"add_special_tokens":false`, count: "count", prompt: "/tokenize", begun: `"add_special_tokens":true`},
		},
		VLLM: {
			Name: VLLM, ContinuousUsage: true, LimitName: "max_tokens", Clamps: true, ThinkingField: reasoningContent,
			BudgetField: "thinking_token_budget", Continue: ContinueBoth,
			loads:    []load{{"/metrics", metric("vllm:num_requests_running", "vllm:num_requests_waiting")}},
			tokenize: tokenize{path: "/tokenize", field: "prompt", extra: `"add_special_tokens":false`, count: "count", prompt: "/tokenize", begun: `"add_special_tokens":true`},
		},
		LlamaCpp: {
			Name: LlamaCpp, Running: "timings_per_token", LimitName: "max_tokens", Clamps: true, Continues: true, Echoes: true, ThinkingField: reasoningContent,
			BudgetField: "thinking_budget_tokens", Continue: ContinueAlways, HangsUp: true,
			loads: []load{{"/slots", llamaSlots}, {"/metrics", metric("llamacpp:requests_processing", "llamacpp:requests_deferred")}},
			tokenize: tokenize{
				path: "/tokenize", field: "content", extra: `"add_special":false,"parse_special":true`, count: "tokens.#",
				prompt: "/apply-template", rendered: "prompt", begun: `"add_special":true,"parse_special":true`,
			},
		},
		OpenAI: {Name: OpenAI, LimitName: "max_completion_tokens", Clamps: true},
	}
}

// sglangLoad reads [{"num_reqs":4,"num_waiting_reqs":3,…}]; num_reqs includes
// those that wait.
func sglangLoad(body string) (int, bool) {
	list := gjson.Parse(body)
	if !list.IsArray() || !list.Get("0.num_reqs").Exists() {
		return 0, false
	}
	n := 0
	for _, one := range list.Array() {
		n += int(one.Get("num_reqs").Int())
	}
	return n, true
}

func llamaSlots(body string) (int, bool) {
	list := gjson.Parse(body)
	if !list.IsArray() || !list.Get("0.is_processing").Exists() {
		return 0, false
	}
	return len(list.Get("#(is_processing==true)#").Array()), true
}

// sglangLoads reads {"aggregate":{"total_reqs":4},…}, of newer versions; it takes
// the engine almost a second.
func sglangLoads(body string) (int, bool) {
	n := gjson.Get(body, "aggregate.total_reqs")
	return int(n.Int()), n.Type == gjson.Number
}

// metric returns a reader of Prometheus text that adds up the named gauges.
func metric(names ...string) func(string) (int, bool) {
	return func(body string) (n int, ok bool) {
		for line := range strings.Lines(body) {
			at := strings.IndexAny(line, "{ ")
			if at < 0 || !slices.Contains(names, line[:at]) {
				continue
			}
			// Labels may hold anything but the end of the line.
			if end := strings.LastIndexByte(line, '}'); end > at {
				at = end + 1
			}
			values := strings.Fields(line[at:]) // a time stamp may follow the value
			if len(values) == 0 {
				continue
			}
			if v, err := strconv.ParseFloat(values[0], 64); err == nil && v >= 0 {
				n, ok = n+int(v), true
			}
		}
		return n, ok
	}
}
