package forecast

import (
	"testing"
	"time"

	"oneslot/queue/eta"
	"oneslot/queue/line"
)

// TestFloors: bands never fall with the place in a class, and classes do not mix.
func TestFloors(t *testing.T) {
	f := Floors{}
	for i, c := range []struct {
		class          line.Class
		p50, p90       time.Duration
		want50, want90 time.Duration
	}{
		{line.Default, 10, 50, 10, 50}, {line.Batch, 90, 95, 90, 95}, {line.Default, 8, 60, 10, 60}, {line.Default, 20, 30, 20, 60}, {line.Batch, 5, 99, 90, 99},
	} {
		if got := f.Raise(c.class, &eta.Band{P50: c.p50, P90: c.p90}); *got != (eta.Band{P50: c.want50, P90: c.want90}) {
			t.Errorf("%d: told %+v, want %d to %d", i, *got, c.want50, c.want90)
		}
	}
	if got := f.Raise(line.Default, nil); got != nil {
		t.Errorf("nothing is known, and told %+v", got)
	}
}
