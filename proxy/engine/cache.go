package engine

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Cache is how an engine's prefix cache works, as far as it tells.
type Cache struct {
	// Off is whether it is known to be off, so that no prompt token can come from it.
	Off bool
	// Told is whether the engine tells cached tokens whenever there are some, so
	// that nothing told means none.
	Told bool
	// Block is the number of tokens cached together, Capacity how many there is
	// room for; 0 is unknown.
	Block, Capacity int
}

// Sole reports whether nobody else uses the engine.
func (e *Engine) Sole() bool { return e.cfg.SoleClient }

// Refresh asks the engine once more what it is: it may have been started anew, or
// replaced by another one, while nobody called it.
func (e *Engine) Refresh(ctx context.Context) (Info, error) {
	info, err := e.ask(ctx)
	if err != nil {
		return Info{}, err
	}
	e.mu.Lock()
	e.info, e.name, e.asked = &info, "", e.asked+1
	if len(info.Models) > 0 {
		e.name = info.Models[0]
	}
	e.mu.Unlock()
	return info, nil
}

// readSGLang reads /server_info. Without a seed of its user's choice the engine
// draws one when it starts, which tells one start from the next.
func readSGLang(r gjson.Result, i *Info) {
	i.Version = r.Get("version").String()
	i.Cache = Cache{
		Off: r.Get("disable_radix_cache").Bool(), Told: r.Get("enable_cache_report").Bool(),
		Block: int(r.Get("page_size").Int()), Capacity: int(r.Get("max_total_num_tokens").Int()),
	}
	if seed := r.Get("random_seed"); seed.Exists() {
		i.Start = "seed " + seed.Raw
	}
	if n := int(r.Get("context_length").Int()); n > 0 {
		i.ContextLength = n
	}
}

// metrics reads what vLLM tells of itself only there.
func (e *Engine) metrics(ctx context.Context, i *Info) {
	text, err := e.call(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return // the engine is there; it just does not tell
	}
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "vllm:cache_config_info{"):
			i.Cache.Off = strings.EqualFold(labelOf(line, "enable_prefix_caching"), "false")
			blocks, _ := strconv.Atoi(labelOf(line, "num_gpu_blocks"))
			i.Cache.Block, _ = strconv.Atoi(labelOf(line, "block_size"))
			i.Cache.Capacity = blocks * i.Cache.Block
		case strings.HasPrefix(line, "process_start_time_seconds "), i.Start == "" && strings.HasPrefix(line, "vllm:prompt_tokens_created"):
			i.Start = strings.TrimSpace(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:])
		}
	}
}

// labelOf is the value of a label in a line of Prometheus text.
func labelOf(line, name string) string {
	_, rest, ok := strings.Cut(line, name+`="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
