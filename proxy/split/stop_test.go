package split_test

import (
	"strings"
	"testing"

	"oneslot/internal/openai"
	"oneslot/proxy/split"
	"oneslot/reasoning"
)

// cutAt is where the answer must end: before the stop string that begins first.
func cutAt(answer string, stops []string) (string, bool) {
	first := -1
	for _, s := range stops {
		if i := strings.Index(answer, s); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first < 0 {
		return answer, false
	}
	return answer[:first], true
}

func TestStopCutsTheAnswer(t *testing.T) {
	f := formats[0]
	for _, x := range []struct {
		answer string
		stops  []string
	}{
		{"one END two END", []string{"END"}},
		{"END", []string{"END"}},
		{"EN", []string{"END"}},
		{"ENENEND", []string{"END"}},
		{"ENDEN", []string{"NDE", "END"}},
		{"aab", []string{"ab"}},
		{"xabcy", []string{"abc", "b"}},     // b is whole before abc is
		{"xabdy", []string{"abc", "b"}},     // abc began, and was none
		{"xab", []string{"abc", "b"}},       // abc began, and the end came
		{"xabcabd", []string{"abd", "bca"}}, // overlapping each other
		{"xaaaab", []string{"aab", "aaa"}},
		{"line\nnext\n\nlast", []string{"\n\n", "next"}},
		{"Größe 日本語", []string{"日本"}},
		{"nothing", []string{"x", "nothingness"}},
	} {
		want, met := cutAt(x.answer, x.stops)
		cfg := split.Config{Format: &f, Start: reasoning.StartThinking, Stop: x.stops}
		check := func(how string, chunks []openai.Chunk) {
			t.Helper()
			got := run(t, cfg, chunks)
			// Stop strings in thinking are text.
			if got.answer != want || got.stopped != met || got.thinking != "END abc next" {
				t.Errorf("%q with %q, %s: got %+v, want %q %v", x.answer, x.stops, how, got, want, met)
			}
		}
		raw := "END abc next</think>"
		for a := range len(x.answer) + 1 {
			for b := a; b <= len(x.answer); b++ {
				check("cut", append(content(raw), content(x.answer, a, b)...))
			}
		}
		check("byte by byte", content(raw+x.answer, each(raw+x.answer)...))
		check("split by the engine", append(thinking("END abc next"), content(x.answer, each(x.answer)...)...))
	}
}

// TestStopEndsBothChannels: what comes after a stop string reaches nobody.
func TestStopEndsBothChannels(t *testing.T) {
	f := formats[0]
	got := run(t, split.Config{Format: &f, Start: reasoning.StartThinking, Stop: []string{"|"}},
		[]openai.Chunk{{Reasoning: "a"}, {Content: "b|c"}, {Reasoning: "d"}, {Content: "e"}})
	if want := (result{thinking: "a", answer: "b", stopped: true}); !same(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestStopHoldsLittle: no more than the longest stop string less a byte waits.
func TestStopHoldsLittle(t *testing.T) {
	f := formats[0]
	s := split.New(split.Config{Format: &f, Start: reasoning.StartMidAnswer, Stop: []string{"<end>"}})
	given := 0
	for i := range 1000 {
		for _, p := range s.Add(&openai.Chunk{Content: "<end"[i%4 : i%4+1]}) {
			given += len(p.Text)
		}
		if held := i + 1 - given; held > 4 {
			t.Fatalf("%d bytes are held", held)
		}
	}
}

// FuzzStop holds the cut to strings.Index for any answer, stops and cutting.
func FuzzStop(f *testing.F) {
	f.Add("xabcabd", "abd", "bca", uint8(2))
	f.Add("aaaa", "aa", "a", uint8(1))
	f.Fuzz(func(t *testing.T, answer, one, two string, cut uint8) {
		var stops []string
		for _, s := range []string{one, two} {
			if s != "" {
				stops = append(stops, s)
			}
		}
		want, met := cutAt(answer, stops)
		cfg := split.Config{Format: &formats[0], Start: reasoning.StartMidAnswer, Stop: stops}
		for _, chunks := range [][]openai.Chunk{content(answer), content(answer, int(cut)), content(answer, each(answer)...)} {
			if got := run(t, cfg, chunks); got.answer != want || got.stopped != met {
				t.Fatalf("%q with %q: got %+v, want %q %v", answer, stops, got, want, met)
			}
		}
	})
}
