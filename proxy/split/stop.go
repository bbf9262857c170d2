package split

import "strings"

// A stopper cuts the answer before the first stop string: the one that begins
// first. Text is held back while it may be the beginning of one, also when
// another one has already been met further on.
type stopper struct {
	stops []string
	held  string // a suffix that may be the beginning of a stop string
	met   string // the stop string that was met
}

// feed returns the text that is certain to stand before any stop string.
func (s *stopper) feed(text string) string {
	if s.met != "" {
		return ""
	}
	if len(s.stops) == 0 {
		return text
	}
	text = s.held + text
	open := len(text) // where a stop string may begin that is not yet whole
	for _, stop := range s.stops {
		open = min(open, len(text)-overlap(text, stop))
	}
	if first, stop := s.find(text); first >= 0 && first <= open {
		s.met, s.held = stop, ""
		return text[:first]
	}
	s.held = text[open:]
	return text[:open]
}

// find returns where the first whole stop string begins in text, or -1, and
// which it is.
func (s *stopper) find(text string) (first int, met string) {
	first = -1
	for _, stop := range s.stops {
		if i := strings.Index(text, stop); i >= 0 && (first < 0 || i < first) {
			first, met = i, stop
		}
	}
	return first, met
}

// close returns what was held back, now that nothing more can complete it.
func (s *stopper) close() string {
	held := s.held
	s.held = ""
	if first, stop := s.find(held); first >= 0 {
		s.met = stop
		return held[:first]
	}
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
