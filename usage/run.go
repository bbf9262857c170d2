package usage

import "strings"

// blank is what does not make an answer visible.
const blank = " \t\r\n"

// text is text as it came: kept only if it is to be counted.
type text struct {
	buf  []byte
	size int
	// ink is where the last byte that is not blank ends.
	ink int
}

func (t *text) add(s string, keep bool) {
	if n := len(strings.TrimRight(s, blank)); n > 0 {
		t.ink = t.size + n
	}
	t.size += len(s)
	if keep {
		t.buf = append(t.buf, s...)
	}
}

// from is the text from byte off on, as far as it was kept.
func (t *text) from(off int) []byte { return t.buf[min(off, len(t.buf)):] }

// run is one run of the engine. Its text is what the model wrote, as far as it
// is known: where the engine has split it, the markers are put back in.
type run struct {
	text text
	// late is thinking that came after the answer had begun.
	late text
	// boundary is where the answer begins in text; negative while not known.
	boundary int
	marks    marks
	totals   Totals
	// stale says that text came after the last total.
	stale bool
	// raw, thought and tool say that such pieces came.
	raw, thought, tool bool
	// bySwitch says that the boundary lies where the engine changed channels,
	// bySaying that the proxy told it.
	bySwitch, bySaying bool
	endToken           bool
}

func (r *run) add(p *Piece, cfg *Config) {
	before := r.text.size + r.late.size
	r.addText(p, cfg)
	wrote := r.text.size+r.late.size > before
	r.stale = r.stale || wrote
	r.endToken = r.endToken || p.EndToken
	if p.Totals != nil {
		r.addTotals(p.Totals, wrote)
	}
}

func (r *run) addText(p *Piece, cfg *Config) {
	keep := cfg.Counter != nil
	if p.Raw != "" {
		r.raw = true
		r.text.add(p.Raw, keep)
	}
	if p.Thinking != "" {
		r.addThinking(p.Thinking, cfg, keep)
	}
	if p.Answer != "" || p.Tool {
		r.tool = r.tool || p.Tool
		if r.boundary < 0 && r.startsAnswer(p) {
			r.startAnswer(cfg, keep)
		}
		r.text.add(p.Answer, keep)
	}
}

// startsAnswer reports whether p ends the thinking: blanks before any thinking
// do not.
func (r *run) startsAnswer(p *Piece) bool {
	return r.thought || p.Tool || strings.TrimLeft(p.Answer, blank) != ""
}

// startAnswer sets the boundary to where the engine changed channels.
func (r *run) startAnswer(cfg *Config, keep bool) {
	if r.thought {
		r.bySwitch = true
		r.text.add(cfg.Close, keep)
	}
	r.boundary = 0
	if r.thought || r.raw {
		r.boundary = r.text.size
	}
}

func (r *run) addThinking(s string, cfg *Config, keep bool) {
	if r.boundary >= 0 && !r.bySaying {
		r.late.add(s, keep)
		return
	}
	if !r.thought && r.boundary < 0 && cfg.OpenerGenerated {
		r.text.add(cfg.Open, keep)
	}
	r.thought = true
	r.text.add(s, keep)
}

func (r *run) addTotals(newer *Totals, wrote bool) {
	t := *newer
	// An engine that ends on an error, or that was told to stop before it began,
	// may send a usage object of zeros; no prompt is empty.
	if t.Prompt.N == 0 {
		t.Prompt.Known = false
	}
	if t.Completion.N == 0 && r.text.size > 0 {
		t.Completion.Known = false
	}
	r.totals.replace(&t)
	if t.Completion.Known {
		r.stale = false
		r.marks.add(mark{off: r.text.size, total: t.Completion.N, text: wrote, answer: r.bySwitch}, r.boundary)
	}
}

// end is where the thinking ends in text, and whether an answer may follow it.
func (r *run) end() (boundary int, answers bool) {
	switch {
	case r.boundary >= 0:
		return min(r.boundary, r.text.size), true
	case r.raw || r.thought:
		return r.text.size, false
	default:
		return 0, true
	}
}

// visible reports whether the answer has begun.
func (r *run) visible() bool {
	boundary, answers := r.end()
	return answers && (r.tool || r.text.ink > boundary)
}
