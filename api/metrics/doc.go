// Package metrics counts what happens and shows it in Prometheus' text format.
//
// Every name begins with oneslot_. Label values are bounded: routes, statuses,
// outcomes, kinds and the configured engine names; never a model name that a
// client sent, a key's secret, or a request id. Times have buckets up to an
// hour, since that is how long a request on one slot may wait or run. Gauges of
// the line are read when Prometheus asks, so that they cost nothing otherwise.
package metrics
