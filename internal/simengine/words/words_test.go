package words_test

import (
	"slices"
	"strings"
	"testing"

	"oneslot/internal/simengine/words"
)

func TestSplit(t *testing.T) {
	v := words.New("<think>", "</think>")
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", nil},
		{"words", "so the queue.", []string{"so", " the", " queue", "."}},
		{"long word", "abcdefghijklmnopq", []string{"abcdefgh", "ijklmnop", "q"}},
		{"marks", "<think>a</think>\n\nB", []string{"<think>", "a", "</think>", "\n\n", "B"}},
		{"mark after space", "a <think>", []string{"a", " ", "<think>"}},
		{"half mark", "</thin", []string{"<", "/", "thin"}},
		{"spaces", "a   b", []string{"a", " ", " ", " b"}},
		{"turn", "<|im_start|>user\nhi<|im_end|>\n", []string{"<|im_start|>", "user", "\n", "hi", "<|im_end|>", "\n"}},
		{"line feeds", strings.Repeat("\n", 10), []string{strings.Repeat("\n", 8), "\n\n"}},
		{"emoji", "ok 🙂🙂", []string{"ok", " 🙂", "🙂"}},
		{"bad utf8", "a\xff\xfeb", []string{"a", "\xff", "\xfe", "b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := slices.Collect(v.Split(tc.text))
			if !slices.Equal(got, tc.want) {
				t.Errorf("Split(%q) = %q, want %q", tc.text, got, tc.want)
			}
			if n := v.Count(tc.text); n != len(tc.want) {
				t.Errorf("Count(%q) = %d, want %d", tc.text, n, len(tc.want))
			}
		})
	}
}

func TestMarksWithASharedPrefix(t *testing.T) {
	v := words.New("<t", "<t>")
	if got, want := slices.Collect(v.Split("a<t>b<tc")), []string{"a", "<t>", "b", "<t", "c"}; !slices.Equal(got, want) {
		t.Errorf("Split = %q, want %q: the longest mark wins", got, want)
	}
}

func TestIDs(t *testing.T) {
	v := words.New("<think>")
	text := "<think>so 東京\n\n 🙂<|im_end|>"
	ids := v.IDs(text)
	if len(ids) != v.Count(text) {
		t.Errorf("%d ids, %d tokens", len(ids), v.Count(text))
	}
	if got, ok := v.Text(ids); !ok || got != text {
		t.Errorf("Text(IDs(%q)) = %q, %v", text, got, ok)
	}
	if last := ids[len(ids)-1]; last != words.TurnEndID {
		t.Errorf("end of turn is %d, want %d", last, words.TurnEndID)
	}
	if again := v.IDs(text); !slices.Equal(again, ids) {
		t.Errorf("ids changed: %v, then %v", ids, again)
	}
	next := v.IDs("never seen")[1] + 1
	for _, bad := range [][]int{{-1}, {1 << 20}, {next}} {
		if got, ok := v.Text(bad); ok {
			t.Errorf("Text(%v) = %q, want not ok", bad, got)
		}
	}
}

func TestCompose(t *testing.T) {
	v := words.New("<think>", "</think>")
	for _, style := range []words.Style{words.Thinking, words.Answer} {
		same := strings.ToLower
		if style == words.Answer {
			same = strings.ToUpper
		}
		for n := range 200 {
			for seed := range uint64(5) {
				text := words.Compose(style, n, seed)
				if got := v.Count(text); got != n {
					t.Fatalf("style %d seed %d: %d tokens, want %d: %q", style, seed, got, n, text)
				}
				if same(text) != text {
					t.Fatalf("style %d: wrong case: %q", style, text)
				}
				if strings.TrimSpace(text) != text {
					t.Fatalf("style %d: outer white space: %q", style, text)
				}
			}
		}
	}
	a, b := words.Compose(words.Thinking, 50, 7), words.Compose(words.Thinking, 50, 7)
	if a != b || a == words.Compose(words.Thinking, 50, 8) {
		t.Error("the text does not follow the seed")
	}
	if !strings.Contains(words.Compose(words.Answer, 400, 1), "\n\n") {
		t.Error("a long text has no paragraph")
	}
}

// TestStylesShareNoWord keeps the two voices apart also where there is no case.
func TestStylesShareNoWord(t *testing.T) {
	v := words.New()
	seen := map[string]bool{}
	for piece := range v.Split(words.Compose(words.Thinking, 3000, 1)) {
		seen[strings.TrimSpace(piece)] = true
	}
	for piece := range v.Split(words.Compose(words.Answer, 3000, 1)) {
		if p := strings.TrimSpace(piece); p != "" && seen[p] {
			t.Errorf("both styles say %q", p)
		}
	}
}

func TestPrefixes(t *testing.T) {
	var p words.Prefixes
	if n := p.Longest([]string{"a"}); n != 0 {
		t.Errorf("nothing was added, %d known", n)
	}
	p.Add([]string{"a", "b", "c"})
	p.Add([]string{"a", "x"})
	for _, tc := range []struct {
		tokens string
		want   int
	}{{"a b c", 3}, {"a b c d", 3}, {"a b x", 2}, {"a x", 2}, {"b c", 0}, {"x", 0}, {"", 0}, {"a", 1}} {
		if n := p.Longest(strings.Fields(tc.tokens)); n != tc.want {
			t.Errorf("%q: %d known, want %d", tc.tokens, n, tc.want)
		}
	}
	p.Forget()
	if n := p.Longest([]string{"a"}); n != 0 {
		t.Errorf("forgotten, %d known", n)
	}
}

// TestPrefixesAreBounded adds more than there is room for.
func TestPrefixesAreBounded(t *testing.T) {
	var p words.Prefixes
	many := make([]string, 1<<20+1)
	for i := range many {
		many[i] = "t"
	}
	p.Add(many)
	if n := p.Longest(many); n != len(many) {
		t.Errorf("%d of %d known", n, len(many))
	}
	p.Add([]string{"new"})
	if n := p.Longest(many[:5]); n != 0 {
		t.Errorf("the old ones were not forgotten: %d", n)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("<think>a </think>\n\n 🙂\xff")
	v := words.New("<think>", "</think>")
	f.Fuzz(func(t *testing.T, text string) {
		pieces := slices.Collect(v.Split(text))
		if strings.Join(pieces, "") != text || slices.Contains(pieces, "") {
			t.Errorf("Split(%q) = %q", text, pieces)
		}
	})
}
