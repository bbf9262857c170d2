package codec

import (
	"fmt"
	"slices"

	"oneslot/queue/eta"
	"oneslot/queue/line"
)

// EncodeTimes gives slot times the form in which they are remembered.
func EncodeTimes(some []eta.Sample) (texts []any) {
	for _, s := range some {
		texts = append(texts, fmt.Sprintf("%d %d %d", s.Key, s.Size, s.Slot.Microseconds()))
	}
	return texts
}

// DecodeTimes reads slot times, of which the latest come first, into their order. What
// is none is left out.
func DecodeTimes(texts []string) (all []eta.Sample) {
	for _, text := range slices.Backward(texts) {
		var s eta.Sample
		var micro int64
		if _, bad := fmt.Sscan(text, &s.Key, &s.Size, &micro); bad == nil {
			s.Slot = line.Micros(micro)
			all = append(all, s)
		}
	}
	return all
}
