package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"oneslot/ledger"
	"oneslot/queue"
	"oneslot/queue/line"
	"oneslot/usage"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// fixed is a line that looks always the same.
type fixed struct {
	snap queue.Snapshot
	err  error
}

func (f fixed) Snapshot(context.Context) (queue.Snapshot, error) { return f.snap, f.err }

// scrape reads the metrics as Prometheus does.
func scrape(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Fatalf("status %d, type %q", w.Code, w.Header().Get("Content-Type"))
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// values are the samples of a family by their labels; of a histogram the count.
func values(f *dto.MetricFamily) map[string]float64 {
	out := map[string]float64{}
	for _, m := range f.GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetValue())
		}
		out[strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return out
}

func row(o ledger.Outcome, engine string, runs int, tokens usage.Tokens) ledger.Row {
	return ledger.Row{
		Outcome: o, Engine: engine, Runs: runs, Tokens: tokens, Stream: runs > 0, Model: "secret-model", Key: "secret-key", ID: "secret-id",
		QueueWait: 2 * time.Second, Prefill: 3 * time.Second, Thinking: 4 * time.Second, Slot: 20 * time.Minute,
	}
}

// TestCounts: what has happened is what Prometheus reads.
func TestCounts(t *testing.T) {
	m := watched(fixed{})
	engine := func(n int) usage.Count { return usage.Count{N: n, Source: usage.Engine} }
	served := usage.Tokens{Prompt: engine(100), CachedPrompt: engine(40), Thinking: engine(30), Answer: engine(12), Completion: engine(42)}
	m.Finished(row(ledger.Served, "spark", 1, served))
	m.Finished(row(ledger.Served, "spark", 1, served))
	m.Finished(row(ledger.ClientGone, "spark", 1, usage.Tokens{})) // nothing is known of it
	m.Finished(row(ledger.Rejected, "", 0, usage.NotRun()))
	m.Finished(row(ledger.Rejected, "spark", 0, usage.NotRun())) // by the engine
	m.Request("/v1/models", 200, false)
	m.Request("/v1/models", 200, false)
	m.Request("", 404, true)
	m.Heartbeats(3)
	m.Heartbeats(4)
	m.Coalesced()
	m.Stopped()
	m.Poisoned("spark")
	failed := row(ledger.EngineFailed, "spark", 1, usage.Tokens{})
	for _, failed.Reason = range []string{"engine_timeout", "upstream_error", "what an engine said"} {
		m.Finished(failed)
	}
	cut := row(ledger.Served, "spark", 2, served)
	cut.Budget, cut.AnswerStarted, cut.Reason = "cut", true, "kept"
	m.Finished(cut)
	families := scrape(t, m)
	for name, want := range map[string]map[string]float64{
		"oneslot_outcomes_total":          {"spark served true": 3, "spark engine_failed true": 3, "spark client_gone true": 1, " rejected false": 1, "spark rejected false": 1},
		"oneslot_tokens_total":            {"prompt": 300, "cached": 120, "thinking": 90, "answer": 36},
		"oneslot_requests_total":          {"200 /v1/models false": 2, "404 none true": 1},
		"oneslot_aborts_total":            {"client_gone": 1, "engine_timeout": 1, "budget": 1, "stop_string": 1},
		"oneslot_stream_errors_total":     {"engine_timeout": 1, "upstream_error": 1, "other": 1},
		"oneslot_slot_poisoned_total":     {"spark": 1},
		"oneslot_heartbeats_total":        {"": 7},
		"oneslot_coalesced_retries_total": {"": 1},
		"oneslot_queue_wait_seconds":      {"": 8},
		"oneslot_slot_seconds":            {"": 8},
		"oneslot_ttft_seconds":            {"accept": 3, "dispatch": 3},
		"oneslot_ttfa_seconds":            {"accept": 1, "dispatch": 1},
		"oneslot_thinking_seconds":        {"": 3},
	} {
		if got := values(families[name]); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for name, seconds := range map[string]float64{"oneslot_queue_wait_seconds": 16, "oneslot_slot_seconds": 9600, "oneslot_ttft_seconds": 15, "oneslot_ttfa_seconds": 9, "oneslot_thinking_seconds": 12} {
		h := families[name].GetMetric()[0].GetHistogram()
		if h.GetSampleSum() != seconds {
			t.Errorf("%s adds up to %v, want %v seconds", name, h.GetSampleSum(), seconds)
		}
		if last := h.GetBucket()[len(h.GetBucket())-2].GetUpperBound(); last < 3600 {
			t.Errorf("%s ends at %v s; a run may last an hour", name, last)
		}
	}
}

// TestGauges are read from the lines when Prometheus asks.
func TestGauges(t *testing.T) {
	a := fixed{snap: queue.Snapshot{Waiting: make([]queue.Waiter, 3), Slots: []queue.Slot{{Name: "spark", State: line.Busy}, {Name: "ember", State: line.Poisoned}}}}
	b := fixed{snap: queue.Snapshot{Gate: queue.Paused, Waiting: make([]queue.Waiter, 2), Slots: []queue.Slot{{Name: "third", State: line.Idle}}}}
	families := scrape(t, watched(a, b))
	states := values(families["oneslot_slot_state"])
	on := 0.0
	for _, v := range states {
		on += v
	}
	if len(states) != 15 || on != 3 || states["spark busy"] != 1 || states["ember poisoned"] != 1 || states["third idle"] != 1 {
		t.Errorf("the states are %v", states)
	}
	if got := values(families["oneslot_queue_depth"])[""]; got != 5 {
		t.Errorf("%v wait, want 5", got)
	}
	if got := values(families["oneslot_queue_gate"]); got["paused"] != 1 || got["open"] != 0 || got["draining"] != 0 {
		t.Errorf("the gate is %v", got)
	}
	if got := values(families["oneslot_queue_up"])[""]; got != 1 {
		t.Errorf("up is %v", got)
	}
	families = scrape(t, watched(a, fixed{err: errors.New("no Redis")}))
	if got := values(families["oneslot_queue_up"])[""]; got != 0 {
		t.Errorf("with a store that does not answer up is %v", got)
	}
	if got := values(families["oneslot_queue_depth"])[""]; got != 3 {
		t.Errorf("%v wait where one line answers, want 3", got)
	}
}

// TestNames hold to Prometheus' conventions and to the package's promise: a
// prefix, units, help, and no label value that a caller can choose.
func TestNames(t *testing.T) {
	m := watched(fixed{snap: queue.Snapshot{Slots: []queue.Slot{{Name: "spark"}}}})
	m.Finished(row(ledger.Served, "spark", 1, usage.Tokens{}))
	m.Request("/v1/usage/:id", 404, false)
	shape := regexp.MustCompile(`^oneslot_[a-z_]+$`)
	for name, f := range scrape(t, m) {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		if !shape.MatchString(name) || f.GetHelp() == "" {
			t.Errorf("%s has help %q", name, f.GetHelp())
		}
		if f.GetType() == dto.MetricType_COUNTER != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, f.GetType())
		}
		if f.GetType() == dto.MetricType_HISTOGRAM && !strings.HasSuffix(name, "_seconds") {
			t.Errorf("%s has no unit", name)
		}
		if strings.Contains(f.String(), "secret") {
			t.Errorf("%s shows a key, a model or an id: %v", name, f)
		}
	}
}

// watched are metrics with gauges.
func watched(lines ...Line) *Metrics {
	m := New(written)
	m.Watch(lines...)
	return m
}

// written is a ledger whose writes go well.
func written() error { return nil }

func TestLedgerThatFails(t *testing.T) {
	for want, ledger := range map[float64]func() error{1: written, 0: func() error { return errors.New("disk full") }} {
		got := scrape(t, New(ledger))["oneslot_ledger_up"]
		if got == nil || got.Metric[0].GetGauge().GetValue() != want {
			t.Errorf("oneslot_ledger_up is %v, want %v", got, want)
		}
	}
}

// TestDeployed: every metric that the alert rules and the dashboard name is one of
// ours, so that neither is silent for a wrong name.
func TestDeployed(t *testing.T) {
	m := watched(fixed{snap: queue.Snapshot{Slots: []queue.Slot{{Name: "spark"}}}})
	cut := row(ledger.SlotLost, "spark", 1, usage.Tokens{Completion: usage.Count{N: 1, Source: usage.Engine}})
	cut.AnswerStarted = true
	m.Finished(cut)
	m.Request("", 200, false)
	m.Poisoned("spark")
	m.Kept(func() error { return nil })
	m.Bodies(func() int64 { return 0 })
	families := scrape(t, m)
	name := regexp.MustCompile(`oneslot_[a-z_]+`)
	used := map[string]bool{}
	for _, file := range []string{"alerts.yaml", "alerts_test.yaml", "grafana.json"} {
		text, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range name.FindAllString(string(text), -1) {
			if found = strings.TrimSuffix(found, "_bucket"); families[found] == nil {
				t.Errorf("%s names %s, which there is not", file, found)
			}
			used[found] = true
		}
	}
	for found := range families {
		if strings.HasPrefix(found, "oneslot_") && !used[found] {
			t.Errorf("neither alerts nor dashboard show %s", found)
		}
	}
}
