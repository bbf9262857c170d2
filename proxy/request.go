package proxy

import (
	"context"
	"strconv"
	"strings"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/engine"
	"oneslot/proxy/split"
	"oneslot/reasoning"
	"oneslot/usage"

	"github.com/tidwall/gjson"
)

// owned are the request fields that the proxy sets itself or enforces itself.
var owned = map[string]bool{
	"stream": true, "stream_options": true, "model": true, "n": true, "max_tokens": true, "max_completion_tokens": true,
	// A stop string would also fire inside thinking; the splitter applies it to
	// the answer.
	"stop": true,
	// How thinking is shown is decided here.
	"include_reasoning": true,
	// A prompt is repeated by whoever has it.
	"echo": true, "best_of": true,
}

// denied are fields that could break the engine or open it to a client.
var denied = map[string]bool{
	"custom_logit_processor": true, "lora_path": true, "input_ids": true, "input_embeds": true, "rid": true, "priority": true,
	"return_hidden_states": true, "kv_transfer_params": true, "api_base": true, "base_url": true,
}

// deniedPrefixes are families of such fields.
var deniedPrefixes = []string{"bootstrap_", "session_", "disagg_", "data_parallel_"}

// bookkeeping are fields of the OpenAI API that are for whoever runs the
// service; some name a person, none means anything to an engine.
var bookkeeping = map[string]bool{
	"store": true, "metadata": true, "user": true, "safety_identifier": true, "service_tier": true, "prompt_cache_key": true,
	"prompt_cache_retention": true, "prompt_cache_options": true, "verbosity": true, "modalities": true, "audio": true,
	"prediction": true, "web_search_options": true, "moderation": true,
}

// An order is a request as it goes to its engine.
type order struct {
	*target
	format *reasoning.Format
	call   *Call
	info   engine.Info
	id     string // the engine knows the run by this
	body   []byte
	prompt []uint32 // its tokens, if they were counted for the limit and are still there
	length int      // how many they are; 0 if they were not counted
	plan   plan
	as     int           // Changes of its engine when it was made
	begun  *engine.Begun // its run has been sent, by Start
	sent   time.Time     // when
}

// newOrder makes the engine's request of the client's: only the keys that the
// proxy owns are changed, everything else passes as it came.
func newOrder(ctx context.Context, t *target, call *Call) (*order, error) {
	info, err := t.engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	o := t.draft(call, info)
	o.keepRoom(ctx)
	o.write(ctx)
	return o, nil
}

// draft is an order that is not written yet, for which nobody is asked.
func (t *target) draft(call *Call, info engine.Info) *order {
	o := &order{target: t, call: call, as: t.engine.Changes(), info: info, format: t.read(info)}
	o.plan = o.newPlan()
	return o
}

// asking reports whether a tokenizer or the engine is asked for something before the
// order is written.
func (o *order) asking() bool {
	return o.plan.asks && o.plan.ask.Room > 0 || !fits(o.info, o.call.Request.MaxTokens, o.call.Request)
}

// write makes the body of one run.
func (o *order) write(ctx context.Context) {
	o.id, o.prompt, o.length = engine.NewRunID(), nil, 0
	o.body = openai.Rewrite(o.call.Request.Body, o.members(ctx), func(key string) bool {
		return owned[key] || denied[key] || bookkeeping[key] || o.plan.drops(key, o.info.Dialect) || hasPrefix(key, deniedPrefixes)
	})
}

func hasPrefix(key string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// members are what the proxy itself puts into the request.
func (o *order) members(ctx context.Context) (set []openai.Member) {
	d, req := o.info.Dialect, o.call.Request
	set = make([]openai.Member, 0, 16)
	put := func(key, raw string) { set = append(set, openai.Member{Key: key, Raw: raw}) }
	put("model", openai.String(o.engine.UpstreamModel(o.info)))
	put("stream", "true")
	put("stream_options", streamOptions(d))
	set = append(set, o.asks()...)
	set = append(set, o.plan.native(d)...)
	if n := o.limit(ctx); n > 0 {
		name := d.LimitName
		if req.Prompt != "" {
			name = "max_tokens" // the only name that completions have
		}
		put(name, strconv.Itoa(n))
	}
	if d.RequestID {
		put("rid", openai.String(o.id))
	}
	if d.Running != "" {
		put(d.Running, "true")
	}
	if warm := o.format.Temperature; warm != nil && !req.Temperature {
		put("temperature", strconv.FormatFloat(*warm, 'f', -1, 64))
	}
	if o.format.MarkersSpecial && !req.Verbatim && (d.Name == engine.SGLang || d.Name == engine.VLLM) {
		put("skip_special_tokens", "false")
	}
	return set
}

func streamOptions(d *engine.Dialect) string {
	if d.ContinuousUsage {
		return `{"include_usage":true,"continuous_usage_stats":true}`
	}
	return `{"include_usage":true}`
}

func history(h reasoning.History) openai.History {
	switch h {
	case reasoning.HistoryDrop:
		return openai.DropThinking
	case reasoning.HistoryKeepLastToolTurn:
		return openai.KeepToolTurn
	case reasoning.HistoryKeep:
	}
	return openai.KeepThinking
}

// contextMargin is how many tokens before the end of its context SGLang stops
// by itself; a limit that reaches further may be refused.
const contextMargin = 2

// limit returns the token limit to send. An engine that refuses a limit beyond
// its context gets a shorter one; the prompt is counted only when a token a
// byte would not fit, since that costs a call.
func (o *order) limit(ctx context.Context) int {
	n := o.plan.left(o.call.Request.MaxTokens)
	if fits(o.info, n, o.call.Request) {
		return n
	}
	prompt, err := o.counted(ctx)
	if room := o.info.ContextLength - contextMargin; err == nil && prompt < room {
		return min(n, room-prompt)
	}
	return n // what is wrong the engine says best
}

// fits reports whether a limit can be sent as it is, whatever the prompt.
func fits(info engine.Info, n int, req *openai.Request) bool {
	return n == 0 || info.Dialect.Clamps || info.ContextLength == 0 || n+len(req.Body) <= info.ContextLength-contextMargin
}

// continued reports whether the engine goes on with the last message.
func (o *order) continued() bool {
	req := o.call.Request
	return req.Continued || o.info.Dialect.Continues && req.Prefill+req.PrefillThinking != ""
}

// start is where the engine's text begins.
func (o *order) start() reasoning.State {
	f, req := o.format, o.call.Request
	switch {
	case req.Verbatim:
		return reasoning.StartMidAnswer
	case req.Constrained:
		if f.ConstrainedStartsIn != 0 {
			return f.ConstrainedStartsIn
		}
		return reasoning.StartAnswer
	case o.plan.closed:
		return reasoning.StartAfter(f, first(f.Open)+f.OffPrefill, f.StartsIn)
	case o.continued():
		prefill := req.Prefill
		if req.PrefillThinking != "" {
			prefill = first(f.Open) + req.PrefillThinking + first(f.Close) + prefill
		}
		return reasoning.StartAfter(f, prefill, f.StartsIn)
	case req.Prompt != "":
		return reasoning.StartInPrompt(f, gjson.Parse(req.Prompt).Str)
	}
	return f.StartsIn
}

func (o *order) splitter() *split.Splitter {
	req := o.call.Request
	cfg := split.Config{Format: o.format, Start: o.start(), Stop: req.Stop, Logprobs: req.Logprobs && req.Prompt == "", Verbatim: req.Verbatim}
	switch {
	case !o.info.Dialect.Echoes:
	case o.plan.closed:
		cfg.Echo, cfg.EchoThinking = o.plan.echo(o)
	case o.continued():
		cfg.Echo, cfg.EchoThinking = req.Prefill, req.PrefillThinking
	}
	return split.New(cfg)
}

// meter counts what the run uses; pause is called before it asks a tokenizer.
func (o *order) meter(pause func()) *usage.Meter {
	cfg := usage.Config{
		Counter: patient{o.counter, pause}, Open: first(o.format.Open), Close: first(o.format.Close),
		OpenerGenerated: o.start() != reasoning.StartThinking, CacheOff: o.info.Cache.Off, CacheTold: o.info.Cache.Told,
	}
	if o.info.Dialect.Name == engine.VLLM {
		// Its figure for thinking is that of the text between the markers.
		cfg.EngineOmits = 1
		if cfg.OpenerGenerated {
			cfg.EngineOmits = 2
		}
	}
	return usage.NewMeter(cfg)
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
