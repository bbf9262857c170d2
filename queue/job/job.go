package job

import (
	"encoding/hex"
	"fmt"
	"time"

	"oneslot/queue/claims"
	"oneslot/queue/forecast"
	"oneslot/queue/line"
)

// A Job is one request for a slot.
type Job struct {
	ID    string // 32 hex digits, never used twice
	Key   string // whose it is; "" is nobody's and has no limit of its own
	User  string // who of the key's, if they share by user: no name, but hex digits that stand for it
	Class line.Class
	Size  int          // of its prompt in bytes, for predictions; 0: not known
	Most  int          // tokens that its answer may have, for predictions; 0: nothing bounds it
	Limit int          // how many of its key may wait; 0: as many as the line lets
	Stead claims.Place // the place that it takes over; zero: one of its own
	Near  []string     // slots it is given rather than others that are free when its turn comes
	// Patience is how long the job's client lives. A job that is likelier than not
	// to wait for longer is refused as a Hopeless one. Zero means for ever.
	Patience time.Duration
	// Start begins the work where the grant is accepted, which is sooner than the job's own
	// goroutine can: in that of whoever gave the slot back or joined, or, with Redis, in one
	// that asks it, listens to it or renews the lease. So it must take microseconds, and
	// neither block nor call the Queue. What it leaves behind, work may read. If it reports
	// true, work is called whatever happens. Nil begins nothing.
	Start func(slot string) bool
}

// Validate reports an ID or a User that the line cannot keep.
func (j *Job) Validate() error {
	if b, err := hex.DecodeString(j.ID); err != nil || len(b) != 16 {
		return fmt.Errorf("queue: job id %q is not 32 hex digits", j.ID)
	}
	if _, err := hex.DecodeString(j.User); err != nil {
		return fmt.Errorf("queue: the user %q of job %s is not of hex digits", j.User, j.ID)
	}
	return nil
}

// Asked is the job as those who foretell know it.
func (j *Job) Asked() forecast.Job { return forecast.Job{Key: j.Key, Bytes: j.Size, Most: j.Most} }
