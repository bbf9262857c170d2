package forecast

import (
	"oneslot/queue/eta"
	"oneslot/queue/line"
)

// Floors are the longest that one of a class was told in one look at the line.
type Floors map[line.Class]eta.Band

// Raise is the band of the next in the order of the line: he waits no less than those
// of his class before him, whatever came of the last waits from there. It is nil if
// none is known.
func (f Floors) Raise(c line.Class, band *eta.Band) *eta.Band {
	if band == nil {
		return nil
	}
	least := f[c]
	told := eta.Band{P50: max(band.P50, least.P50), P90: max(band.P90, least.P90)}
	f[c] = told
	return &told
}
