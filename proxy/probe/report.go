package probe

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"oneslot/internal/openai"
	"oneslot/proxy/engine"
	"oneslot/reasoning"

	"github.com/tidwall/gjson"
)

// A State is what became of one question.
type State string

// The states of a finding.
const (
	// Found means that the engine has it or does it; Value says what.
	Found State = "found"
	// Absent means that it has not or does not.
	Absent State = "absent"
	// Unknown means that what came back does not tell.
	Unknown State = "unknown"
	// Skipped means that it was not asked; Detail says why.
	Skipped State = "skipped"
)

// The names of the findings, in the order of a report. Tools is there only if a
// tool call was seen to begin inside thinking.
const (
	Kind            = "kind"
	Version         = "version"
	Models          = "models"
	Context         = "context"
	Slots           = "slots"
	Load            = "load"
	Tokenizer       = "tokenizer"
	Prompt          = "prompt"
	Parser          = "reasoning_parser"
	Raw             = "raw_output"
	Markers         = "markers"
	MarkerTokens    = "marker_tokens"
	StartsIn        = "starts_in"
	Rows            = "format_rows"
	Tools           = "tools_in_thinking"
	Cache           = "prefix_cache"
	CacheReport     = "cached_tokens_told"
	ContinuousUsage = "continuous_usage"
	Prefill         = "prefill"
	PrefillClosed   = "prefill_closed"
	Completions     = "prefill_completions"
	Abort           = "abort"
)

func order() []string {
	return []string{
		Kind, Version, Models, Context, Slots, Load, Tokenizer, Prompt, Parser, Raw, Markers, MarkerTokens, StartsIn, Rows, Tools,
		Cache, CacheReport, ContinuousUsage, Prefill, PrefillClosed, Completions, Abort,
	}
}

// A Finding is the answer to one question.
type Finding struct {
	// Name is one of the names above.
	Name string `json:"name"`
	// State says what became of it.
	State State `json:"state"`
	// Value is the answer, short and fit for machines; it may be empty.
	Value string `json:"value,omitempty"`
	// Detail is what it means, for people.
	Detail string `json:"detail,omitempty"`
	// Evidence is what it rests on.
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Evidence is one call and what came back, both shortened.
type Evidence struct {
	Call  string `json:"call"`
	Reply string `json:"reply"`
}

// A Report is everything that was found.
type Report struct {
	// Engine is the engine's address, without a password.
	Engine string `json:"engine"`
	// ReadOnly says why nothing, or nothing more, was asked of the model; empty
	// if all was.
	ReadOnly string `json:"read_only,omitempty"`
	// Findings stand in the order of the names above, one a name.
	Findings []Finding `json:"findings"`
	// Format is the row for the model, nil if no marker was seen.
	Format *reasoning.Format `json:"format"`

	dialect, model string
	format         string // name of the row to use; empty is not known
	why            string // why that one
}

// Find returns the finding of that name.
func (r *Report) Find(name string) (Finding, bool) {
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Name == name })
	if i < 0 {
		return Finding{}, false
	}
	return r.Findings[i], true
}

// add puts a finding in its place, or in that of an earlier one of its name.
func (r *Report) add(f Finding) {
	at := slices.Index(order(), f.Name)
	i, there := slices.BinarySearchFunc(r.Findings, at, func(have Finding, at int) int {
		return slices.Index(order(), have.Name) - at
	})
	if there {
		r.Findings[i] = f
		return
	}
	r.Findings = slices.Insert(r.Findings, i, f)
}

const (
	replyWidth = 160 // characters of a reply that are shown
	endWidth   = 60  // characters of each end of a text
)

// short makes text fit into one line of at most width characters.
func short(text string, width int) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

// bothEnds quotes the beginning and the end of a text.
func bothEnds(text string) string {
	runes := []rune(text)
	if len(runes) <= 2*endWidth {
		return strconv.Quote(text)
	}
	return strconv.Quote(string(runes[:endWidth])) + " … " + lastEnd(text)
}

// lastEnd quotes the end of a text.
func lastEnd(text string) string {
	runes := []rune(text)
	return strconv.Quote(string(runes[max(0, len(runes)-endWidth):]))
}

// dialectName is what people call a dialect.
func dialectName(dialect string) string {
	switch dialect {
	case engine.SGLang:
		return "SGLang"
	case engine.VLLM:
		return "vLLM"
	case engine.LlamaCpp:
		return "llama.cpp's server"
	default:
		return "a plain OpenAI-like server"
	}
}

// conclude decides which row is to be used.
func (p *prober) conclude() {
	r, v := p.report, &p.verdict
	splits := p.plain != nil && p.plain.field != "" || p.plain == nil && p.sight.Parser != ""
	markers, _ := r.Find(Markers)
	switch {
	case v.Known:
		r.Format, r.format = &v.Row, v.Row.Name
	case splits:
		r.format, r.why = noFormat, "the engine splits thinking itself, and its markers were not seen"
	case markers.State == Absent:
		r.format, r.why = noFormat, "the model does not seem to think"
	}
}

// noFormat is the shipped row of a model whose text is all answer.
const noFormat = "plain"

// Config returns a configuration file with which the proxy serves the engine at
// url, YAML of known keys. It holds the key, if there is one, and a password that
// is in url.
func (r *Report) Config(url, key string) []byte {
	var b strings.Builder
	b.WriteString("# Written by `oneslot probe`. Every other setting has its default: `oneslot config example`.\n\nengines:\n")
	put := func(indent, key, value string) {
		if value != "" {
			b.WriteString(indent + key + ": " + value + "\n")
		}
	}
	put("  - ", "name", openai.String("engine"))
	put("    ", "url", openai.String(url))
	if r.model != "" {
		put("    ", "model", openai.String(r.model))
	}
	put("    ", "dialect", r.dialect)
	switch {
	case r.format == "":
		b.WriteString("    # format: was not found; give the name of a row of configs/formats.yaml, or of one of your own\n")
	case r.why != "":
		put("    ", "format", openai.String(r.format)+" # "+r.why)
	default:
		put("    ", "format", openai.String(r.format))
	}
	if key != "" {
		put("    ", "api_key", openai.String(key))
	}
	b.WriteString("    sole_client: true # nobody else uses it, so everything on it may be aborted; else false\n")
	if r.Format != nil {
		b.WriteString("\nformats:\n")
		indent := "  - "
		gjson.ParseBytes(row(r.Format)).ForEach(func(key, value gjson.Result) bool {
			put(indent, key.Str, value.Raw)
			indent = "    "
			return true
		})
		if !r.Format.Verified {
			b.WriteString("    verified: false # not both markers were seen\n")
		}
	}
	return []byte(b.String())
}

// row is a format as JSON, which is YAML too; markers are not escaped.
func row(f *reasoning.Format) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(f); err != nil {
		return nil // a state that has no place in a configuration: Judge sets none
	}
	return b.Bytes()
}
