package metrics

import (
	"net/http"
	"slices"
	"strconv"

	"oneslot/ledger"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics holds the program's metrics. Create it with New.
type Metrics struct {
	http.Handler
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	finished   *prometheus.CounterVec
	tokens     *prometheus.CounterVec
	aborts     *prometheus.CounterVec
	errors     *prometheus.CounterVec
	poisoned   *prometheus.CounterVec
	heartbeats prometheus.Counter
	coalesced  prometheus.Counter
	ttft       *prometheus.HistogramVec
	ttfa       *prometheus.HistogramVec
	wait       prometheus.Histogram
	slot       prometheus.Histogram
	thinking   prometheus.Histogram
}

// buckets reach from an idle engine's milliseconds to an hour, in seconds.
func buckets() []float64 {
	return []float64{.005, .025, .1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600}
}

// New returns Metrics that read from written the error of the ledger's last
// write. Gauges come with Watch.
func New(written func() error) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: counters("oneslot_requests_total", "HTTP requests by route, status and whether the answer was a stream.", "route", "code", "stream"),
		finished: counters("oneslot_outcomes_total", "Queued requests by outcome, engine and whether they streamed.", "outcome", "engine", "stream"),
		tokens:   counters("oneslot_tokens_total", "Tokens by kind; thinking and answer add up to the completion, cached is a part of the prompt.", "kind"),
		aborts:   counters("oneslot_aborts_total", "Runs that were ended before the engine had ended them, by reason.", "reason"),
		errors:   counters("oneslot_stream_errors_total", "Runs that the engine or the slot failed, by kind.", "kind"),
		poisoned: counters("oneslot_slot_poisoned_total", "How often an engine slot could not be made idle in time.", "engine"),
		heartbeats: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oneslot_heartbeats_total", Help: "Signs of life that clients got while there was nothing to say.",
		}),
		coalesced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oneslot_coalesced_retries_total", Help: "Retries that took over the place or the run of the request before.",
		}),
		ttft:     histograms("oneslot_ttft_seconds", "Time to the first token, from accept or from dispatch to the engine.", "from"),
		ttfa:     histograms("oneslot_ttfa_seconds", "Time to the first token of the answer, behind the thinking, from accept or from dispatch.", "from"),
		wait:     histogram("oneslot_queue_wait_seconds", "Time in line of requests that got a slot."),
		slot:     histogram("oneslot_slot_seconds", "Time for which a request held its slot."),
		thinking: histogram("oneslot_thinking_seconds", "Time that an answer spent in thinking."),
	}
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "oneslot_ledger_up", Help: "Whether the latest write of the ledger went well."}, func() float64 {
		return flag(written() == nil)
	})
	m.registry.MustRegister(up, m.requests, m.finished, m.tokens, m.aborts, m.errors, m.poisoned, m.heartbeats, m.coalesced,
		m.ttft, m.ttfa, m.wait, m.slot, m.thinking,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.Handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return m
}

// Kept reads from written whether responses can be kept. Call it once.
func (m *Metrics) Kept(written func() error) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "oneslot_responses_up", Help: "Whether the latest write of a response that is kept went well."}, func() float64 {
		return flag(written() == nil)
	}))
}

// Bodies reads from held how many bytes those of requests take. Call it once.
func (m *Metrics) Bodies(held func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "oneslot_request_bodies_bytes", Help: "Memory that is reserved for the bodies of requests that are read, wait or run."}, func() float64 {
		return float64(held())
	}))
}

// Gatherer is where all of it can be read.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Watch reads gauges from the lines whenever somebody looks. Call it once.
func (m *Metrics) Watch(lines ...Line) { m.registry.MustRegister(gauges(lines)) }

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets()}, labels)
}

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets()})
}

// Request counts one HTTP request. route is the pattern, empty for none.
func (m *Metrics) Request(route string, status int, stream bool) {
	if route == "" {
		route = "none"
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status), strconv.FormatBool(stream)).Inc()
}

// Poisoned counts that an engine slot could not be made idle.
func (m *Metrics) Poisoned(slot string) { m.poisoned.WithLabelValues(slot).Inc() }

// Heartbeats counts the signs of life that a client got.
func (m *Metrics) Heartbeats(n int) { m.heartbeats.Add(float64(n)) }

// Stopped counts a run that was aborted since a stop string had ended its answer.
func (m *Metrics) Stopped() { m.aborts.WithLabelValues("stop_string").Inc() }

// Coalesced counts a retry that took over what was there of the request before.
func (m *Metrics) Coalesced() { m.coalesced.Inc() }

// Finished counts one queued request that has ended.
func (m *Metrics) Finished(row ledger.Row) {
	m.finished.WithLabelValues(string(row.Outcome), row.Engine, strconv.FormatBool(row.Stream)).Inc()
	if row.Engine == "" {
		return
	}
	m.broken(row)
	m.wait.Observe(row.QueueWait.Seconds())
	m.slot.Observe(row.Slot.Seconds())
	if row.Tokens.Completion.N > 0 { // else there was no first token
		m.ttft.WithLabelValues("dispatch").Observe(row.Prefill.Seconds())
		m.ttft.WithLabelValues("accept").Observe((row.QueueWait + row.Prefill).Seconds())
		m.thinking.Observe(row.Thinking.Seconds())
		if row.AnswerStarted {
			m.ttfa.WithLabelValues("dispatch").Observe((row.Prefill + row.Thinking).Seconds())
			m.ttfa.WithLabelValues("accept").Observe((row.QueueWait + row.Prefill + row.Thinking).Seconds())
		}
	}
	t := &row.Tokens
	m.tokens.WithLabelValues("prompt").Add(float64(t.Prompt.N))
	m.tokens.WithLabelValues("cached").Add(float64(t.CachedPrompt.N))
	m.tokens.WithLabelValues("thinking").Add(float64(t.Thinking.N))
	m.tokens.WithLabelValues("answer").Add(float64(t.Answer.N))
}

// broken counts a run that did not end by itself, or not well.
func (m *Metrics) broken(row ledger.Row) {
	switch row.Outcome {
	case ledger.ClientGone, ledger.Cancelled, ledger.SlotLost:
		m.aborts.WithLabelValues(string(row.Outcome)).Inc()
	case ledger.EngineFailed:
		if row.Reason == "engine_timeout" {
			m.aborts.WithLabelValues(row.Reason).Inc()
		}
	case ledger.Served, ledger.Rejected, ledger.Abandoned, ledger.Expired, ledger.Queued, ledger.Running:
	}
	if row.Budget == "cut" {
		m.aborts.WithLabelValues("budget").Inc()
	}
	if row.Outcome == ledger.EngineFailed || row.Outcome == ledger.SlotLost {
		m.errors.WithLabelValues(kind(row.Reason)).Inc()
	}
}

// kind is a reason of ours, or "other": an engine may name anything.
func kind(reason string) string {
	ours := []string{"upstream_error", "engine_timeout", "engine_down", "slot_lost", "internal_error", "draining"}
	if slices.Contains(ours, reason) {
		return reason
	}
	return "other"
}
