package facts

import (
	"fmt"
	"time"

	"oneslot/internal/simengine/ask"
	"oneslot/internal/simengine/wire"
	"oneslot/internal/simengine/words"
)

// State is what there is to tell.
type State struct {
	Dialect                            wire.Dialect
	Model, Version                     string
	Format                             ask.Format
	Context, Slots                     int // tokens; requests at once
	Split, Cache, CacheReport, Metrics bool
	Running, Waiting, Aborted          int
	Seed                               uint32 // drawn when the engine was started
	Now                                time.Time
}

type object = map[string]any

// Block is how many tokens vLLM caches together.
const Block = 16

// Models is GET /v1/models. llama.cpp tells the context length in meta.
func Models(s State) any {
	model := object{
		"id": s.Model, "object": "model", "created": s.Now.Unix(), "owned_by": string(s.Dialect),
		"root": s.Model, "parent": nil, "max_model_len": s.Context,
	}
	if s.Dialect == wire.LlamaCPP {
		model = object{
			"id": s.Model, "object": "model", "created": s.Now.Unix(), "owned_by": "llamacpp",
			"meta": object{"n_ctx": s.Context, "n_ctx_train": s.Context},
		}
	}
	return object{"object": "list", "data": []any{model}}
}

// ModelInfo is SGLang's GET /get_model_info.
func ModelInfo(s State) any {
	return object{
		"model_path": s.Model, "tokenizer_path": s.Model, "is_generation": true,
		"preferred_sampling_params": nil, "weight_version": "default",
	}
}

// ServerInfo is SGLang's GET /server_info, of which only the fields of interest
// are given.
func ServerInfo(s State) any {
	var parser any
	if s.Split {
		parser = s.Model
	}
	return object{
		"model_path": s.Model, "served_model_name": s.Model, "version": s.Version, "status": "ready",
		"context_length": s.Context, "max_req_input_len": s.Context - 6, "max_total_num_tokens": s.Context + 8192,
		"max_running_requests": s.Slots, "reasoning_parser": parser, "tool_call_parser": nil,
		"enable_cache_report": s.CacheReport, "disable_radix_cache": !s.Cache, "enable_metrics": s.Metrics, "page_size": 1,
		"random_seed": s.Seed,
	}
}

// Load is SGLang's GET /get_load. Its num_reqs counts those that wait too.
func Load(s State) any {
	return []any{object{
		"dp_rank": 0, "num_reqs": s.Running + s.Waiting, "num_waiting_reqs": s.Waiting, "num_tokens": 0, "num_pending_tokens": 0,
	}}
}

// Loads is SGLang's GET /v1/loads.
func Loads(s State) any {
	all := s.Running + s.Waiting
	return object{
		"timestamp": s.Now.UTC().Format(time.RFC3339), "version": s.Version, "dp_rank_count": 1,
		"loads": []any{object{
			"dp_rank": 0, "num_running_reqs": s.Running, "num_waiting_reqs": s.Waiting, "num_total_reqs": all,
			"max_running_requests": s.Slots,
		}},
		"aggregate": object{"total_running_reqs": s.Running, "total_waiting_reqs": s.Waiting, "total_reqs": all},
	}
}

// Version is vLLM's GET /version.
func Version(s State) any { return object{"version": s.Version} }

// ServerLoad is vLLM's GET /load.
func ServerLoad(s State) any { return object{"server_load": s.Running + s.Waiting} }

// Props is llama.cpp's GET /props.
func Props(s State) any {
	end := words.TurnStart + "assistant\n"
	if s.Format.StartsInThinking {
		end += s.Format.Open
	}
	return object{
		"total_slots": s.Slots, "model_path": s.Model, "build_info": s.Version,
		"default_generation_settings": object{"n_ctx": s.Context},
		"chat_template":               "{% for m in messages %}" + words.TurnStart + "{{ m.role }}\n{{ m.content }}" + words.TurnEnd + "\n{% endfor %}" + end,
	}
}

// Slots is llama.cpp's GET /slots.
func Slots(s State) any {
	slots := []any{}
	for i := range s.Slots {
		slots = append(slots, object{"id": i, "n_ctx": s.Context, "is_processing": i < s.Running})
	}
	return slots
}

// Metrics is GET /metrics in the text form of Prometheus.
func Metrics(s State) string {
	switch s.Dialect {
	case wire.SGLang:
		return fmt.Sprintf("sglang:num_running_reqs{model_name=%q} %d\nsglang:num_queue_reqs{model_name=%q} %d\nsglang:num_aborted_requests_total{model_name=%q} %d\n",
			s.Model, s.Running, s.Model, s.Waiting, s.Model, s.Aborted)
	case wire.VLLM:
		return fmt.Sprintf("vllm:num_requests_running{model_name=%q} %d\nvllm:num_requests_waiting{model_name=%q} %d\n"+
			"vllm:cache_config_info{block_size=\"%d\",enable_prefix_caching=%q,num_gpu_blocks=\"%d\"} 1.0\nprocess_start_time_seconds %d\n",
			s.Model, s.Running, s.Model, s.Waiting, Block, map[bool]string{true: "True", false: "False"}[s.Cache], s.Context/Block, s.Seed)
	case wire.LlamaCPP:
		return fmt.Sprintf("llamacpp:requests_processing %d\nllamacpp:requests_deferred %d\n", s.Running, s.Waiting)
	}
	return ""
}
