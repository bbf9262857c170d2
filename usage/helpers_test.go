package usage_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"oneslot/usage"
)

// capitals is a tokenizer whose tokens all begin with a capital letter or an
// angle bracket, so that every text has one tokenization: "</T>" is the three
// tokens "</", "T" and ">", "<think" is one.
type capitals struct{ asked *int }

func (c capitals) Count(ctx context.Context, text string) (int, error) {
	if c.asked != nil {
		*c.asked++
	}
	n := 0
	for _, r := range text {
		if r >= 'A' && r <= 'Z' || r == '<' || r == '>' {
			n++
		}
	}
	return n, ctx.Err()
}

// bytesEach is a tokenizer of one token a byte: far too many for any model.
type bytesEach struct{}

func (bytesEach) Count(_ context.Context, text string) (int, error) { return len(text), nil }

// down is a tokenizer that fails.
type down struct{}

func (down) Count(context.Context, string) (int, error) {
	return 0, errors.New("tokenize: connection refused")
}

func num(n int, source usage.Source) usage.Count { return usage.Count{N: n, Source: source} }

var unknown = usage.Count{Source: usage.Unknown}

// totals parses a usage object that must be good.
func totals(t testing.TB, raw string) *usage.Totals {
	t.Helper()
	if raw == "" {
		return nil
	}
	got, ok := usage.ParseTotals(raw)
	if !ok {
		t.Fatalf("ParseTotals(%s) says nothing", raw)
	}
	return &got
}

// events reads the data of each event of a recorded stream.
func events(t testing.TB, name string) []gjson.Result {
	t.Helper()
	file, err := os.Open("testdata/" + name + ".sse")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var list []gjson.Result
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "[DONE]" {
			list = append(list, gjson.Parse(data))
		}
	}
	return list
}

// piece is what a proxy would make of an event of an engine that splits, or,
// with raw, of one that does not.
func piece(t testing.TB, event gjson.Result, raw bool) usage.Piece {
	delta := event.Get("choices.0.delta")
	p := usage.Piece{Thinking: delta.Get("reasoning_content").String() + delta.Get("reasoning").String()}
	if raw {
		p.Raw = delta.Get("content").String()
	} else {
		p.Answer = delta.Get("content").String()
	}
	if u := event.Get("usage"); u.IsObject() {
		p.Totals = totals(t, u.Raw)
	}
	p.EndToken = event.Get("choices.0.matched_stop").Type == gjson.Number
	return p
}

// check compares the figures that matter and the rule that holds for all.
func check(t *testing.T, got usage.Report, thinking, answer, completion usage.Count) {
	t.Helper()
	for _, f := range []struct {
		name      string
		got, want usage.Count
	}{
		{"thinking", got.Tokens.Thinking, thinking},
		{"answer", got.Tokens.Answer, answer},
		{"completion", got.Tokens.Completion, completion},
	} {
		if f.got != f.want {
			t.Errorf("%s = %+v, want %+v", f.name, f.got, f.want)
		}
	}
	sums(t, got.Tokens)
}

func sums(t *testing.T, k usage.Tokens) {
	t.Helper()
	if k.Completion.Known() && k.Thinking.N+k.Answer.N != k.Completion.N {
		t.Errorf("thinking %d + answer %d is not completion %d", k.Thinking.N, k.Answer.N, k.Completion.N)
	}
}
