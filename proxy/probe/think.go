package probe

import (
	"context"
	"fmt"
	"strings"

	"oneslot/internal/openai"
	"oneslot/proxy/engine"
	"oneslot/proxy/probe/markers"
)

const plainTokens = 32

// plainReply asks the test question as a client would, and says who splits.
func (p *prober) plainReply(ctx context.Context) {
	p.plain = p.ask(ctx, question{path: chatPath, limit: plainTokens, members: []openai.Member{messages(user(testQuestion))}})
	var shows []Evidence
	if p.settings.Get("reasoning_parser").Exists() {
		shows = append(shows, p.paper.showing("reasoning_parser"))
	}
	r := p.plain
	if r != nil {
		shows = append(shows, r.evidence())
	}
	switch {
	case r != nil && r.field != "":
		p.add(Parser, found(r.field, "the engine splits thinking from the answer itself, and its split is used"), shows...)
	case r == nil && p.sight.Parser != "":
		p.add(Parser, found(p.sight.Parser, "by its settings; no test request was sent: "+p.report.ReadOnly), shows...)
	case r == nil:
		p.add(Parser, skipped(p.report.ReadOnly), shows...)
	case !r.done():
		p.add(Parser, unknown("the test request failed"), shows...)
	default:
		p.add(Parser, absent("the reply came in one text, so thinking is split by the format row"), shows...)
	}
}

// rawMembers are what makes an engine leave the markers in the text; ok is
// false where a request cannot ask for it.
func rawMembers(dialect string) (set []openai.Member, ok bool) {
	switch dialect {
	case engine.SGLang:
		return []openai.Member{{Key: "separate_reasoning", Raw: "false"}, {Key: "skip_special_tokens", Raw: "false"}, {Key: "no_stop_trim", Raw: "true"}}, true
	case engine.LlamaCpp:
		return []openai.Member{{Key: "reasoning_format", Raw: `"none"`}}, true
	case engine.VLLM: // shows special tokens, but splits all the same
		return []openai.Member{{Key: "skip_special_tokens", Raw: "false"}}, false
	}
	return nil, false
}

// rawReply asks the same for text with its markers, and longer.
func (p *prober) rawReply(ctx context.Context) {
	set, switches := rawMembers(p.info.Dialect.Name)
	if p.plain != nil && p.plain.field != "" && !switches {
		p.add(Raw, absent("a request cannot switch the engine's own split off, so the markers do not show in its output"))
		return
	}
	p.raw = p.ask(ctx, question{path: chatPath, limit: p.cfg.RawTokens, members: append([]openai.Member{messages(user(testQuestion))}, set...)})
	r := p.raw
	switch {
	case r == nil:
		p.add(Raw, skipped(p.report.ReadOnly))
	case !r.done():
		p.add(Raw, unknown("the test request failed"), r.evidence())
	case r.field != "":
		p.add(Raw, absent("the engine splits whatever the request says, so the markers do not show in its output"), r.evidence())
	default:
		p.sight.Raw = r.content
		p.add(Raw, found(bothEnds(r.content), "the reply with its markers left in"), r.evidence())
	}
}

// judge compares what was seen with the known rows.
func (p *prober) judge() {
	p.verdict = markers.Judge(p.cfg.Rows, p.sight)
	v := &p.verdict
	if !v.Known {
		p.unmarked()
		return
	}
	p.marked()
	if v.StartIn != "" {
		p.add(StartsIn, found(v.Row.StartsIn.String(), v.StartIn))
	} else {
		p.add(StartsIn, said{Unknown, v.Row.StartsIn.String(), "nothing shows it"})
	}
}

// marked reports the markers that were seen, and where.
func (p *prober) marked() {
	v := &p.verdict
	s := said{Found, "? … ?", "around thinking"}
	var shows []Evidence
	if v.Open != "" {
		s.value = v.Open + strings.TrimPrefix(s.value, "?")
		shows = append(shows, Evidence{"opener: " + v.OpenIn, fmt.Sprintf("%q", v.Open)})
	} else {
		s.detail += "; an opener was not seen"
	}
	if v.Close != "" {
		s.value = strings.TrimSuffix(s.value, "?") + v.Close
		shows = append(shows, Evidence{"closer: " + v.CloseIn, fmt.Sprintf("%q", v.Close)})
	} else {
		s.detail += fmt.Sprintf("; the closer was not seen, %q is that of the rows that begin so", v.Row.Close[0])
	}
	if !v.Row.Verified {
		s.state = Unknown
	}
	p.add(Markers, s, shows...)
}

// unmarked reports that no marker was seen, with the raw ends for people.
func (p *prober) unmarked() {
	var shows []Evidence
	if p.sight.Raw != "" {
		shows = append(shows, Evidence{"raw output", bothEnds(p.sight.Raw)})
	}
	if p.sight.Tail != "" {
		shows = append(shows, Evidence{"the prompt ends with", lastEnd(p.sight.Tail)})
	}
	switch {
	case p.plain != nil && p.plain.field != "":
		p.add(Markers, unknown("not needed while the engine splits; without them thinking cannot be cut short"), shows...)
	case p.raw != nil && p.raw.finish == "stop" && p.raw.field == "":
		p.add(Markers, absent("the model answered and ended without a known marker: it does not seem to think"), shows...)
	case p.raw != nil && p.raw.done():
		p.add(Markers, unknown(fmt.Sprintf("no known marker within %d tokens: look at the ends, and write a row by hand", p.cfg.RawTokens)), shows...)
	default:
		p.add(Markers, unknown("nothing showed them"), shows...)
	}
}

// markerTokens says whether each marker is one token, which the engines' own
// counts of thinking rely on.
func (p *prober) markerTokens(ctx context.Context) {
	var counts []string
	var shows []Evidence
	one := true
	for _, m := range []string{p.verdict.Open, p.verdict.Close} {
		if m == "" {
			continue
		}
		n, err := p.engine.Count(ctx, m)
		if err != nil || n == 0 {
			p.add(MarkerTokens, unknown("the engine does not count tokens"))
			return
		}
		one = one && n == 1
		counts = append(counts, fmt.Sprint(n))
		shows = append(shows, Evidence{fmt.Sprintf("POST /tokenize %q", m), fmt.Sprintf("%d token(s)", n)})
	}
	switch {
	case counts == nil:
		p.add(MarkerTokens, skipped("no marker was seen"))
	case one:
		p.add(MarkerTokens, found(strings.Join(counts, ", "), "each marker is a token of its own"), shows...)
	default:
		p.add(MarkerTokens, found(strings.Join(counts, ", "), "a marker is ordinary text, so the engine's own count of thinking tokens may be wrong"), shows...)
	}
}

// special finds out whether the engine leaves the markers out of the text
// unless it is asked not to.
func (p *prober) special(ctx context.Context) {
	row := &p.verdict.Row
	set, _ := rawMembers(p.info.Dialect.Name)
	marker := p.markerInRaw()
	f, _ := p.report.Find(MarkerTokens)
	plain := strings.Trim(f.Value, "1, ") != "" // more than one token
	hides := len(set) > 0 && p.info.Dialect.Name != engine.LlamaCpp
	switch {
	case marker == "" || plain || !hides:
		row.MarkersSpecial = row.MarkersSpecial && !plain
	case p.plain != nil && p.plain.field == "" && strings.Contains(p.plain.content, marker):
		row.MarkersSpecial = false
	default:
		var without []openai.Member
		for _, m := range set {
			if m.Key != "skip_special_tokens" {
				without = append(without, m)
			}
		}
		r := p.ask(ctx, question{path: chatPath, limit: p.cfg.RawTokens, members: append([]openai.Member{messages(user(testQuestion))}, without...)})
		if r != nil && r.done() {
			row.MarkersSpecial = !strings.Contains(r.content, marker)
			f.Detail += specialWords(row.MarkersSpecial)
			f.Evidence = append(f.Evidence, r.evidence())
			p.report.add(f)
		}
	}
	if !row.MarkersSpecial {
		row.ControlTokens = nil
	}
	p.rows()
}

// rows names the shipped rows that agree with everything that was seen.
func (p *prober) rows() {
	if !p.verdict.Known {
		return
	}
	if len(p.verdict.Rows) == 0 {
		p.add(Rows, absent("no shipped row has these markers and begins there"))
		return
	}
	p.add(Rows, found(strings.Join(p.verdict.Rows, ", "), "shipped rows with these markers that begin there"))
}

func specialWords(special bool) string {
	if special {
		return "; they are special: the engine shows them only with skip_special_tokens: false"
	}
	return "; the engine always shows them"
}

// markerInRaw is a marker that was seen in raw output, the closer if it was.
func (p *prober) markerInRaw() string {
	for _, m := range []string{p.verdict.Close, p.verdict.Open} {
		if m != "" && strings.Contains(p.sight.Raw, m) {
			return m
		}
	}
	return ""
}
