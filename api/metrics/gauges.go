package metrics

import (
	"context"
	"time"

	"oneslot/queue"
	"oneslot/queue/line"

	"github.com/prometheus/client_golang/prometheus"
)

// A Line is what the gauges are read from.
type Line interface {
	Snapshot(ctx context.Context) (queue.Snapshot, error)
}

// gauges reads the lines when it is collected.
type gauges []Line

var (
	depthDesc = prometheus.NewDesc("oneslot_queue_depth", "Requests that wait in line.", nil, nil)
	limitDesc = prometheus.NewDesc("oneslot_queue_limit", "Requests that may wait in line.", nil, nil)
	busyDesc  = prometheus.NewDesc("oneslot_slot_busy", "1 while a request runs on the engine slot.", []string{"engine"}, nil)
	stateDesc = prometheus.NewDesc("oneslot_slot_state", "1 for the state that an engine slot is in.", []string{"engine", "state"}, nil)
	gateDesc  = prometheus.NewDesc("oneslot_queue_gate", "1 for what an operator has set the line to.", []string{"gate"}, nil)
	upDesc    = prometheus.NewDesc("oneslot_queue_up", "Whether the line's store answers.", nil, nil)
)

// Describe sends the descriptions of the gauges.
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- depthDesc
	ch <- limitDesc
	ch <- busyDesc
	ch <- stateDesc
	ch <- gateDesc
	ch <- upDesc
}

// Collect reads the lines; a store that does not answer shows in oneslot_queue_up.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	waiting, limit, up, gate := 0, 0, 1.0, queue.Open
	for _, one := range g {
		snap, err := one.Snapshot(ctx)
		if err != nil {
			up = 0
			continue
		}
		waiting += len(snap.Waiting)
		limit += snap.MaxWaiting
		gate = max(gate, snap.Gate)
		for _, slot := range snap.Slots {
			ch <- prometheus.MustNewConstMetric(busyDesc, prometheus.GaugeValue, flag(slot.State == line.Busy), slot.Name)
			for _, state := range []line.State{line.Idle, line.Busy, line.Aborting, line.Poisoned, line.Down} {
				ch <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, flag(slot.State == state), slot.Name, state.String())
			}
		}
	}
	for _, g := range []queue.Gate{queue.Open, queue.Paused, queue.Draining} {
		ch <- prometheus.MustNewConstMetric(gateDesc, prometheus.GaugeValue, flag(g == gate), g.String())
	}
	ch <- prometheus.MustNewConstMetric(depthDesc, prometheus.GaugeValue, float64(waiting))
	ch <- prometheus.MustNewConstMetric(limitDesc, prometheus.GaugeValue, float64(limit))
	ch <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up)
}

// flag is 1 for yes.
func flag(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
