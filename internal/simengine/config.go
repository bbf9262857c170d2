package simengine

import (
	"errors"
	"fmt"
	"math"
	"time"

	"oneslot/internal/simengine/ask"
	"oneslot/internal/simengine/script"
	"oneslot/internal/simengine/wire"
)

// Format is how the simulated model marks its thinking.
type Format = ask.Format

// Dialect is the engine whose manner of speaking is taken on.
type Dialect = wire.Dialect

// The known dialects.
const (
	SGLang   = wire.SGLang
	VLLM     = wire.VLLM
	LlamaCPP = wire.LlamaCPP
)

// Output is where the thinking goes.
type Output int

// The two outputs.
const (
	Split Output = iota // in a field of its own, as with a reasoning parser
	Raw                 // in content, with its markers, as without one
)

// Fast as a speed means: as fast as possible, without timers.
const Fast = -1

// Config says what engine is simulated. The zero Config is SGLang 0.5.19 with
// the speed of one GB10, except that it ends a run when its client leaves.
type Config struct {
	// TokensPerSecond is the speed of generation. Zero means 10; negative or
	// infinite means as fast as possible.
	TokensPerSecond float64
	// PrefillTokensPerSecond is the speed of reading a prompt. Zero means 475;
	// negative or infinite means as fast as possible.
	PrefillTokensPerSecond float64
	// Thinking is how many tokens of thinking a reply has. Zero means 60;
	// negative means none.
	Thinking int
	// Answer is how many tokens of answer a reply has. Zero means 30; negative
	// means none.
	Answer int
	// TokensPerChunk is how many tokens come at once, as with speculative
	// drafts. Zero means 1.
	TokensPerChunk int

	// Format is how thinking is marked. Zero means "<think>" and "</think>",
	// with the opening marker at the end of the prompt.
	Format Format
	// Output is where thinking goes. Zero means Split.
	Output Output
	// Dialect is whose manner of speaking is taken on. Zero means SGLang.
	Dialect Dialect

	// ContextLength is the most tokens of prompt and completion together. Zero
	// means 131072.
	ContextLength int
	// Slots is how many requests run at once. Zero means 1.
	Slots int
	// MaxQueued is how many requests may wait; the next is refused with 503.
	// Zero means no limit.
	MaxQueued int
	// Model is the name of the model. Zero means "ripple".
	Model string
	// Version is the version told. Zero means "0.5.19".
	Version string

	// Ghost lets a streamed run go on to its end after its client has left, the
	// habit of SGLang 0.5.18 and 0.5.19. Zero means the run ends at once.
	Ghost bool
	// Deaf lets an abort answer 200 and do nothing. Zero means it works.
	Deaf bool
	// Lossy lets only every third abort do something. Zero means all do.
	Lossy bool
	// LeaveCheck is how often an engine with Ghost looks whether the client of a
	// request that is not streamed, or still waits, has left. Zero means 4 s.
	LeaveCheck time.Duration
	// HealthDelay is how long /health takes. Zero means 1 s; negative means no
	// time.
	HealthDelay time.Duration

	// RadixCache keeps prompts, so that a known beginning costs no time. Zero
	// means it is off.
	RadixCache bool
	// CacheReport tells cached tokens in usage. Zero means they are null.
	CacheReport bool
	// Metrics offers /metrics. Zero means 404.
	Metrics bool
	// Admin offers /sim/, the face for tests and demos. Zero means 404.
	Admin bool

	// Scripts are played instead of generated replies: the first for the first
	// request and so on, the last for all that follow. Zero means replies are
	// generated.
	Scripts []script.Script
	// Seed varies the texts. Zero is a seed like any other.
	Seed uint64
}

// withDefaults returns c with its zero fields filled in.
func (c Config) withDefaults() Config {
	fill(&c.TokensPerSecond, 10)
	fill(&c.PrefillTokensPerSecond, 475)
	fill(&c.Thinking, 60)
	fill(&c.Answer, 30)
	fill(&c.TokensPerChunk, 1)
	fill(&c.ContextLength, 131072)
	fill(&c.Slots, 1)
	fill(&c.Model, "ripple")
	fill(&c.Version, "0.5.19")
	fill(&c.Dialect, SGLang)
	fill(&c.LeaveCheck, 4*time.Second)
	fill(&c.HealthDelay, time.Second)
	c.Thinking, c.Answer = max(c.Thinking, 0), max(c.Answer, 0)
	c.Format = c.Format.WithDefaults()
	return c
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate reports all faults of a Config that has its defaults.
func (c Config) validate() error {
	var faults []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			faults = append(faults, fmt.Errorf("simengine: "+format, args...))
		}
	}
	wrong(math.IsNaN(c.TokensPerSecond), "TokensPerSecond is not a number")
	wrong(math.IsNaN(c.PrefillTokensPerSecond), "PrefillTokensPerSecond is not a number")
	wrong(c.TokensPerChunk < 0, "TokensPerChunk is %d, want at least 1", c.TokensPerChunk)
	wrong(c.ContextLength < 0, "ContextLength is %d, want at least 1", c.ContextLength)
	wrong(c.Slots < 0, "Slots is %d, want at least 1", c.Slots)
	wrong(c.MaxQueued < 0, "MaxQueued is %d, want 0 or more", c.MaxQueued)
	wrong(c.LeaveCheck < 0, "LeaveCheck is %v, want a positive time", c.LeaveCheck)
	wrong(c.Format.Open == "" || c.Format.Close == "", "Format has Open %q and Close %q, want both", c.Format.Open, c.Format.Close)
	wrong(c.Output != Split && c.Output != Raw, "Output is %d, want Split or Raw", c.Output)
	wrong(c.Dialect != SGLang && c.Dialect != VLLM && c.Dialect != LlamaCPP,
		"Dialect is %q, want sglang, vllm or llamacpp", c.Dialect)
	return errors.Join(faults...)
}
