package metrics

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"oneslot/ledger"
	"oneslot/queue"
	"oneslot/queue/line"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics holds the program's metrics. Create it with New.
type Metrics struct {
	http.Handler
	requests *prometheus.CounterVec
	finished *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	wait     prometheus.Histogram
	ttft     prometheus.Histogram
	slot     prometheus.Histogram
	thinking prometheus.Histogram
}

// buckets reach from an idle engine's milliseconds to an hour, in seconds.
func buckets() []float64 {
	return []float64{.005, .025, .1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600}
}

// A Line is what the gauges are read from.
type Line interface {
	Snapshot(ctx context.Context) (queue.Snapshot, error)
}

// New returns Metrics that read the gauges from the given lines, and from
// ledger the error of its last write.
func New(ledger func() error, lines ...Line) *Metrics {
	reg := prometheus.NewRegistry()
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oneslot_requests_total", Help: "HTTP requests by route and status."}, []string{"route", "code"}),
		finished: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oneslot_outcomes_total", Help: "Queued requests by outcome, engine and whether they streamed."}, []string{"outcome", "engine", "stream"}),
		tokens:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oneslot_tokens_total", Help: "Tokens by kind; thinking and answer add up to the completion, cached is a part of the prompt."}, []string{"kind"}),
		wait:     histogram("oneslot_queue_wait_seconds", "Time in line of requests that got a slot."),
		ttft:     histogram("oneslot_time_to_first_token_seconds", "Time from dispatch to the first token."),
		slot:     histogram("oneslot_slot_seconds", "Time for which a request held its slot."),
		thinking: histogram("oneslot_thinking_seconds", "Time that an answer spent in thinking."),
	}
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "oneslot_ledger_up", Help: "Whether the latest write of the ledger went well."}, func() float64 {
		return truth(ledger() == nil)
	})
	reg.MustRegister(up, m.requests, m.finished, m.tokens, m.wait, m.ttft, m.slot, m.thinking, gauges(lines),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.Handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	return m
}

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets()})
}

// Request counts one HTTP request. route is the pattern, empty for none.
func (m *Metrics) Request(route string, status int) {
	if route == "" {
		route = "none"
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
}

// Finished counts one queued request that has ended.
func (m *Metrics) Finished(row ledger.Row) {
	m.finished.WithLabelValues(string(row.Outcome), row.Engine, strconv.FormatBool(row.Stream)).Inc()
	if row.Engine == "" {
		return
	}
	m.wait.Observe(row.QueueWait.Seconds())
	m.slot.Observe(row.Slot.Seconds())
	if row.Tokens.Completion.N > 0 { // else there was no first token
		m.ttft.Observe(row.Prefill.Seconds())
		m.thinking.Observe(row.Thinking.Seconds())
	}
	t := &row.Tokens
	m.tokens.WithLabelValues("prompt").Add(float64(t.Prompt.N))
	m.tokens.WithLabelValues("cached").Add(float64(t.CachedPrompt.N))
	m.tokens.WithLabelValues("thinking").Add(float64(t.Thinking.N))
	m.tokens.WithLabelValues("answer").Add(float64(t.Answer.N))
}

// gauges reads the lines when it is collected.
type gauges []Line

var (
	waitingDesc = prometheus.NewDesc("oneslot_queue_waiting", "Requests that wait in line.", nil, nil)
	stateDesc   = prometheus.NewDesc("oneslot_slot_state", "1 for the state that an engine slot is in.", []string{"engine", "state"}, nil)
	gateDesc    = prometheus.NewDesc("oneslot_queue_gate", "1 for what an operator has set the line to.", []string{"gate"}, nil)
	upDesc      = prometheus.NewDesc("oneslot_queue_up", "Whether the line's store answers.", nil, nil)
)

// Describe sends the descriptions of the gauges.
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- waitingDesc
	ch <- stateDesc
	ch <- gateDesc
	ch <- upDesc
}

// Collect reads the lines; a store that does not answer shows in oneslot_queue_up.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	waiting, up, gate := 0, 1.0, queue.Open
	for _, one := range g {
		snap, err := one.Snapshot(ctx)
		if err != nil {
			up = 0
			continue
		}
		waiting += len(snap.Waiting)
		gate = max(gate, snap.Gate)
		for _, slot := range snap.Slots {
			for _, state := range []line.State{line.Idle, line.Busy, line.Aborting, line.Poisoned, line.Down} {
				ch <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, truth(slot.State == state), slot.Name, state.String())
			}
		}
	}
	for _, g := range []queue.Gate{queue.Open, queue.Paused, queue.Draining} {
		ch <- prometheus.MustNewConstMetric(gateDesc, prometheus.GaugeValue, truth(g == gate), g.String())
	}
	ch <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(waiting))
	ch <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up)
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
