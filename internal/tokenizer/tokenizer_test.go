//go:build hftokenizers

package tokenizer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"oneslot/internal/tokenizer"
)

// data is the folder of tokenizer files that come with the library's module.
func data(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(context.Background(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/daulet/tokenizers").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "test", "data")
}

func open(t testing.TB, path string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.New(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tok.Close(); err != nil {
			t.Error(err)
		}
	})
	return tok
}

const llama = "Meta-Llama-3-8B-Instruct.json"

// TestOracle compares with the ids of the library's Python binding, which
// takes any text, NUL bytes included. A NUL byte may have another id here, but
// never another number of tokens.
func TestOracle(t *testing.T) {
	file, err := os.Open("testdata/oracle.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	folder := data(t)
	opened := map[string]*tokenizer.Tokenizer{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var want struct {
			Tokenizer, Text string
			IDs             []uint32
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		tok := opened[want.Tokenizer]
		if tok == nil {
			tok = open(t, filepath.Join(folder, want.Tokenizer))
			opened[want.Tokenizer] = tok
		}
		got, err := tok.Encode(t.Context(), want.Text)
		if err != nil {
			t.Fatalf("%s: %q: %v", want.Tokenizer, want.Text, err)
		}
		n, err := tok.Count(t.Context(), want.Text)
		if err != nil || n != len(want.IDs) {
			t.Errorf("%s: %q has %d tokens, %v; want %d", want.Tokenizer, want.Text, n, err, len(want.IDs))
		}
		if !strings.Contains(want.Text, "\x00") && !slices.Equal(got, want.IDs) {
			t.Errorf("%s: %q = %v, want %v", want.Tokenizer, want.Text, got, want.IDs)
		}
	}
	if len(opened) != 3 {
		t.Errorf("%d tokenizers tried, want 3", len(opened))
	}
}

// TestLongText is one that a truncation in the file would cut.
func TestLongText(t *testing.T) {
	folder := data(t)
	text, err := os.ReadFile(filepath.Join(folder, "long_text.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{llama: 27_315, "all-minilm-l6-v2.json": 33_824} {
		if got, err := open(t, filepath.Join(folder, name)).Count(t.Context(), string(text)); err != nil || got != want {
			t.Errorf("%s: %d tokens, %v; want %d", name, got, err, want)
		}
	}
}

// TestInvalidUTF8 counts each broken sequence as a replacement character.
func TestInvalidUTF8(t *testing.T) {
	tok := open(t, filepath.Join(data(t), llama))
	for broken, mended := range map[string]string{
		"a\xffb":           "a\ufffdb",
		"cut \xe6\x97":     "cut \ufffd",
		"\xf0\x9f\x9a x":   "\ufffd x",
		"nul\x00 and \xff": "nul\x01 and \ufffd",
	} {
		got, err := tok.Encode(t.Context(), broken)
		if err != nil {
			t.Fatal(err)
		}
		want, err := tok.Encode(t.Context(), mended)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q = %v, %v; want that of %q, %v", broken, got, err, mended, want)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := open(t, filepath.Join(data(t), llama))
	want, err := tok.Count(t.Context(), "So the queue. Hmm, the token count.")
	if err != nil || want < 5 {
		t.Fatal(want, err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				got, err := tok.Count(t.Context(), "So the queue. Hmm, the token count.")
				if err == nil && got != want || err != nil && !errors.Is(err, tokenizer.ErrClosed) {
					t.Errorf("%d, %v; want %d or ErrClosed", got, err, want)
				}
			}
		})
	}
	all.Go(func() { _ = tok.Close() }) // in the middle of it
	all.Wait()
	if _, err := tok.Count(t.Context(), "x"); !errors.Is(err, tokenizer.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestCancelled(t *testing.T) {
	tok := open(t, filepath.Join(data(t), llama))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tok.Count(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
}

func TestNewFails(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, path := range map[string]string{
		"missing":         filepath.Join(dir, "none.json"),
		"a folder":        dir,
		"empty":           write("empty.json", ""),
		"no JSON":         write("text.json", "hello"),
		"another JSON":    write("other.json", `{"model_type":"ripple"}`),
		"only truncation": write("trunc.json", `{"truncation":{"max_length":1}}`),
	} {
		tok, err := tokenizer.New(path)
		if !errors.Is(err, tokenizer.ErrFile) || tok != nil {
			t.Errorf("%s: %v, %v; want ErrFile", name, tok, err)
		}
	}
}

func TestAvailable(t *testing.T) {
	if !tokenizer.Available {
		t.Error("not available in a program with the native library")
	}
}

func BenchmarkCount(b *testing.B) {
	folder := data(b)
	text, err := os.ReadFile(filepath.Join(folder, "long_text.txt"))
	if err != nil {
		b.Fatal(err)
	}
	tok := open(b, filepath.Join(folder, llama))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := tok.Count(b.Context(), string(text)); err != nil {
			b.Fatal(err)
		}
	}
}
