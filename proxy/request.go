package proxy

import (
	"context"
	"strconv"
	"strings"

	"oneslot/internal/openai"
	"oneslot/proxy/engine"

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
}

// denied are fields that could break the engine or open it to a client.
var denied = map[string]bool{
	"custom_logit_processor": true, "lora_path": true, "input_ids": true, "input_embeds": true, "rid": true, "priority": true,
	"return_hidden_states": true, "api_base": true, "base_url": true,
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

// effort are the fields that switch a thinking-aware engine's parser, so that
// thinking of a model that cannot be switched would be taken for its answer.
var effort = map[string]bool{"reasoning_effort": true, "reasoning": true, "thinking": true}

// body makes the engine's request of the client's: only the keys that the proxy
// owns are changed, everything else passes as it came.
func (p *Proxy) body(ctx context.Context, t *target, call *Call, id string) ([]byte, error) {
	info, err := t.engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	d := info.Dialect
	set := []openai.Member{
		{Key: "model", Raw: openai.String(t.engine.UpstreamModel(info))},
		{Key: "stream", Raw: "true"},
		{Key: "stream_options", Raw: streamOptions(d)},
	}
	if n := p.limit(ctx, t, call, info); n > 0 {
		set = append(set, openai.Member{Key: d.LimitName, Raw: strconv.Itoa(n)})
	}
	if d.RequestID {
		set = append(set, openai.Member{Key: "rid", Raw: openai.String(id)})
	}
	if d.Running != "" {
		set = append(set, openai.Member{Key: d.Running, Raw: "true"})
	}
	if warm := t.format.Temperature; warm != nil && gjson.GetBytes(call.Request.Body, "temperature").Type == gjson.Null {
		set = append(set, openai.Member{Key: "temperature", Raw: strconv.FormatFloat(*warm, 'f', -1, 64)})
	}
	if t.format.MarkersSpecial && (d.Name == engine.SGLang || d.Name == engine.VLLM) {
		set = append(set, openai.Member{Key: "skip_special_tokens", Raw: "false"})
	}
	return openai.Rewrite(call.Request.Body, set, func(key string) bool {
		return owned[key] || denied[key] || bookkeeping[key] || d.ParsesEffort && effort[key] || hasPrefix(key, deniedPrefixes)
	}), nil
}

func streamOptions(d *engine.Dialect) string {
	if d.ContinuousUsage {
		return `{"include_usage":true,"continuous_usage_stats":true}`
	}
	return `{"include_usage":true}`
}

func hasPrefix(key string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// limit returns the token limit to send. An engine that refuses a limit beyond
// its context gets a shorter one; the prompt is counted only when a token a
// byte would not fit, since that costs a call.
func (p *Proxy) limit(ctx context.Context, t *target, call *Call, info engine.Info) int {
	n := call.Request.MaxTokens
	if n == 0 || info.Dialect.Clamps || info.ContextLength == 0 || n+len(call.Request.Body) <= info.ContextLength {
		return n
	}
	prompt, err := t.engine.CountMessages(ctx, gjson.GetBytes(call.Request.Body, "messages").Raw)
	if err != nil || prompt >= info.ContextLength {
		return n
	}
	return min(n, info.ContextLength-prompt)
}
