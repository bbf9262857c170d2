package reasoning_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"oneslot/reasoning"
)

// rows is the file of formats that the program ships.
const rows = "../configs/formats.yaml"

// decode reads YAML and refuses keys it does not know.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("%s: %v", file, err)
	}
}

func shipped(t *testing.T) []reasoning.Format {
	t.Helper()
	var file struct {
		Formats []reasoning.Format `yaml:"formats"`
	}
	decode(t, rows, &file)
	if len(file.Formats) == 0 {
		t.Fatalf("%s holds no formats", rows)
	}
	return file.Formats
}

// sample is a stream in a shipped format with the split that is wanted. It
// begins where the row says, unless StartsIn or the prefill After says otherwise.
type sample struct {
	Name     string          `yaml:"name"`
	StartsIn reasoning.State `yaml:"starts_in"`
	After    string          `yaml:"after"`
	Stream   string          `yaml:"stream"`
	Thinking string          `yaml:"thinking"`
	Answer   string          `yaml:"answer"`
}

func (s sample) start(f reasoning.Format) reasoning.State {
	if s.StartsIn != 0 {
		return s.StartsIn
	}
	return reasoning.StartAfter(&f, s.After, f.StartsIn)
}

// TestSamples splits the samples of every shipped format at every cut.
func TestSamples(t *testing.T) {
	named := map[string]bool{}
	for _, f := range shipped(t) {
		wantValid(t, f)
		if named[f.Name] {
			t.Errorf("two rows named %s", f.Name)
		}
		named[f.Name] = true
		var samples []sample
		decode(t, filepath.Join("testdata/samples", f.Name+".yaml"), &samples)
		if len(samples) == 0 {
			t.Errorf("%s has no sample", f.Name)
		}
		for _, s := range samples {
			t.Run(f.Name+"/"+s.Name, func(t *testing.T) {
				start := s.start(f)
				whole := judge(f, start, s.Stream)
				if whole.thinking != s.Thinking || whole.answer != s.Answer {
					t.Fatalf("the oracle says %+v", whole)
				}
				everyCut(s.Stream, func(pieces ...string) {
					if got := split(t, f, start, pieces...); got != whole {
						t.Fatalf("%q = %+v, want %+v", pieces, got, whole)
					}
				})
			})
		}
	}
	files, err := filepath.Glob("testdata/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".yaml"); !named[name] {
			t.Errorf("%s: no such format", file)
		}
	}
}

// TestRippleRow is what the program falls back to for the model it was made for.
func TestRippleRow(t *testing.T) {
	for _, f := range shipped(t) {
		if f.Name != "ripple" {
			continue
		}
		if f.StartsIn != reasoning.StartThinking || f.Verified || f.OffPrefill == "" || f.Temperature == nil || *f.Temperature != 0 {
			t.Errorf("%+v", f)
		}
		if got := reasoning.StartAfter(&f, f.OffPrefill, f.StartsIn); got != reasoning.StartClosed {
			t.Errorf("its off_prefill leads to %v", got)
		}
		return
	}
	t.Error("no row named ripple")
}

// TestNoMarkerInCode: formats are data.
func TestNoMarkerInCode(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range shipped(t) {
			for _, set := range sets(f) {
				for _, m := range set {
					// A name of a channel is a word like others, but for its quotes.
					if strings.Trim(m, "abcdefghijklmnopqrstuvwxyz=") == "" {
						m = `"` + m + `"`
					}
					if bytes.Contains(code, []byte(m)) {
						t.Errorf("%s holds %q, a marker of %s", file, m, f.Name)
					}
				}
			}
		}
	}
}
