package job_test

import (
	"strings"
	"testing"

	"oneslot/queue/job"
)

// TestValidate: an id is 32 hex digits, a user hex digits or nobody.
func TestValidate(t *testing.T) {
	good := strings.Repeat("0a", 16)
	for name, x := range map[string]struct {
		job  job.Job
		want string // in the error; "" is none
	}{
		"no user":    {job.Job{ID: good}, ""},
		"user":       {job.Job{ID: good, User: "00ff"}, ""},
		"no id":      {job.Job{}, "job id"},
		"short id":   {job.Job{ID: good[2:]}, "job id"},
		"long id":    {job.Job{ID: good + "00"}, "job id"},
		"odd id":     {job.Job{ID: strings.Repeat("x", 32)}, "job id"},
		"named user": {job.Job{ID: good, User: "alice"}, "the user"},
	} {
		err := x.job.Validate()
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
