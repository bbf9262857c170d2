package responses

import (
	"slices"
	"strings"
	"time"
)

// record is one response that has ended.
type record struct {
	// Key names whose it is.
	Key string `json:"key"`
	// Items is the conversation that it answers, Output what it has added.
	Items  []string `json:"items"`
	Output []string `json:"output"`
	// Object is the response object.
	Object string `json:"object"`
	// Ended is when it ended.
	Ended time.Time `json:"ended"`
}

// size is about what r takes in memory.
func (r *record) size() int64 {
	n := len(r.Key) + len(r.Object)
	for _, list := range [][]string{r.Items, r.Output} {
		for _, item := range list {
			n += len(item)
		}
	}
	return int64(n)
}

// own returns r in memory of its own: its texts are parts of the request's body,
// all of which they would keep.
func (r record) own() record {
	r.Items, r.Output = slices.Clone(r.Items), slices.Clone(r.Output)
	for _, list := range [][]string{r.Items, r.Output} {
		for i := range list {
			list[i] = strings.Clone(list[i])
		}
	}
	return r
}
