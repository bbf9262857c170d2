package words

import (
	"math/rand/v2"
	"strings"
)

// Style is the voice of a composed text.
type Style int

// The two voices of a reply.
const (
	Thinking Style = iota // lower case, hiragana, sentences end in a full stop
	Answer                // UPPER CASE, KATAKANA, sentences end in an exclamation mark
)

// lexicon holds the words of a style: how sentences begin, what they are made
// of (each one token together with its leading space), and what ends them.
type lexicon struct {
	starts, middles []string
	end             string
}

func (s Style) lexicon() lexicon {
	if s == Answer {
		return lexicon{
			starts:  strings.Fields("OK RED BLUE GREEN YES ZÜRICH ΩMEGA"),
			middles: strings.Fields("MEETS BEATS AVOIDS SEVEN NINE TEN ÄPFEL GRÖSSE ОТВЕТ トウキョウ カタカナ 🙂 🚀 THE SLOT QUEUE RIPPLE COUNTS ÉTÉ"),
			end:     "!",
		}
	}
	return lexicon{
		starts:  strings.Fields("so hmm perhaps first now maybe über"),
		middles: strings.Fields("the queue a slot token needs follows from an earlier step zürich naïve größe мысль ことば ひらがな 🤔 💭 is close to my plan asks about"),
		end:     ".",
	}
}

// Compose returns a text of exactly n tokens by the rule of Split. It neither
// begins nor ends with white space, and ends with its style's full stop when n
// is at least 1. The same seed gives the same text.
func Compose(style Style, n int, seed uint64) string {
	if n <= 0 {
		return ""
	}
	lex := style.lexicon()
	rng := rand.New(rand.NewPCG(seed, uint64(style)))
	var b strings.Builder
	for left := n - 1; left > 0; {
		left -= sentence(&b, lex, left, rng)
	}
	b.WriteString(lex.end)
	return b.String()
}

// sentence writes at most left tokens and returns how many. Every sentence
// after the first is set apart from the one before by a space, or now and then
// by an empty line, which is a token of its own.
func sentence(b *strings.Builder, lex lexicon, left int, rng *rand.Rand) int {
	wrote := 0
	first := b.Len() == 0
	if !first {
		b.WriteString(lex.end)
		wrote++
	}
	paragraph := !first && left > 4 && rng.IntN(6) == 0
	for i := range 4 + rng.IntN(7) {
		if wrote == left {
			return wrote
		}
		word := lex.middles[rng.IntN(len(lex.middles))]
		switch {
		case i == 0 && paragraph:
			b.WriteString("\n\n")
			wrote++
			word = lex.starts[rng.IntN(len(lex.starts))]
		case i == 0:
			word = lex.starts[rng.IntN(len(lex.starts))]
			if !first {
				b.WriteByte(' ')
			}
		default:
			b.WriteByte(' ')
		}
		b.WriteString(word)
		wrote++
	}
	return wrote
}
