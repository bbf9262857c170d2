package stack

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Probe is what `oneslot probe` says of an engine.
type Probe struct {
	ReadOnly string `json:"read_only"`
	Findings []struct {
		Name  string `json:"name"`
		State string `json:"state"`
		Value string `json:"value"`
	} `json:"findings"`
	// Config is the text of the file it wrote.
	Config string `json:"-"`
}

// Said returns "state" or "state value" of a finding, "" if there is none.
func (p Probe) Said(name string) string {
	for _, f := range p.Findings {
		if f.Name == name {
			return strings.TrimSpace(f.State + " " + f.Value)
		}
	}
	return ""
}

// StartProbe runs `oneslot probe` against the engine to its end.
func StartProbe(t testing.TB, engine *Engine) Probe {
	t.Helper()
	file := filepath.Join(t.TempDir(), "probed.yaml")
	var out lockedBuffer
	process := Start(t, &out, env(t, "ONESLOT_BIN"), "probe", "--engine", engine.URL, "--json", "--write", file)
	<-process.Done()
	if code := process.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("the probe ended with status %d:\n%s", code, process.Said())
	}
	var probe Probe
	if err := json.NewDecoder(bytes.NewBufferString(out.String())).Decode(&probe); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	probe.Config = string(text)
	return probe
}

// StartConfigured starts the proxy with what the probe wrote.
func StartConfigured(t testing.TB, probe Probe) *Proxy {
	t.Helper()
	// The tests know the engine by this name.
	return serve(t, strings.Split(strings.Replace(probe.Config, `name: "engine"`, `name: "real"`, 1), "\n"))
}
