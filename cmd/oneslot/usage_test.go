package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"oneslot/internal/remote"
	"oneslot/internal/simengine"
	"oneslot/ledger"
)

// twoKeys are an admin's secret "sesame" and a team's "open".
const twoKeys = `
keys:
  - {name: boss, sha256: "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272", admin: true}
  - {name: team, sha256: "2348f998744212575d85959674f9607ab26f67708a917157472832386337c904"}
`

// command runs a command of the program against the one under test.
func (p *proxyUnderTest) command(environ []string, args ...string) (string, error) {
	p.t.Helper()
	var out, errs bytes.Buffer
	err := run(p.t.Context(), args, world{environ: environ, out: &out, errs: &errs, dial: p.dial})
	if errs.Len() > 0 {
		p.t.Errorf("%v said %q", args, errs.String())
	}
	return out.String(), err
}

// TestUsageCommand: an admin sees all, a team its own; rows, sums, one row, in
// every format.
func TestUsageCommand(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 4, Answer: 2}, twoKeys)
		var last string
		for _, key := range []string{"sesame", "open", "open"} {
			r := p.post(t.Context(), `{"model":"ripple","messages":[{"role":"user","content":"hi"}]}`, http.Header{"Authorization": {"Bearer " + key}})
			if last = r.header.Get("X-Request-Id"); r.status != http.StatusOK {
				t.Fatalf("%d %s", r.status, r.body)
			}
		}
		boss, team := []string{"ONESLOT_URL=" + base + "/v1", "ONESLOT_API_KEY=sesame"}, []string{"ONESLOT_URL=" + base, "ONESLOT_API_KEY=open"}

		sums, err := p.command(boss, "usage", "--by", "key")
		fields := strings.Fields(sums)
		if err != nil || len(strings.Split(strings.TrimSpace(sums), "\n")) != 3 || !strings.Contains(strings.Join(fields, " "), "team 2 2 ") {
			t.Errorf("%v\n%s", err, sums)
		}
		rows, err := p.command(nil, "usage", "--url", base, "--key", "open", "--since", "1h")
		if err != nil || strings.Count(rows, "served") != 2 || strings.Contains(rows, "boss") {
			t.Errorf("%v\n%s", err, rows)
		}
		text, err := p.command(boss, "usage", "--format", "csv", "--limit", "2")
		if lines, err2 := csv.NewReader(strings.NewReader(text)).ReadAll(); err != nil || err2 != nil || len(lines) != 3 || lines[1][0] != last {
			t.Errorf("%v, %v\n%s", err, err2, text)
		}
		text, err = p.command(team, "usage", "chatcmpl-"+last, "--format", "json")
		var row ledger.Row
		if err2 := json.Unmarshal([]byte(text), &row); err != nil || err2 != nil || row.ID != last || row.Tokens.Completion.N != 9 {
			t.Errorf("%v, %v\n%s", err, err2, text)
		}
		for _, outcome := range []string{"served", "cancelled"} {
			text, err = p.command(team, "usage", "--format", "json", "--outcome", outcome, "--until", time.Now().Add(time.Hour).Format(time.RFC3339))
			var list struct{ Data []ledger.Row }
			if err2 := json.Unmarshal([]byte(text), &list); err != nil || err2 != nil || len(list.Data) != map[string]int{"served": 2}[outcome] {
				t.Errorf("%s: %v, %v\n%s", outcome, err, err2, text)
			}
		}
		var refused *remote.Problem
		if _, err := p.command(team, "usage", strings.Repeat("0", 32)); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
			t.Errorf("a row that is not there: %v", err)
		}
		if _, err := p.command(nil, "usage", "--url", base); !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
			t.Errorf("without a key: %v", err)
		}
		if _, err := p.command([]string{"ONESLOT_URL=" + base}, "healthcheck"); err != nil {
			t.Errorf("healthcheck: %v", err)
		}
	})
}

// TestUsageOfAFile reads the ledger beside a running proxy and after its end.
func TestUsageOfAFile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{Thinking: 4, Answer: 2}, "")
		for range 3 {
			p.post(t.Context(), hello, nil)
		}
		p.record(p.post(t.Context(), hello, nil)) // so that what came before is on disk
		look := func(when string) {
			t.Helper()
			<-time.After(time.Second)
			text, err := p.command(nil, "usage", "--data", p.data, "--by", "day", "--format", "json")
			if err != nil || !strings.Contains(text, `"requests": 4`) {
				t.Errorf("%s: %v\n%s", when, err, text)
			}
		}
		look("while it runs")
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		look("after its end")
		if _, err := p.command(nil, "usage", "--data", t.TempDir()); !errors.Is(err, ledger.ErrFolder) {
			t.Errorf("an empty folder: %v", err)
		}
	})
}

func TestUsageFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--by", "colour"}, {"--since", "soon"}, {"--until", "-3d"}, {"--format", "xml"}, {"--outcome", "bliss"}, {"--limit", "-1"}, {"--url", "nowhere"}, {"a", "b"},
	} {
		err := run(t.Context(), append([]string{"usage"}, args...), world{out: new(bytes.Buffer), errs: new(bytes.Buffer)})
		if status(err) != 2 {
			t.Errorf("%v: %v", args, err)
		}
	}
}
