package probe

import (
	"context"
	"fmt"
	"strings"

	"oneslot/internal/openai"
	"oneslot/proxy/engine"
	"oneslot/reasoning"
)

const prefillTokens = 8

// continued is how an engine is asked to go on with an assistant's message.
func continued(how engine.Continuation) []openai.Member {
	flag := openai.Member{Key: "continue_final_message", Raw: "true"}
	switch how {
	case engine.ContinueFlag:
		return []openai.Member{flag}
	case engine.ContinueAlways:
		return nil
	case engine.ContinueBoth, engine.ContinueNone: // which others may know too
	}
	return []openai.Member{flag, {Key: "add_generation_prompt", Raw: "false"}}
}

// prefill finds out whether the engine goes on with a message of the
// assistant's: one of plain text, one that holds closed thinking, and a prompt
// of /v1/completions that ends so.
func (p *prober) prefill(ctx context.Context) {
	const begun = "OK, then"
	members := append([]openai.Member{messages(user(testQuestion), assistant(begun, "", ""))}, continued(p.info.Dialect.Continue)...)
	open := p.ask(ctx, question{path: chatPath, limit: prefillTokens, members: members})
	p.report.add(p.carried(ctx, carry{name: Prefill, text: begun, members: members}, open))
	if !p.verdict.Known || p.verdict.Row.OffPrefill == "" {
		p.add(PrefillClosed, skipped("the markers are not known"))
		p.add(Completions, skipped("the markers are not known"))
		return
	}
	closed := p.prefillClosed(ctx)
	p.completions(ctx)
	// Where the parser takes any prefill for thinking, but what follows the closer
	// for the answer, the closer is what it says.
	v := &p.verdict
	if v.Close == "" && open != nil && closed != nil && open.field != "" && closed.field == "" && strings.TrimSpace(closed.content) != "" {
		v.Close, v.CloseIn, v.Row.Verified = v.Row.Close[0], "text behind it is answer to the engine's parser", v.Open != ""
		p.marked()
	}
}

// A carry is one way to begin a reply: text is what it begins with, as it stands
// in the prompt.
type carry struct {
	name, text string
	members    []openai.Member
}

// thought is what the test thinks before its thinking is closed.
const thought = "Fine."

// closedText is closed thinking, with the opener unless the prompt has it.
func (p *prober) closedText() string {
	row := p.verdict.Row
	if len(row.Open) == 0 || row.StartsIn == reasoning.StartThinking {
		return thought + row.OffPrefill
	}
	return row.Open[0] + thought + row.OffPrefill
}

// prefillClosed goes on behind closed thinking in the way the proxy does when a
// budget of thinking is used up.
func (p *prober) prefillClosed(ctx context.Context) *reply {
	d := p.info.Dialect
	c := carry{name: PrefillClosed, text: p.closedText()}
	last, flags := assistant(c.text, "", ""), continued(d.Continue)
	if d.Continue == engine.ContinueAlways && p.plain != nil && p.plain.field != "" {
		// An engine that splits by its template writes empty thinking before text.
		last = assistant("", d.ThinkingField, thought)
		flags = []openai.Member{{Key: "continue_final_message", Raw: `"content"`}, {Key: "add_generation_prompt", Raw: "false"}}
	}
	c.members = append([]openai.Member{messages(user(testQuestion), last)}, flags...)
	r := p.ask(ctx, question{path: chatPath, limit: prefillTokens, members: c.members})
	f := p.carried(ctx, c, r)
	switch {
	case f.State == Found && p.thinksAgain(r):
		f.State, f.Value = Absent, ""
		f.Detail = "the message is continued, but the model thinks again: a budget of thinking cannot be kept by closing it"
	case f.State == Found:
		f.Detail += ": a budget of thinking can be kept by closing it and going on"
	case f.State == Absent:
		f.Detail += ": a budget of thinking cannot be kept by closing it"
	}
	p.report.add(f)
	return r
}

// thinksAgain reports whether a reply that begins behind closed thinking has
// thinking in it that is not an echo.
func (p *prober) thinksAgain(r *reply) bool {
	text := strings.TrimPrefix(r.content, p.closedText())
	return strings.TrimSpace(r.thinking) != "" && strings.TrimSpace(r.thinking) != thought || strings.Contains(text, p.verdict.Row.Close[0])
}

// carried judges by the prompt's tokens whether the engine went on with the
// message: as many as the question has and the text, not those of a new turn.
func (p *prober) carried(ctx context.Context, c carry, r *reply) Finding {
	f := Finding{Name: c.name, State: Unknown}
	switch {
	case r == nil:
		f.State, f.Detail = Skipped, p.report.ReadOnly
		return f
	case !r.done():
		f.Detail, f.Evidence = "the engine refused it", []Evidence{r.evidence()}
		if r.status >= 400 && r.status < 500 {
			f.State = Absent
		}
		return f
	}
	f.Evidence = []Evidence{r.evidence()}
	flags := question{path: "flags", members: c.members}.label()
	flags = strings.TrimPrefix(strings.TrimPrefix(flags, "POST flags, for 0 tokens"), ", ")
	with := "without a flag"
	if flags != "" {
		with = "with " + flags
	}
	own, err := p.engine.Count(ctx, c.text)
	counts := Evidence{"tokens", fmt.Sprintf("%d of the question alone, %d of the text, %d of both", p.base(), own, r.prompt)}
	switch {
	case err != nil || p.base() < 0 || r.prompt < 0:
		f.Detail = "it was answered, but without token counts it does not show whether the message was continued"
	case r.prompt <= p.base()+own+countSlack:
		f.State, f.Evidence = Found, append(f.Evidence, counts)
	default:
		f.State, f.Detail, f.Evidence = Absent, "the message is closed and a new turn begins", append(f.Evidence, counts)
		// A template may put something in front, which shows in the prompt.
		if prompt, _, _ := p.render(ctx, c.members...); p.endsSo(ctx, prompt, c.text, r.prompt) {
			f.State, f.Evidence = Found, append(f.Evidence, Evidence{"the prompt", "ends " + lastEnd(prompt)})
		}
	}
	if f.State == Found {
		f.Value, f.Detail = "yes", with
		if r.field != "" && r.content == "" {
			f.Detail += "; the engine takes the continuation for thinking"
		}
	}
	return f
}

// endsSo reports whether a rendered prompt of so many tokens ends with text.
func (p *prober) endsSo(ctx context.Context, prompt, text string, tokens int) bool {
	if prompt == "" || !strings.HasSuffix(strings.TrimSpace(prompt), strings.TrimSpace(text)) {
		return false
	}
	n, err := p.engine.Count(ctx, prompt)
	return err == nil && max(n-tokens, tokens-n) <= countSlack
}

// countSlack is how many tokens a text may gain where it is joined to another;
// a new turn has more.
const countSlack = 1

// base is the length of the test question's prompt in tokens, -1 if not known.
func (p *prober) base() int {
	if p.plain == nil {
		return -1
	}
	return p.plain.prompt
}

// completions has the rendered prompt continued behind closed thinking.
func (p *prober) completions(ctx context.Context) {
	if p.prompt == "" {
		p.add(Completions, skipped("the prompt of a chat is not shown, so it cannot be written out"))
		return
	}
	text := p.prompt + p.closedText()
	r := p.ask(ctx, question{path: completionsPath, limit: prefillTokens, members: []openai.Member{{Key: "prompt", Raw: openai.String(text)}}})
	switch {
	case r == nil:
		p.add(Completions, skipped(p.report.ReadOnly))
	case !r.done():
		p.add(Completions, absent("the engine refused it"), r.evidence())
	case p.thinksAgain(r):
		p.add(Completions, absent("the model thinks again"), r.evidence())
	default:
		p.add(Completions, found("yes", "the rendered prompt with closed thinking behind it is continued by "+completionsPath), r.evidence())
	}
}
