package words

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The tokens every vocabulary has, in the manner of chat templates.
const (
	TurnStart = "<|im_start|>" // opens a message
	TurnEnd   = "<|im_end|>"   // closes a message and ends a generation

	// TurnEndID is the token id of TurnEnd, the value of matched_stop when a
	// generation ends by itself.
	TurnEndID = 2

	// longest is how many letters one token holds.
	longest = 8
)

// A Vocab cuts text into tokens and numbers them. It is safe for concurrent
// use; the zero value is not usable, New makes one.
type Vocab struct {
	marks []string

	mu    sync.Mutex // guards ids and texts
	ids   map[string]int
	texts []string
}

// New returns a Vocab in which each of marks is one token wherever it stands,
// beside TurnStart and TurnEnd. Empty marks are ignored.
func New(marks ...string) *Vocab {
	all := append([]string{TurnStart, TurnEnd}, marks...)
	v := &Vocab{ids: map[string]int{}}
	v.id("")
	for _, m := range all {
		if m == "" || slices.Contains(v.marks, m) {
			continue
		}
		v.id(m)
		v.marks = append(v.marks, m)
	}
	return v
}

// Split yields the tokens of text in order. Joined they are text again.
//
// The rule: a mark is one token; a run of line feeds is one; a run of up to
// eight letters and digits is one, and so is any other character; a single
// space belongs to what follows it.
func (v *Vocab) Split(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		next := make([]int, len(v.marks))
		for at := 0; at < len(text); {
			pos, mark := v.nearest(text, at, next)
			for at < pos {
				n := step(text[at:pos])
				if !yield(text[at : at+n]) {
					return
				}
				at += n
			}
			if mark != "" && !yield(mark) {
				return
			}
			at += len(mark)
		}
	}
}

// nearest finds the first mark at or after at. next remembers, for each mark,
// where it was last found, so that a long text is searched once per mark.
func (v *Vocab) nearest(text string, at int, next []int) (pos int, mark string) {
	pos = len(text)
	for i, m := range v.marks {
		if next[i] < at || at == 0 {
			next[i] = len(text)
			if j := strings.Index(text[at:], m); j >= 0 {
				next[i] = at + j
			}
		}
		if next[i] < pos || next[i] == pos && len(m) > len(mark) && next[i] < len(text) {
			pos, mark = next[i], m
		}
	}
	return pos, mark
}

// step returns the length in bytes of the first token of s, which is not empty
// and holds no mark.
func step(s string) int {
	lead := 0
	if s[0] == ' ' && len(s) > 1 {
		if r, _ := utf8.DecodeRuneInString(s[1:]); !unicode.IsSpace(r) {
			lead = 1
		}
	}
	belongs := wordRune
	r, size := utf8.DecodeRuneInString(s[lead:])
	switch {
	case r == '\n':
		belongs = lineFeed
	case !wordRune(r):
		return lead + size
	}
	end := lead + size
	for range longest - 1 {
		r, size := utf8.DecodeRuneInString(s[end:])
		if size == 0 || !belongs(r) {
			break
		}
		end += size
	}
	return end
}

func lineFeed(r rune) bool { return r == '\n' }

func wordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r))
}

// Count returns the number of tokens in text.
func (v *Vocab) Count(text string) int {
	n := 0
	for range v.Split(text) {
		n++
	}
	return n
}

// IDs returns the tokens of text as numbers. A token keeps its number for the
// life of the Vocab.
func (v *Vocab) IDs(text string) []int {
	ids := []int{}
	v.mu.Lock()
	defer v.mu.Unlock()
	for piece := range v.Split(text) {
		ids = append(ids, v.id(piece))
	}
	return ids
}

// Text returns the text of ids. The result is false when one of them was never
// given out by IDs.
func (v *Vocab) Text(ids []int) (string, bool) {
	var b strings.Builder
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range ids {
		if id < 0 || id >= len(v.texts) {
			return "", false
		}
		b.WriteString(v.texts[id])
	}
	return b.String(), true
}

// id returns the number of piece, a new one if need be. The caller holds mu.
func (v *Vocab) id(piece string) int {
	id, ok := v.ids[piece]
	if !ok {
		id = len(v.texts)
		piece = strings.Clone(piece)
		v.ids[piece] = id
		v.texts = append(v.texts, piece)
	}
	return id
}
