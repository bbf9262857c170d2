package reasoning_test

import (
	"strings"
	"testing"

	"oneslot/reasoning"
)

// prose has no marker and no first byte of one; code has many first bytes.
var (
	prose = strings.Repeat("The second part asks about one slot, so I count what each request holds.\n", 1<<20/73)
	code  = strings.Repeat("if a < b { out = append(out, <-ch) } // <T> of List<Map<K, V>>\n", 1<<20/63)
)

// pieces cuts text into pieces of n bytes.
func pieces(text string, n int) []string {
	var list []string
	for ; len(text) > n; text = text[n:] {
		list = append(list, text[:n])
	}
	return append(list, text)
}

// run measures one parser over the pieces, again and again.
func run(b *testing.B, f reasoning.Format, start reasoning.State, list []string) {
	size := 0
	for _, piece := range list {
		size += len(piece)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	p := reasoning.New(&f, start)
	for b.Loop() {
		p.Reset(&f, start)
		for _, piece := range list {
			p.Feed(piece)
		}
		p.Close()
	}
}

// BenchmarkFloor looks for the closer in the same text and does nothing else.
func BenchmarkFloor(b *testing.B) {
	closer := pool[0].Close[0]
	for name, text := range map[string]string{"prose": prose, "code": code} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if i := strings.Index(text, closer); i >= 0 {
					b.Fatal("found at", i)
				}
			}
		})
	}
	b.Run("prose in 4 bytes", func(b *testing.B) {
		list := pieces(prose, 4)
		b.SetBytes(int64(len(prose)))
		for b.Loop() {
			for _, piece := range list {
				if i := strings.Index(piece, closer); i >= 0 {
					b.Fatal("found at", i)
				}
			}
		}
	})
}

// BenchmarkWhole reads a mebibyte in one piece.
func BenchmarkWhole(b *testing.B) {
	tags, control := pool[0], pool[11]
	b.Run("thinking prose", func(b *testing.B) { run(b, tags, reasoning.StartThinking, []string{prose}) })
	b.Run("thinking code", func(b *testing.B) { run(b, tags, reasoning.StartThinking, []string{code}) })
	b.Run("answer", func(b *testing.B) { run(b, tags, reasoning.StartMidAnswer, []string{code}) })
	b.Run("many markers", func(b *testing.B) { run(b, control, reasoning.StartThinking, []string{prose}) })
	channels := pool[15]
	b.Run("channels, thinking", func(b *testing.B) { run(b, channels, reasoning.StartThinking, []string{prose}) })
	b.Run("channels, answer", func(b *testing.B) { run(b, channels, reasoning.StartMidAnswer, []string{prose}) })
	b.Run("other first bytes", func(b *testing.B) {
		f := reasoning.Format{Open: []string{"◁t▷"}, Close: []string{"◁/t▷", "[/T]", "<|c|>"}}
		run(b, f, reasoning.StartThinking, []string{prose})
	})
}

// BenchmarkPieces reads the same as tokens come, and in lines.
func BenchmarkPieces(b *testing.B) {
	tags := pool[0]
	b.Run("thinking prose in 4 bytes", func(b *testing.B) { run(b, tags, reasoning.StartThinking, pieces(prose, 4)) })
	b.Run("thinking code in 4 bytes", func(b *testing.B) { run(b, tags, reasoning.StartThinking, pieces(code, 4)) })
	b.Run("channels in 4 bytes", func(b *testing.B) { run(b, pool[15], reasoning.StartThinking, pieces(prose, 4)) })
	b.Run("answer in 4 bytes", func(b *testing.B) { run(b, tags, reasoning.StartMidAnswer, pieces(prose, 4)) })
	b.Run("thinking prose in 1 byte", func(b *testing.B) { run(b, tags, reasoning.StartThinking, pieces(prose, 1)) })
	b.Run("thinking prose in 100 bytes", func(b *testing.B) { run(b, tags, reasoning.StartThinking, pieces(prose, 100)) })
}

// BenchmarkNew makes a parser, and makes an old one new.
func BenchmarkNew(b *testing.B) {
	f := pool[11]
	b.Run("New", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			reasoning.New(&f, reasoning.StartThinking)
		}
	})
	b.Run("Reset", func(b *testing.B) {
		b.ReportAllocs()
		p := reasoning.New(&f, reasoning.StartThinking)
		for b.Loop() {
			p.Reset(&f, reasoning.StartThinking)
		}
	})
}
