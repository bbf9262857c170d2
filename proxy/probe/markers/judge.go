package markers

import (
	"path"
	"slices"
	"strings"

	"oneslot/reasoning"
)

// A Verdict is how a model marks thinking, as far as could be seen.
type Verdict struct {
	// Known is whether any marker was seen; without it all else is empty.
	Known bool
	// Row is the format to use. Its name is that of the shipped row that belongs
	// to the model, else made of the model's name.
	Row reasoning.Format
	// Open and Close are the spellings that were seen, OpenIn and CloseIn say
	// where; empty where one was not seen.
	Open, OpenIn, Close, CloseIn string
	// StartIn says from what Row.StartsIn is known; empty means that nothing showed
	// it: it is then that of the rows with these markers, or auto.
	StartIn string
	// Rows names the given rows that agree with all this, in order.
	Rows []string
}

// family is rows with the same markers, and what was seen of these.
type family struct {
	rows          []reasoning.Format
	open, closer  seen
	worth, length int
}

// Judge compares what was seen with rows.
func Judge(rows []reasoning.Format, s Sight) Verdict {
	best := family{}
	for _, f := range families(rows) {
		splits := slices.ContainsFunc(f.rows, func(r reasoning.Format) bool { return slices.Contains(s.Splits, r.Name) })
		f.open, f.closer = s.opener(f.rows[0].Open, splits), s.closer(f.rows[0].Close, splits)
		// The closer is what tells families apart: an opener may be missing.
		f.worth = f.open.worth() + 2*f.closer.worth()
		f.length = len(f.open.text) + len(f.closer.text)
		if f.worth > best.worth || f.worth == best.worth && f.length > best.length {
			best = f
		}
	}
	if best.worth > 1 { // more than an opener that a source names
		return s.known(best)
	}
	if open, closer := s.own(); open != "" {
		return s.unknown(open, closer)
	}
	return Verdict{}
}

// families groups the rows that have markers by these, in order.
func families(rows []reasoning.Format) []family {
	var out []family
	for _, r := range rows {
		if len(r.Close) == 0 {
			continue
		}
		at := slices.IndexFunc(out, func(f family) bool {
			return slices.Equal(f.rows[0].Open, r.Open) && slices.Equal(f.rows[0].Close, r.Close)
		})
		if at < 0 {
			out = append(out, family{rows: []reasoning.Format{r}})
			continue
		}
		out[at].rows = append(out[at].rows, r)
	}
	return out
}

// known makes the verdict of a family of given rows.
func (s *Sight) known(f family) Verdict {
	v := Verdict{Known: true, Open: f.open.text, OpenIn: f.open.where, Close: f.closer.text, CloseIn: f.closer.where}
	start, from := s.start(f.rows[0].Open, v.Close)
	v.StartIn = from
	base, ok := s.base(f.rows, start)
	for _, r := range f.rows {
		if start == 0 || r.StartsIn == start {
			v.Rows = append(v.Rows, r.Name)
		}
	}
	v.Row = base
	if !ok {
		v.Row = reasoning.Format{Name: s.slug(), Open: base.Open, Close: base.Close, StartsIn: common(f.rows), Channels: base.Channels, MarkersSpecial: base.Channels != nil}
	}
	if start != 0 {
		v.Row.StartsIn, v.Row.Otherwise = start, 0
	}
	v.Row.OffPrefill = s.off(v, v.Row)
	v.Row.Verified = v.Open != "" && v.Close != ""
	return v
}

// common is where the streams of all rows begin, if they agree.
func common(rows []reasoning.Format) reasoning.State {
	if slices.ContainsFunc(rows, func(r reasoning.Format) bool { return r.StartsIn != rows[0].StartsIn }) {
		return reasoning.StartAuto
	}
	return rows[0].StartsIn
}

// base picks the row that belongs to the model: of several the one with the
// longest name, those that begin in the right place first. Where none belongs it
// returns one of the family, and false.
func (s *Sight) base(rows []reasoning.Format, start reasoning.State) (reasoning.Format, bool) {
	best, found := rows[0], false
	rank := func(r reasoning.Format) int {
		n := len(r.Name)
		if r.StartsIn == start {
			n += 1000
		}
		return n
	}
	for _, r := range rows {
		if s.belongs(r.Name) && (!found || rank(r) > rank(best)) {
			best, found = r, true
		}
	}
	return best, found
}

// off is what closes thinking when a run is continued behind it: as it was
// seen, unless the row has more to say than closer and blanks.
func (s *Sight) off(v Verdict, base reasoning.Format) string {
	closer := v.Close
	if closer == "" {
		closer = base.Close[0]
	}
	if gap, ok := s.gap(closer); ok && (base.OffPrefill == "" || slices.Contains(base.Close, strings.Trim(base.OffPrefill, blanks))) {
		return closer + gap
	}
	if base.OffPrefill != "" {
		return base.OffPrefill
	}
	return closer
}

// unknown makes the verdict of markers that no row has. A template alone does
// not prove how the model uses them.
func (s *Sight) unknown(open, closer string) Verdict {
	v := Verdict{Known: true, Open: open, OpenIn: inRendered, Close: closer, CloseIn: inRendered}
	v.Row = reasoning.Format{Name: s.slug(), Open: []string{open}, Close: []string{closer}, StartsIn: reasoning.StartAuto}
	if start, from := s.start(v.Row.Open, closer); start != 0 {
		v.Row.StartsIn, v.StartIn = start, from
	}
	v.Row.OffPrefill = s.off(v, v.Row)
	v.Row.Verified = strings.Contains(s.Raw, closer) || pick(v.Row.Open, ends(s.Tail)) != ""
	return v
}

// slug makes the model's name fit for a row.
func (s *Sight) slug() string {
	name := strings.TrimSuffix(path.Base(strings.ToLower(s.Model)), ".gguf")
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, name)
	if name = strings.Trim(name, "-."); name == "" {
		return "probed"
	}
	return name
}
