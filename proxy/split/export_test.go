package split

// Waiting is how many entries and bytes of answer wait for each other, for tests.
func (s *Splitter) Waiting() int { return len(s.probs.entries) + len(s.probs.given) }
