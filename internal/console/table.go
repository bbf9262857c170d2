package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"oneslot/api/board"
)

// Table writes the line as it is now: slots, and at most rows who wait; 0 is all.
func (s *Screen) Table(w io.Writer, rows int) error {
	if !s.known {
		_, err := fmt.Fprintln(w, cmp.Or(s.note, "Nothing is known of the line yet."))
		return err
	}
	passed := time.Since(s.since)
	v := &s.view
	fmt.Fprintf(w, "%d of %d waiting, %d running%s\n\n", v.Waiting, v.Limit, v.Running, gate(v))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SLOT\tSTATE\tFOR\tPHASE\tPROMPT\tTHINKING\tANSWER\tTOK/S\tREQUEST")
	for _, slot := range v.Slots {
		speed := ""
		if slot.Speed != nil {
			speed = fmt.Sprint(*slot.Speed)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", slot.Engine, slot.State, span(slot.SinceMS, passed), slot.Phase,
			number(slot.Prompt), number(slot.Thinking), number(slot.Answer), speed, slot.RequestID)
	}
	if len(v.Waiters) > 0 {
		fmt.Fprintln(t, "\nPLACE\tREQUEST\tKEY\tCLASS\tWAITED\tSTARTS IN")
	}
	for i, one := range v.Waiters {
		if rows > 0 && i == rows {
			fmt.Fprintf(t, "… and %d more\n", len(v.Waiters)-i)
			break
		}
		waiting(t, &one, passed, v)
	}
	return t.Flush()
}

func gate(v *board.View) string {
	switch {
	case v.Draining:
		return ", DRAINING"
	case v.Paused:
		return ", PAUSED"
	}
	return ""
}

func waiting(t io.Writer, w *board.Waiter, passed time.Duration, v *board.View) {
	if w.RequestID == "" {
		fmt.Fprintf(t, "%d\t(another's)\n", w.Position)
		return
	}
	eta := v.Held()
	if eta == "" && w.ETA != nil {
		eta = seconds(w.ETA.P50) + " - " + seconds(w.ETA.P90)
	}
	fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", w.Position, w.RequestID, w.Key, w.Priority, span(w.WaitedMS, passed), eta)
}

func span(ms int64, passed time.Duration) string {
	return (time.Duration(ms)*time.Millisecond + passed).Truncate(time.Second).String()
}

func seconds(s float64) string {
	return (time.Duration(s) * time.Second).String()
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// Line is an event of the feed as one line of text, empty for one that has nothing
// to say.
func Line(at time.Time, name string, data []byte) string {
	var o map[string]any
	if name == "snapshot" || json.Unmarshal(data, &o) != nil {
		return ""
	}
	var words bytes.Buffer
	for _, key := range []string{
		"engine", "state", "request_id", "phase", "prompt_tokens", "thinking_tokens", "answer_tokens", "tokens_per_second",
		"position", "priority", "key", "waiting", "running", "paused", "draining", "reason",
	} {
		if value := o[key]; value != nil && value != "" {
			fmt.Fprintf(&words, " %s=%v", strings.TrimSuffix(key, "_id"), value)
		}
	}
	return at.Format("15:04:05") + " " + name + words.String()
}
