package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oneslot/configs"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
	"oneslot/proxy/probe"
)

// probing runs `oneslot probe` against a simulated engine of its own and returns
// what it printed.
func probing(t *testing.T, sim simengine.Config, args ...string) (string, error) {
	t.Helper()
	_, toEngine := simtest.Pipe(t, sim)
	var out bytes.Buffer
	err := run(t.Context(), append([]string{"probe"}, args...), world{
		out: &out, errs: &out, environ: []string{"ONESLOT_ENGINE=http://engine.test"},
		dial: toEngine.Transport.(*http.Transport).DialContext,
	})
	return out.String(), err
}

// TestProbedSettingsServe: what the probe writes is loaded, served, and splits
// what the engine says as the engine meant it.
func TestProbedSettingsServe(t *testing.T) {
	modelOpens := simengine.Format{Open: "<think>", Close: "</think>"}
	special := simengine.Format{Open: "[THINK]", Close: "[/THINK]", Special: true}
	for _, tt := range []struct {
		name     string
		sim      simengine.Config
		model    string
		format   string
		verified bool
	}{
		{"sglang that splits", simengine.Config{}, "ripple", "ripple", true},
		{"sglang that does not", simengine.Config{Output: simengine.Raw}, "ripple", "ripple", true},
		{"the model opens", simengine.Config{Output: simengine.Raw, Format: modelOpens, Model: "org/Tiny-1"}, "org/Tiny-1", "tiny-1", true},
		{"special markers", simengine.Config{Output: simengine.Raw, Format: special, Model: "m"}, "m", "m", true},
		{"phrases", simengine.Config{Output: simengine.Raw, Format: simengine.Format{Open: "Here is my thought process:", Close: "Here is my response:", Plain: true}, Model: "granite-3.2"}, "granite-3.2", "granite", true},
		{"vllm that splits", simengine.Config{Dialect: simengine.VLLM, Metrics: true}, "ripple", "ripple", true},
		{"vllm that does not", simengine.Config{Dialect: simengine.VLLM, Metrics: true, Output: simengine.Raw, Format: modelOpens}, "ripple", "ripple", true},
		{"llama.cpp that splits", simengine.Config{Dialect: simengine.LlamaCPP}, "ripple", "ripple", true},
		{"llama.cpp that does not", simengine.Config{Dialect: simengine.LlamaCPP, Output: simengine.Raw, Format: modelOpens}, "ripple", "ripple", true},
		{"no thinking", simengine.Config{Thinking: -1, Output: simengine.Raw, Format: modelOpens}, "ripple", "plain", true},
		{"thinking without an end in time", simengine.Config{Thinking: 400, Output: simengine.Raw, Format: modelOpens}, "ripple", "ripple", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "probed.yaml")
				out, err := probing(t, tt.sim, "--write", file)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(out, "oneslot serve --config "+file) {
					t.Errorf("it does not say what to do next:\n%s", out)
				}
				cfg := loaded(t, file)
				row, ok := rows(t, &cfg)[cfg.Engines[0].Format]
				if e := cfg.Engines[0]; !ok || e.Model != tt.model || e.Format != tt.format || row.Verified != tt.verified || e.URL != "http://engine.test" {
					t.Errorf("engine %+v, row %+v", e, row)
				}
				served(t, tt.sim, file)
			})
		})
	}
}

func loaded(t *testing.T, file string) configs.Config {
	t.Helper()
	cfg, err := configs.Load(configs.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func rows(t *testing.T, cfg *configs.Config) map[string]probeRow {
	t.Helper()
	all, err := cfg.FormatRows()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]probeRow{}
	for name, row := range all {
		out[name] = probeRow{row.Verified, row.Open, row.Close}
	}
	return out
}

// probeRow is what of a row matters here.
type probeRow struct {
	Verified    bool
	Open, Close []string
}

// served asks an engine like the probed one through the whole program.
func served(t *testing.T, sim simengine.Config, file string) {
	t.Helper()
	settings, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, sim, string(settings))
	for _, stream := range []bool{true, false} {
		r := p.post(t.Context(), fmt.Sprintf(`{"model":"any","stream":%t,"messages":[{"role":"user","content":"hi"}]}`, stream), nil)
		if r.status != http.StatusNotFound {
			t.Errorf("another model was served with status %d", r.status)
		}
		r = p.post(t.Context(), fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hi"}]}`, modelOf(sim), stream), nil)
		a := r.answer(t)
		runs := p.engine.Stats().Runs
		meant := runs[len(runs)-1]
		if r.status != http.StatusOK || a.finish != "stop" || a.reasoning != meant.Thinking || a.content != strings.TrimSpace(meant.Answer) {
			t.Errorf("status %d, finish %q, thinking\n%q and answer\n%q, meant were\n%q and\n%q", r.status, a.finish, a.reasoning, a.content, meant.Thinking, meant.Answer)
		}
	}
}

func modelOf(sim simengine.Config) string {
	if sim.Model == "" {
		return "ripple"
	}
	return sim.Model
}

// TestProbePrints shows a person each finding with what it rests on.
func TestProbePrints(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		out, err := probing(t, simengine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{
			"engine at http://engine.test\n",
			"\nkind                 sglang\n                     SGLang\n                     | GET /server_info -> 200 {\"max_running_requests\": 1}\n",
			"\nprompt               \"<|im_end|>\\n<|im_start|>assistant\\n<think>\"\n",
			"\nmarkers              <think> … </think>\n",
			"\nprefix_cache         off\n",
			"\ncached_tokens_told   no\n",
			"\nabort                yes\n",
			"with the format row ripple (verified).\n",
		} {
			if !strings.Contains(out, part) {
				t.Errorf("it lacks %q:\n%s", part, out)
			}
		}
		if strings.Contains(out, "Not everything") {
			t.Errorf("it claims to have left something out:\n%s", out)
		}
	})
}

// TestProbePrintsWhatIsMissing, with the way to have it.
func TestProbePrintsWhatIsMissing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		out, err := probing(t, simengine.Config{Dialect: simengine.VLLM}) // without /metrics nobody knows its load
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{
			"Not everything was asked: nobody can tell whether the engine is busy (--busy-ok asks all the same).\n",
			"\nreasoning_parser     not asked\n", "\nmarkers              <think> … ? (not certain)\n", "with the format row ripple (not verified).\n",
		} {
			if !strings.Contains(out, part) {
				t.Errorf("it lacks %q:\n%s", part, out)
			}
		}
	})
	inBubble(t, func(t *testing.T) {
		out, err := probing(t, simengine.Config{Dialect: simengine.VLLM}, "--busy-ok")
		if err != nil || strings.Contains(out, "Not everything") || !strings.Contains(out, "\nmarkers              <think> … </think>\n") {
			t.Errorf("%v:\n%s", err, out)
		}
	})
}

// TestProbeJSON is for machines: one object.
func TestProbeJSON(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		out, err := probing(t, simengine.Config{}, "--json", "--timeout", "1h", "--raw-tokens", "300")
		if err != nil {
			t.Fatal(err)
		}
		var report struct {
			Engine   string
			ReadOnly string `json:"read_only"`
			Findings []probe.Finding
			Format   map[string]any
		}
		decoder := json.NewDecoder(strings.NewReader(out))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&report); err != nil || decoder.More() {
			t.Fatalf("%v in\n%s", err, out)
		}
		if report.Engine != "http://engine.test" || report.ReadOnly != "" || len(report.Findings) < 20 || report.Format["verified"] != true || report.Format["starts_in"] != "thinking" {
			t.Errorf("got %+v", report)
		}
		if !strings.Contains(out, "for 300 tokens") {
			t.Error("--raw-tokens did nothing")
		}
	})
}

// TestProbeStatus: 2 for what the caller can put right on the command line, 1
// when nobody is there.
func TestProbeStatus(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(mine, []byte("listen: 127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"no engine", nil, 2, "--engine"},
		{"an address without a scheme", []string{"--engine", "engine:30000"}, 2, "http://"},
		{"an argument", []string{"http://127.0.0.1:1"}, 2, "takes no argument"},
		{"an unknown flag", []string{"--loud"}, 2, "--help"},
		{"no time", []string{"--engine", "http://127.0.0.1:1", "--timeout", "-1s"}, 2, "--timeout"},
		{"a file that is there", []string{"--engine", "http://127.0.0.1:1", "--write", mine}, 2, "mine.yaml is there already"},
		{"a folder that is not there", []string{"--engine", "http://127.0.0.1:1", "--api-key-file", filepath.Join(dir, "no", "key")}, 2, "--api-key-file"},
		{"nobody there", []string{"--engine", "http://127.0.0.1:1"}, 1, "cannot be reached"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), append([]string{"probe"}, tt.args...), world{out: &out, errs: &out})
			if got := status(err); got != tt.status || !strings.Contains(err.Error(), tt.says) || out.Len() > 0 {
				t.Errorf("status %d, %v, want %d and %q; it printed %q", got, err, tt.status, tt.says, &out)
			}
		})
	}
	if kept, _ := os.ReadFile(mine); string(kept) != "listen: 127.0.0.1:1\n" {
		t.Errorf("the file that was there is now %q", kept)
	}
}

// TestProbeKey is read from a file and written where only the owner reads.
func TestProbeKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dir := t.TempDir()
		key, file := filepath.Join(dir, "key"), filepath.Join(dir, "probed.yaml")
		if err := os.WriteFile(key, []byte("sk-0wn\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := probing(t, simengine.Config{}, "--api-key-file", key, "--write", file)
		if err != nil {
			t.Fatal(err)
		}
		if cfg := loaded(t, file); cfg.Engines[0].APIKey != "sk-0wn" || strings.Contains(out, "sk-0wn") {
			t.Errorf("key %q, printed:\n%s", cfg.Engines[0].APIKey, out)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file is %v, %v", info.Mode(), err)
		}
	})
}

// TestProbeCannotWrite: a finished report is not lost for a file.
func TestProbeCannotWrite(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		out, err := probing(t, simengine.Config{}, "--write", filepath.Join(t.TempDir(), "no", "such", "folder.yaml"))
		if status(err) != 2 || !strings.Contains(out, "\nabort                yes\n") {
			t.Errorf("%v, printed:\n%s", err, out)
		}
	})
}

// TestTerminal: only a device is somebody who watches.
func TestTerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	device, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closeIt(t, file)
		closeIt(t, device)
	})
	if terminal(file) || terminal(new(bytes.Buffer)) || !terminal(device) {
		t.Error("a file, a buffer or a device was taken for something else")
	}
}
