package probe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"oneslot/proxy/engine"

	"github.com/tidwall/gjson"
)

// paper is an endpoint at which one kind of engine tells what it is.
type paper struct{ dialect, path, mark string }

func papers() []paper {
	return []paper{
		{engine.SGLang, "/server_info", "max_running_requests"},
		{engine.SGLang, "/get_server_info", "max_running_requests"},
		{engine.LlamaCpp, "/props", "total_slots"},
		{engine.VLLM, "/version", "version"},
	}
}

// identity says what the engine is and what it serves.
func (p *prober) identity(ctx context.Context, list answer) {
	p.kind(ctx)
	if p.info.Version == "" {
		p.add(Version, unknown("it does not say"))
	} else {
		p.add(Version, found(p.info.Version, ""), p.paper.showing("version", "build_info"))
	}
	if len(p.info.Models) == 0 {
		p.add(Models, absent("it lists no model: clients may use any name, and `model:` of the engine is the one that is sent on"), list.evidence())
	} else {
		p.add(Models, found(strings.Join(p.info.Models, ", "), ""), list.saying(p.names()))
	}
	shows := []Evidence{list.showing("data.0.max_model_len", "data.0.meta.n_ctx")}
	for _, path := range []string{"context_length", "default_generation_settings.n_ctx"} {
		if p.settings.Get(path).Exists() {
			shows = append(shows, p.paper.showing(path))
		}
	}
	if p.info.ContextLength == 0 {
		p.add(Context, unknown("limits beyond the context are not shortened, so the engine may refuse them"), shows...)
		return
	}
	p.add(Context, found(strconv.Itoa(p.info.ContextLength), "tokens of prompt and reply"), shows...)
}

func (p *prober) names() string {
	return "ids " + strings.Join(p.info.Models, ", ")
}

// kind looks at the endpoint by which package engine has decided, or at all of
// them when none has told.
func (p *prober) kind(ctx context.Context) {
	d := p.info.Dialect.Name
	var missing []Evidence
	for _, at := range papers() {
		if d != engine.OpenAI && at.dialect != d {
			continue
		}
		a := p.calls.get(ctx, at.path)
		if a.ok() && gjson.Get(a.body, at.mark).Exists() {
			p.paper, p.settings = a, gjson.Parse(a.body)
			p.add(Kind, found(d, dialectName(d)), a.showing(at.mark))
			return
		}
		missing = append(missing, a.evidence())
	}
	p.add(Kind, found(d, "nothing tells it apart: it is treated as "+dialectName(engine.OpenAI)+", whose run is stopped by closing its connection, whose idleness shows only in a one-token trial, and whose tokens are counted only with `tokenizer:`"), missing...)
}

// facts reads what the engine's own endpoint has beside its name.
func (p *prober) facts() {
	for _, path := range []string{"max_running_requests", "total_slots"} {
		if v := p.settings.Get(path); v.Type == gjson.Number {
			detail := ""
			if v.Int() > 1 {
				detail = "oneslot lends one of them; name the engine once for each that is to be lent"
			}
			p.add(Slots, found(v.Raw, detail), p.paper.showing(path))
			return
		}
	}
	p.add(Slots, unknown("it does not tell how many requests it runs at once; oneslot sends one at a time"))
}

// load looks how busy the engine is.
func (p *prober) load(ctx context.Context) {
	load, err := p.engine.Load(ctx)
	seen := Evidence{"GET " + load.From, fmt.Sprintf("%d request(s) run or wait", load.Requests)}
	switch {
	case err != nil:
		p.add(Load, unknown("the question for it failed: "+cause(err)))
	case load.From == "":
		p.add(Load, unknown("it has no endpoint that tells, so the proxy sees that it is idle only by a one-token trial"))
	case load.Requests == 0:
		p.add(Load, found("idle", ""), seen)
	default:
		p.add(Load, found("busy", ""), seen)
	}
	p.may(ctx)
}

// tokenizer counts a text whose length in tokens is at least 1.
func (p *prober) tokenizer(ctx context.Context) {
	const text = "lantern"
	n, err := p.engine.Count(ctx, text)
	switch {
	case err == nil && n > 0:
		p.add(Tokenizer, found("yes", "without `tokenizer:` tokens are counted by the engine"), Evidence{"POST /tokenize " + strconv.Quote(text), fmt.Sprintf("%d token(s)", n)})
	case err == nil || errors.Is(err, engine.ErrCannotCount) || errors.Is(err, engine.ErrUncounted):
		p.add(Tokenizer, absent("without `tokenizer:` the split into thinking and answer tokens is the engine's own figure, or an estimate"), Evidence{"POST /tokenize", refusal(err)})
	default:
		p.add(Tokenizer, unknown("the question for it failed: "+cause(err)))
	}
}

func refusal(err error) string {
	if err == nil {
		return "no tokens"
	}
	return cause(err)
}

// cache says whether a known beginning of a prompt is kept, by the engine's
// settings, else by what it told of the second of two equal prompts.
func (p *prober) cache(ctx context.Context) {
	told, most := p.cachedTold()
	report := p.settings.Get("enable_cache_report")
	setting, shown := p.cacheSetting(ctx)
	switch {
	case setting == "off":
		p.add(Cache, found("off", "cached prompt tokens are exactly 0"), shown)
	case setting == "on":
		p.add(Cache, found("on", ""), shown)
	case most > 0:
		p.add(Cache, found("on", "a prompt was sent again and came from the cache"), p.cacheEvidence(most))
	case p.raw != nil && p.raw.done() && p.raw.cached == 0 && p.info.Dialect.Name == engine.LlamaCpp: // vLLM keeps whole blocks only
		p.add(Cache, found("off", "a prompt was sent again and did not come from the cache"), p.cacheEvidence(most))
	case p.plain == nil:
		p.add(Cache, unknown("only a test request could tell: "+p.report.ReadOnly))
	default:
		p.add(Cache, unknown("neither a setting nor the usage of equal prompts tells"))
	}
	switch {
	case told:
		p.add(CacheReport, found("yes", ""), p.cacheEvidence(most))
	case report.Type == gjson.True:
		p.add(CacheReport, found("yes", "only when there are some"), p.paper.showing("enable_cache_report"))
	case report.Type == gjson.False || p.plain != nil && p.plain.done():
		evidence := []Evidence{}
		if report.Exists() {
			evidence = append(evidence, p.paper.showing("enable_cache_report"))
		}
		p.add(CacheReport, absent("where the cache is on, cached tokens are unknown"), append(evidence, Evidence{chatPath, "usage without prompt_tokens_details.cached_tokens"})...)
	default:
		p.add(CacheReport, skipped(p.report.ReadOnly))
	}
}

// cacheSetting is "on" or "off" where the engine tells how its cache was set.
func (p *prober) cacheSetting(ctx context.Context) (string, Evidence) {
	switch v := p.settings.Get("disable_radix_cache"); {
	case v.Type == gjson.True:
		return "off", p.paper.showing("disable_radix_cache")
	case v.Type == gjson.False:
		return "on", p.paper.showing("disable_radix_cache")
	case p.info.Dialect.Name != engine.VLLM:
		return "", Evidence{}
	}
	metrics := p.calls.get(ctx, "/metrics")
	for line := range strings.Lines(metrics.body) {
		if !metrics.ok() || !strings.HasPrefix(line, "vllm:cache_config_info{") {
			continue
		}
		for value, is := range map[string]string{"True": "on", "False": "off"} {
			if label := `enable_prefix_caching="` + value + `"`; strings.Contains(line, label) {
				return is, metrics.saying("vllm:cache_config_info " + label)
			}
		}
	}
	return "", Evidence{}
}

// cachedTold looks at the usage of the replies to one question.
func (p *prober) cachedTold() (told bool, most int) {
	for _, r := range []*reply{p.plain, p.raw} {
		if r != nil && r.done() && r.cached >= 0 {
			told, most = true, max(most, r.cached)
		}
	}
	return told, most
}

func (p *prober) cacheEvidence(n int) Evidence {
	return Evidence{"POST " + chatPath + ", the same prompt again", fmt.Sprintf("usage.prompt_tokens_details.cached_tokens: %d", n)}
}

// continuous says whether totals come with every chunk.
func (p *prober) continuous() {
	r := p.plain
	switch {
	case r == nil:
		p.add(ContinuousUsage, skipped(p.report.ReadOnly))
	case !r.done():
		p.add(ContinuousUsage, unknown("the test request failed"), r.evidence())
	case r.running:
		p.add(ContinuousUsage, found("yes", "the split of the tokens is exact at every moment, also of a run that is cut"), Evidence{r.call, "totals beside the text"})
	case r.prompt < 0:
		p.add(ContinuousUsage, absent("not even the last event tells the tokens used: they are counted or estimated"), Evidence{r.call, "no usage"})
	default:
		p.add(ContinuousUsage, absent("only the last event tells the tokens used: the split, and what a cut run has used, is counted"), Evidence{r.call, "usage at the end only"})
	}
}
