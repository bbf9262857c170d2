package transcript

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// dropped are headers that say nothing of the client or the proxy, or that are there
// only where a request has come a moment too early.
var dropped = []string{"Connection", "Content-Length", "Date", "Host", "Transfer-Encoding", "X-Oneslot-Position"}

// blanked are headers that hold a secret, or what differs from machine to machine
// or from run to run.
var blanked = []string{
	"Api-Key", "Cookie", "X-Api-Key", "Traceparent", "Tracestate", "Baggage", "X-Stainless-Os", "X-Stainless-Arch",
	"X-Stainless-Runtime-Version", "X-Oneslot-Wait-Ms",
}

var (
	id      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}(_?\d+)?|\b(ses|call)_\w{16,}`)
	version = regexp.MustCompile(`\bv?\d+(\.\d+)+[\w.+-]*`)
	place   = regexp.MustCompile(`(^|[\s"'=])/(tmp|root|home|work|usr|var|opt)\b\S*`)
	host    = regexp.MustCompile(`https?://[^\s"'/]+`)
)

// plain takes out of a text what is of one run or one machine.
func plain(text string) string {
	text = id.ReplaceAllString(text, "ID")
	return host.ReplaceAllString(place.ReplaceAllString(text, "${1}PATH"), "http://HOST")
}

// Write writes exchanges down in Markdown. Of a request's head only what the one
// before did not have is shown.
func Write(list []Exchange) string {
	var b strings.Builder
	var before []string
	for _, e := range list {
		fmt.Fprintf(&b, "## %s %s\n\n", e.Method, plain(e.Path))
		head := headers(e.Request)
		part(&b, append(news(head, before), body(e.Body)...))
		before = head
		if e.Status == 0 {
			b.WriteString("The client left before an answer began.\n\n")
			continue
		}
		fmt.Fprintf(&b, "Answer: %d\n\n", e.Status)
		answer := headers(e.Response)
		if strings.HasPrefix(e.Response.Get("Content-Type"), "text/event-stream") {
			answer = append(append(answer, ""), events(e.Answer)...)
		} else {
			answer = append(answer, body(e.Answer)...)
		}
		part(&b, answer)
	}
	return b.String()
}

// part writes lines as a block of code.
func part(b *strings.Builder, lines []string) {
	b.WriteString("```\n")
	for _, line := range lines {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString("```\n\n")
}

// headers are the lines of a head, sorted.
func headers(h http.Header) (lines []string) {
	for name, values := range h {
		if slices.Contains(dropped, name) {
			continue
		}
		for _, value := range values {
			switch {
			case slices.Contains(blanked, name):
				value = "…"
			case strings.HasPrefix(value, "{"):
				value = "(JSON)"
			case name == "Authorization":
				scheme, _, _ := strings.Cut(value, " ")
				value = scheme + " …"
			default:
				value = plain(version.ReplaceAllString(value, "N"))
			}
			lines = append(lines, name+": "+value)
		}
	}
	slices.Sort(lines)
	return lines
}

// news are the lines of a head without those that the one before had too.
func news(head, before []string) []string {
	if before == nil {
		return head
	}
	out := slices.DeleteFunc(slices.Clone(head), func(line string) bool { return slices.Contains(before, line) })
	if len(out) < len(head) {
		out = append(out, "(the rest as before)")
	}
	return out
}

// body is what a body that is JSON looks like, behind an empty line; of another
// kind it is nothing.
func body(text []byte) []string {
	if shape, ok := shaped(string(text)); ok {
		return append([]string{""}, strings.Split(shape, "\n")...)
	}
	return nil
}

// events are the lines of a stream. Of those of one kind that follow one another the
// first stands for all.
func events(text []byte) (lines []string) {
	last, more := "", false
	for block := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n\n"), "\n\n") {
		var out []string
		kind := ""
		for line := range strings.Lines(block) {
			line = strings.TrimRight(line, "\n")
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				kind += kindOf(data)
				if shape, ok := compact(data); ok {
					line = "data: " + shape
				}
			} else {
				word, _, _ := strings.Cut(strings.TrimPrefix(line, ": "), " ")
				kind += word
			}
			out = append(out, plain(line))
		}
		if kind != last {
			lines, more = append(lines, out...), false
		} else if !more {
			lines, more = append(lines, "  (and more like it)"), true
		}
		last = kind
	}
	return lines
}
