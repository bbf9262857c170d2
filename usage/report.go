package usage

import "context"

// Report is what a request used.
type Report struct {
	Tokens Tokens
	// FinishReason is the one given to Finish; empty when the answer was cut.
	FinishReason string
	// AnswerStarted says that visible answer text or a tool call came.
	AnswerStarted bool
	// Runs is the number of engine runs the answer was made of.
	Runs int
	// EnginePrompt and EngineCompletion are the engine's own totals over all
	// runs, discarded tokens included.
	EnginePrompt, EngineCompletion Count
	// DraftsProposed is the number of speculative draft tokens offered.
	DraftsProposed Count
	// Residue is the engine's completion total less the own count, where the
	// whole text was counted too: tokens the text does not show. Else it is 0.
	Residue int
	// Extra are the engine's members that go on to the client.
	Extra Extra
}

// Report returns what the request used so far. It asks the Counter where the
// engine's figures leave something open, with ctx; the ctx of a client that
// has left is of no use there.
func (m *Meter) Report(ctx context.Context) Report {
	r := Report{
		FinishReason:  m.finish,
		Runs:          len(m.runs),
		AnswerStarted: m.run().visible(),
		Extra:         m.run().totals.Extra,
	}
	m.reportSplit(ctx, &r)
	m.reportEngine(&r)
	r.Tokens.Prompt = m.prompt()
	r.Tokens.CachedPrompt = m.cached()
	return r
}

// After adds what the engine did for the same request before, in runs that gave the
// client nothing.
func (r *Report) After(before *Report) {
	if before.Runs == 0 {
		return
	}
	r.Runs += before.Runs
	r.EnginePrompt = plus(before.EnginePrompt, r.EnginePrompt)
	r.EngineCompletion = plus(before.EngineCompletion, r.EngineCompletion)
}

// reportSplit adds up the runs: of those that were cut what was kept of their
// thinking, of the last one everything.
func (m *Meter) reportSplit(ctx context.Context, r *Report) {
	var thinking, answer, completion Count
	for i := range m.runs {
		s := splitter{run: &m.runs[i], counter: m.cfg.Counter, omits: m.cfg.EngineOmits, cut: i < len(m.runs)-1}
		t, a := s.divide(ctx)
		all := s.total
		if s.cut {
			a, all = Count{Source: Engine}, t
		} else if !all.Known() {
			all = plus(t, a)
		}
		r.Residue += s.residue
		if i == 0 {
			thinking, answer, completion = t, a, all
			continue
		}
		if t.Known() { // else the run said nothing, and it was to be all answer
			thinking = plus(thinking, t)
		}
		answer, completion = plus(answer, a), plus(completion, all)
	}
	r.Tokens.Thinking, r.Tokens.Answer, r.Tokens.Completion = thinking, answer, completion
}

// reportEngine adds up what the engine itself told over all runs.
func (m *Meter) reportEngine(r *Report) {
	var prompt, completion, accepted, rejected Figure
	for i := range m.runs {
		t := &m.runs[i].totals
		first := i == 0
		prompt.add(t.Prompt, first)
		completion.add(t.Completion, first)
		accepted.add(t.DraftsAccepted, first)
		rejected.add(t.DraftsRejected, first)
	}
	r.EnginePrompt, r.EngineCompletion = prompt.count(), completion.count()
	r.Tokens.DraftsAccepted = accepted.count()
	r.DraftsProposed = plus(accepted.count(), rejected.count())
}

// add makes f the sum of f and g, unknown if either is.
func (f *Figure) add(g Figure, first bool) {
	if first {
		*f = g
		return
	}
	*f = Figure{N: f.N + g.N, Known: f.Known && g.Known}
}

func (f Figure) count() Count {
	if !f.Known {
		return Count{Source: Unknown}
	}
	return Count{N: f.N, Source: Engine}
}

// prompt is the prompt of the first run: those of later runs repeat it.
func (m *Meter) prompt() Count {
	if c, _ := m.Told(); c.Known() || !m.ownPrompt.Known() {
		return c
	}
	return m.ownPrompt
}

func (m *Meter) cached() Count {
	prompt, c := m.Told()
	switch {
	case c.Known():
		return c
	case m.cfg.CacheOff, m.cfg.CacheTold && m.finish != "" && prompt.Known():
		return Count{Source: EngineSetup}
	case m.ownCached.Known():
		return Count{N: min(m.ownCached.N, max(m.prompt().N, 0)), Source: m.ownCached.Source}
	}
	return c
}

// Wire returns the report as the `usage` object of the OpenAI API.
func (r Report) Wire(includeSources bool) Usage {
	rejected := Count{Source: Unknown}
	if r.DraftsProposed.Known() {
		rejected = Count{N: r.DraftsProposed.N - r.Tokens.DraftsAccepted.N, Source: Engine}
	}
	return Usage{Tokens: r.Tokens, DraftsRejected: rejected, Extra: r.Extra, IncludeSources: includeSources}
}
