package export

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"oneslot/ledger"
	"oneslot/usage"
)

// column is one column of a kind of line.
type column[T any] struct {
	name string
	cell func(*T) string
}

// rowColumns are all that is known of a row.
func rowColumns() []column[ledger.Row] {
	list := []column[ledger.Row]{
		{"id", func(r *ledger.Row) string { return r.ID }},
		{"created", func(r *ledger.Row) string { return r.Created.Truncate(time.Millisecond).UTC().Format(time.RFC3339Nano) }},
		{"key", func(r *ledger.Row) string { return r.Key }},
		{"model", func(r *ledger.Row) string { return r.Model }},
		{"engine", func(r *ledger.Row) string { return r.Engine }},
		{"class", func(r *ledger.Row) string { return r.Class }},
		{"route", func(r *ledger.Row) string { return r.Route }},
		{"stream", func(r *ledger.Row) string { return strconv.FormatBool(r.Stream) }},
		{"outcome", func(r *ledger.Row) string { return string(r.Outcome) }},
		{"status", func(r *ledger.Row) string { return some(r.Status) }},
		{"reason", func(r *ledger.Row) string { return r.Reason }},
		{"finish_reason", func(r *ledger.Row) string { return r.FinishReason }},
		{"queue_wait_ms", func(r *ledger.Row) string { return ended(r, r.QueueWait, millis) }},
		{"prefill_ms", func(r *ledger.Row) string { return ended(r, r.Prefill, millis) }},
		{"thinking_ms", func(r *ledger.Row) string { return ended(r, r.Thinking, millis) }},
		{"answer_ms", func(r *ledger.Row) string { return ended(r, r.Answer, millis) }},
		{"slot_ms", func(r *ledger.Row) string { return ended(r, r.Slot, millis) }},
		{"answer_started", func(r *ledger.Row) string { return strconv.FormatBool(r.AnswerStarted) }},
	}
	for i, name := range []string{
		"prompt_tokens", "cached_prompt_tokens", "thinking_tokens", "answer_tokens", "completion_tokens", "drafts_accepted",
		"engine_prompt_tokens", "engine_completion_tokens",
	} {
		list = append(list,
			column[ledger.Row]{name, func(r *ledger.Row) string { return figure(r.Counts()[i]) }},
			column[ledger.Row]{name + "_source", func(r *ledger.Row) string { return source(r.Counts()[i]) }})
	}
	return append(list,
		column[ledger.Row]{"runs", func(r *ledger.Row) string { return some(r.Runs) }},
		column[ledger.Row]{"budget", func(r *ledger.Row) string { return r.Budget }},
		column[ledger.Row]{"client_request_id", func(r *ledger.Row) string { return r.ClientRequestID }})
}

// sumColumns are all that is known of a sum.
func sumColumns(by ledger.By) []column[ledger.Sum] {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	list := []column[ledger.Sum]{
		{string(by), func(s *ledger.Sum) string { return s.Group }},
		{"requests", func(s *ledger.Sum) string { return strconv.Itoa(s.Requests) }},
	}
	for _, o := range ledger.Outcomes() {
		list = append(list, column[ledger.Sum]{string(o), func(s *ledger.Sum) string { return strconv.Itoa(s.Outcomes[o]) }})
	}
	return append(list, []column[ledger.Sum]{
		{"prompt_tokens", func(s *ledger.Sum) string { return known(s.Tokens.Prompt) }},
		{"cached_prompt_tokens", func(s *ledger.Sum) string { return known(s.Tokens.CachedPrompt) }},
		{"thinking_tokens", func(s *ledger.Sum) string { return known(s.Tokens.Thinking) }},
		{"answer_tokens", func(s *ledger.Sum) string { return known(s.Tokens.Answer) }},
		{"completion_tokens", func(s *ledger.Sum) string { return known(s.Tokens.Completion) }},
		{"slot_ms", func(s *ledger.Sum) string { return number(s.SlotMS) }},
		{"queue_wait_ms_p50", func(s *ledger.Sum) string { return number(s.QueueWait.P50) }},
		{"queue_wait_ms_p90", func(s *ledger.Sum) string { return number(s.QueueWait.P90) }},
		{"queue_wait_ms_p99", func(s *ledger.Sum) string { return number(s.QueueWait.P99) }},
		{"slot_hold_ms_p50", func(s *ledger.Sum) string { return number(s.Slot.P50) }},
		{"slot_hold_ms_p90", func(s *ledger.Sum) string { return number(s.Slot.P90) }},
		{"slot_hold_ms_p99", func(s *ledger.Sum) string { return number(s.Slot.P99) }},
	}...)
}

// ended is a time as a cell, which says nothing if the time is not known: while the
// request is open, or since the process died.
func ended(r *ledger.Row, d time.Duration, text func(time.Duration) string) string {
	if d < 0 || d == 0 && r.Outcome.Open() {
		return ""
	}
	return text(d)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// some is a number, or nothing for zero, which stands for none.
func some(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func known(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

func figure(c *usage.Count) string {
	if !c.Known() {
		return ""
	}
	return strconv.Itoa(c.N)
}

func source(c *usage.Count) string {
	if !c.Known() {
		return string(usage.Unknown)
	}
	return string(c.Source)
}

// plain takes out what would steer a terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, text)
}

// inert puts a quote before what a spreadsheet would take for a formula.
func inert(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
