package split

import "strings"

// A stopper cuts the answer before the first stop string. Of two that begin at
// the same place either gives the same cut.
type stopper struct {
	stops []string
	held  string // a suffix that may be the beginning of a stop string
	met   bool
}

func newStopper(stops []string) stopper { return stopper{stops: stops} }

// feed returns the text that is certain to stand before any stop string.
func (s *stopper) feed(text string) string {
	if s.met {
		return ""
	}
	if len(s.stops) == 0 {
		return text
	}
	text = s.held + text
	s.held = ""
	first := -1
	for _, stop := range s.stops {
		if i := strings.Index(text, stop); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first >= 0 {
		s.met = true
		return text[:first]
	}
	keep := 0
	for _, stop := range s.stops {
		keep = max(keep, overlap(text, stop))
	}
	s.held = text[len(text)-keep:]
	return text[:len(text)-keep]
}

func (s *stopper) close() string {
	held := s.held
	s.held = ""
	return held
}

// overlap returns the length of the longest proper prefix of word that text ends with.
func overlap(text, word string) int {
	for n := min(len(word)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, word[:n]) {
			return n
		}
	}
	return 0
}
