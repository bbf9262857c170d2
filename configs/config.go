package configs

import (
	"time"

	"oneslot/proxy/budget"
	"oneslot/proxy/downstream"
	"oneslot/reasoning"
)

// Config is every setting. The tags say, for the reader, Show and Schema:
//
//	koanf   the key in the file
//	least   the smallest value
//	oneof   the words that are allowed
//	commas  a list that may also be one text, parted by commas
//	secret  yes: the value is never shown; url: its user and password are not
type Config struct {
	// Listen is the address to answer on, host:port.
	Listen string `koanf:"listen" port:"127.0.0.1:"`
	// Hosts are further names under which a proxy without keys answers on loopback.
	Hosts []string `koanf:"hosts" commas:"yes"`
	// Data is the folder of the ledger.
	Data string `koanf:"data"`
	// Redis is the address of a shared line; several for Sentinel and Cluster.
	// Empty keeps the line in this process.
	Redis []string `koanf:"redis" commas:"yes" secret:"url"`
	// RedisInsecure allows a Redis without a password away from this machine.
	RedisInsecure bool `koanf:"redis_insecure"`
	// InsecureNoAuth allows listening away from this machine without keys.
	InsecureNoAuth bool `koanf:"insecure_no_auth"`
	// Engines are the engines behind the proxy.
	Engines []Engine `koanf:"engines"`
	// Models maps names that clients send to names of engines' models.
	Models map[string]string `koanf:"models"`
	// AcceptAnyModel serves unknown model names with the first engine's model.
	AcceptAnyModel bool `koanf:"accept_any_model"`
	// CORSOrigins are the browser origins that may call.
	CORSOrigins []string `koanf:"cors_origins" commas:"yes" secret:"url"`
	// Formats are rows like those of formats.yaml.
	Formats []reasoning.Format `koanf:"formats"`
	// Keys are the API keys.
	Keys []Key `koanf:"keys"`
	// Queue is how the line is kept.
	Queue Queue `koanf:"queue"`
	// Reasoning is how thinking is shown.
	Reasoning Reasoning `koanf:"reasoning"`
	// Responses is what is kept of answers to /v1/responses.
	Responses Responses `koanf:"responses"`
	// Usage is how long the ledger keeps its rows.
	Usage Usage `koanf:"usage"`
	// Limits bound what clients and engines may do.
	Limits Limits `koanf:"limits"`
	// Telemetry is what the program says of itself.
	Telemetry Telemetry `koanf:"telemetry"`
}

// Engine is one engine and how it is used.
type Engine struct {
	Name       string `koanf:"name"`
	URL        string `koanf:"url" secret:"url"`
	Model      string `koanf:"model"`
	Dialect    string `koanf:"dialect" oneof:"auto sglang vllm llamacpp openai"`
	Slots      int    `koanf:"slots" least:"1"`
	Format     string `koanf:"format"`
	Tokenizer  string `koanf:"tokenizer"`
	APIKey     string `koanf:"api_key" secret:"yes"`
	SoleClient *bool  `koanf:"sole_client"`
}

// Key is one API key.
type Key struct {
	Name     string `koanf:"name"`
	SHA256   string `koanf:"sha256" secret:"yes"`
	Class    string `koanf:"class" oneof:"interactive default batch"`
	MaxClass string `koanf:"max_class" oneof:"interactive default batch"`
	// MaxWaiting is how many of its requests may wait. Zero means
	// queue.max_waiting_per_key.
	MaxWaiting int  `koanf:"max_waiting" least:"0"`
	Admin      bool `koanf:"admin"`
	// ShareBy says among whom its slot time is shared. Empty means that queue.share_by
	// says it.
	ShareBy string `koanf:"share_by" oneof:"key user"`
	// ReasoningField is where thinking goes for this key. Empty means that it goes
	// where reasoning.field says.
	ReasoningField string `koanf:"reasoning_field" oneof:"reasoning_content reasoning both content_tags hidden"`
}

// Queue is how the line is kept and how its clients are kept alive.
type Queue struct {
	MaxWaiting       int             `koanf:"max_waiting" least:"1"`
	MaxWaitingPerKey int             `koanf:"max_waiting_per_key" least:"1"`
	MaxWait          Duration        `koanf:"max_wait" least:"1ms"`
	StarvationAfter  Duration        `koanf:"starvation_after" least:"1ms"`
	ShareBy          string          `koanf:"share_by" oneof:"key user"`
	CommitAfter      Duration        `koanf:"commit_after"`
	Heartbeat        Duration        `koanf:"heartbeat"`
	HeartbeatMode    downstream.Beat `koanf:"heartbeat_mode" oneof:"comment chunk off"`
	Lease            Duration        `koanf:"lease" least:"1ms"`
	RefuseHopeless   bool            `koanf:"refuse_hopeless"`
	OnDisconnect     string          `koanf:"on_disconnect" oneof:"abort drain"`
	DetachGrace      Duration        `koanf:"detach_grace"`
	AbortBound       Duration        `koanf:"abort_bound" least:"1ms"`
	PoisonGrace      Duration        `koanf:"poison_grace" least:"1ms"`
}

// Reasoning is how thinking is shown.
type Reasoning struct {
	Field string `koanf:"field" oneof:"reasoning_content reasoning both content_tags hidden"`
	// Completions says whether the text of /v1/completions is split too.
	Completions string `koanf:"completions" oneof:"off split"`
	// AnswerReserve is how many of a request's max_tokens thinking leaves for the
	// answer. Zero means none.
	AnswerReserve int `koanf:"answer_reserve" least:"0"`
	// Effort is what the words of reasoning_effort mean.
	Effort Effort `koanf:"effort"`
}

// Effort maps the words of reasoning_effort to tokens of thinking; -1 is no limit.
type Effort struct {
	None    int `koanf:"none" least:"-1"`
	Minimal int `koanf:"minimal" least:"-1"`
	Low     int `koanf:"low" least:"-1"`
	Medium  int `koanf:"medium" least:"-1"`
	High    int `koanf:"high" least:"-1"`
	XHigh   int `koanf:"xhigh" least:"-1"`
	Max     int `koanf:"max" least:"-1"`
}

// Responses is what is kept of answers to /v1/responses, for clients that go on
// with one by its id.
type Responses struct {
	// Store is where: off is nowhere, data is the folder of that name.
	Store string `koanf:"store" oneof:"off memory data"`
	// Keep is how many are kept, the newest.
	Keep int `koanf:"keep" least:"1"`
	// MaxBytes is how much is kept, the newest.
	MaxBytes Size `koanf:"max_bytes"`
	// Retention is for how long. Zero means as long as there is room.
	Retention Duration `koanf:"retention"`
}

// Usage is how long the ledger keeps its rows.
type Usage struct {
	Retention Duration `koanf:"retention"`
	MaxRows   int      `koanf:"max_rows" least:"0"`
	Sources   bool     `koanf:"include_sources"`
}

// Limits bound what clients and engines may do.
type Limits struct {
	Body          Size     `koanf:"body"`
	Bodies        Size     `koanf:"bodies"`
	Event         Size     `koanf:"event"`
	WriteTimeout  Duration `koanf:"write_timeout" least:"1ms"`
	EngineHeaders Duration `koanf:"engine_headers" least:"1ms"`
	EngineIdle    Duration `koanf:"engine_idle" least:"1ms"`
	FirstToken    Duration `koanf:"first_token" least:"1ms"`
	Shutdown      Duration `koanf:"shutdown"`
}

// Telemetry is what the program says of itself.
type Telemetry struct {
	Log string `koanf:"log" oneof:"debug info warn error"`
	// OTLP is the collector that traces and metrics are sent to.
	OTLP          string `koanf:"otlp"`
	MetricsPublic bool   `koanf:"metrics_public"`
}

// Default returns the settings that hold when nothing is said.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8080",
		Data:   "./data",
		Queue: Queue{
			MaxWaiting: 64, MaxWaitingPerKey: 16, MaxWait: hours(2), StarvationAfter: seconds(10 * 60), ShareBy: "key", CommitAfter: Duration(500 * time.Millisecond), Heartbeat: seconds(10),
			Lease: seconds(15), RefuseHopeless: true, OnDisconnect: "abort", DetachGrace: seconds(15), AbortBound: seconds(15), PoisonGrace: seconds(60),
		},
		Reasoning: Reasoning{
			Field: "reasoning_content", Completions: "off",
			Effort: Effort{Minimal: 256, Low: 1024, Medium: 4096, High: 16384, XHigh: budget.NoLimit, Max: budget.NoLimit},
		},
		Responses: Responses{Store: "off", Keep: 1000, MaxBytes: 256 << 20, Retention: hours(30 * 24)},
		Usage:     Usage{Retention: hours(90 * 24), MaxRows: 1_000_000},
		Limits: Limits{
			Body: 32 << 20, Bodies: 256 << 20, Event: 16 << 20, WriteTimeout: seconds(30), EngineHeaders: seconds(15 * 60), EngineIdle: seconds(15 * 60),
			FirstToken: seconds(30 * 60), Shutdown: seconds(5 * 60),
		},
		Telemetry: Telemetry{Log: "info"},
	}
}

func seconds(n int) Duration { return Duration(time.Duration(n) * time.Second) }
func hours(n int) Duration   { return Duration(time.Duration(n) * time.Hour) }
