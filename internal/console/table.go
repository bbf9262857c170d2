package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"oneslot/api/board"
)

// Window is how much room there is. Zero means any.
type Window struct{ Rows, Columns int }

// Table writes the line as it is now: slots and who waits. Where there is too little
// room it shortens ids, then cuts lines, and counts those who do not fit.
func (s *Screen) Table(w io.Writer, win Window) error {
	lines := s.lines(win.Rows, whole)
	if win.Columns > 0 && slices.ContainsFunc(lines, func(l string) bool { return utf8.RuneCountInString(l) > win.Columns }) {
		lines = s.lines(win.Rows, short)
	}
	if win.Rows > 0 && len(lines) > win.Rows {
		lines = append(lines[:win.Rows-1], "…")
	}
	var b strings.Builder
	for _, l := range lines {
		if r := []rune(l); win.Columns > 0 && len(r) > win.Columns {
			l = string(r[:win.Columns-1]) + "…"
		}
		b.WriteString(l + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func whole(id string) string { return id }

// short is enough of an id to tell it from others: its end, since ids of a minute begin
// with the same time.
func short(id string) string {
	if len(id) > 9 {
		return "…" + id[len(id)-8:]
	}
	return id
}

// another stands for the request of another key.
const another = "(another's)"

// lines are those of the table, in at most so many rows if that leaves any for those
// who wait.
func (s *Screen) lines(rows int, id func(string) string) []string {
	if !s.known {
		return []string{cmp.Or(s.note, "Nothing is known of the line yet.")}
	}
	passed, v := time.Since(s.since), &s.view
	away := ""
	if !s.lost.IsZero() {
		passed, away = s.lost.Sub(s.since), " - reconnecting…"
	}
	var b strings.Builder // takes everything
	fmt.Fprintf(&b, "%d of %d waiting, %d running%s%s\n\n", v.Waiting, v.Limit, v.Running, gate(v), away)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SLOT\tSTATE\tFOR\tPHASE\tPROMPT\tTHINKING\tANSWER\tTOK/S\tREQUEST")
	for i := range v.Slots {
		running(t, &v.Slots[i], passed, id)
	}
	shown := len(v.Waiters) // under two heads, each after a blank line, and the first line
	if room := rows - len(v.Slots) - 5; rows > 0 && shown > room {
		shown = max(room-1, 0)
	}
	if len(v.Waiters) > 0 {
		fmt.Fprintln(t, "\nPLACE\tREQUEST\tKEY\tCLASS\tWAITED\tSTARTS IN")
	}
	for i := range shown {
		waiting(t, &v.Waiters[i], passed, line{v.Held(), id})
	}
	if more := len(v.Waiters) - shown; more > 0 {
		fmt.Fprintf(t, "… and %d more\n", more)
	}
	_ = t.Flush()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return lines
}

func running(t io.Writer, slot *board.Slot, passed time.Duration, id func(string) string) {
	speed, request := "", id(slot.RequestID)
	if slot.Speed != nil {
		speed = fmt.Sprint(*slot.Speed)
	}
	if request == "" && slot.State == "busy" {
		request = another
	}
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", slot.Engine, slot.State, span(slot.SinceMS, passed), slot.Phase,
		number(slot.Prompt), number(slot.Thinking), number(slot.Answer), speed, request)
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

// line is what holds for all who wait.
type line struct {
	held string // why nobody gets a slot
	id   func(string) string
}

func waiting(t io.Writer, w *board.Waiter, passed time.Duration, l line) {
	if w.RequestID == "" {
		fmt.Fprintf(t, "%d\t%s\t\t\t\t\n", w.Position, another)
		return
	}
	eta := l.held
	if eta == "" && w.ETA != nil {
		eta = band(w.ETA)
	}
	fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", w.Position, l.id(w.RequestID), w.Key, w.Priority, span(w.WaitedMS, passed), eta)
}

// band is an estimate, as one figure where both of its ends look the same.
func band(b *board.Band) string {
	early, late := seconds(b.P50), seconds(b.P90)
	if early == late {
		return "~" + early
	}
	return early + " - " + late
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
