package probe

import (
	"context"
	"fmt"
	"strings"

	"oneslot/internal/openai"
	"oneslot/proxy/engine"

	"github.com/tidwall/gjson"
)

// Words that no template has by itself, to find one's way in a rendered prompt.
const (
	firstWord   = "lantern"
	thoughtWord = "harbour"
	answerWord  = "meadow"
	lastWord    = "pebble"
)

// question is what every test request asks: long enough for the smallest block
// of a prefix cache, and soon answered.
const testQuestion = "This is a short test of the connection between two programs. There is nothing to think about. Please answer with the single word OK."

// render returns the prompt that the engine makes of the members of a chat
// request, and the calls that showed it; ok is false where it cannot be had.
func (p *prober) render(ctx context.Context, members ...openai.Member) (text string, calls []Evidence, ok bool) {
	set := append([]openai.Member{{Key: "model", Raw: openai.String(p.model)}}, members...)
	body := string(openai.Rewrite([]byte("{}"), set, nil))
	switch p.info.Dialect.Name {
	case engine.LlamaCpp:
		a := p.calls.post(ctx, "/apply-template", body)
		prompt := gjson.Get(a.body, "prompt")
		if !a.ok() || prompt.Type != gjson.String {
			return "", []Evidence{a.evidence()}, false
		}
		return prompt.Str, []Evidence{a.saying("prompt " + bothEnds(prompt.Str))}, true
	case engine.SGLang, engine.VLLM:
		return p.detokenized(ctx, body)
	}
	return "", nil, false
}

// detokenized has the engine make tokens of messages, and text of these.
func (p *prober) detokenized(ctx context.Context, body string) (string, []Evidence, bool) {
	there := p.calls.post(ctx, "/tokenize", body)
	tokens := gjson.Get(there.body, "tokens")
	if !there.ok() || !tokens.IsArray() || tokens.Get("#").Int() == 0 {
		return "", []Evidence{there.evidence()}, false
	}
	seen := there.saying(fmt.Sprintf("%d tokens", tokens.Get("#").Int()))
	back := p.calls.post(ctx, "/detokenize", `{"model":`+openai.String(p.model)+`,"tokens":`+tokens.Raw+`,"skip_special_tokens":false}`)
	for _, member := range []string{"text", "prompt"} {
		if text := gjson.Get(back.body, member); back.ok() && text.Type == gjson.String {
			return text.Str, []Evidence{seen, back.saying(member + " " + bothEnds(text.Str))}, true
		}
	}
	return "", []Evidence{seen, back.evidence()}, false
}

// templates looks at what the chat template writes: how a prompt ends, and what
// stands around the thinking of an earlier turn. All of this only reads.
func (p *prober) templates(ctx context.Context) {
	p.sight.Model, p.sight.Parser = p.model, p.settings.Get("reasoning_parser").String()
	p.sight.Template = p.settings.Get("chat_template").String()
	text, calls, ok := p.render(ctx, messages(user(firstWord)))
	tail, whole := after(text, firstWord)
	switch {
	case !ok && calls == nil:
		p.add(Prompt, absent("it has no endpoint that shows a prompt: whether the template opens thinking must show in the output"))
	case ok && whole:
		p.sight.Tail = tail
		p.prompt, _, _ = p.render(ctx, messages(user(testQuestion)))
		p.add(Prompt, found(tail, "what the prompt ends with after the user's text"), calls...)
	case p.sight.Template != "":
		p.add(Prompt, unknown("a prompt is not shown; the chat template ends with "+lastEnd(p.sight.Template)), append(calls, p.paper.saying("chat_template …"+lastEnd(p.sight.Template)))...)
	default:
		p.add(Prompt, absent("a prompt is not shown: whether the template opens thinking must show in the output"), calls...)
	}
	if ok && whole {
		p.earlier(ctx)
	}
}

// earlier renders earlier turns, without and with thinking.
func (p *prober) earlier(ctx context.Context) {
	if text, _, ok := p.render(ctx, messages(user(firstWord), assistant(answerWord, "", ""), user(lastWord))); ok {
		p.sight.Header, _ = between(text, firstWord, answerWord)
	}
	field := p.info.Dialect.ThinkingField
	turn := assistant(answerWord, field, thoughtWord)
	// Many templates keep the thinking of the last turn only.
	for _, list := range [][]string{{user(firstWord), turn, user(lastWord)}, {user(firstWord), turn}} {
		text, _, ok := p.render(ctx, messages(list...))
		before, kept := between(text, firstWord, thoughtWord)
		if !ok || !kept {
			continue
		}
		if gap, kept := between(text, thoughtWord, answerWord); kept {
			p.sight.Before, p.sight.Between = before, gap
			return
		}
	}
}

// after returns what follows the last occurrence of word.
func after(text, word string) (string, bool) {
	i := strings.LastIndex(text, word)
	if i < 0 {
		return "", false
	}
	return text[i+len(word):], true
}

// between returns what stands between two words, the second after the first.
func between(text, from, to string) (string, bool) {
	_, rest, ok := strings.Cut(text, from)
	if !ok {
		return "", false
	}
	text, _, ok = strings.Cut(rest, to)
	return text, ok
}

// parserSplits has SGLang's own parser split a text with the markers of each
// row, which shows its markers without a run.
func (p *prober) parserSplits(ctx context.Context) {
	if p.info.Dialect.Name != engine.SGLang || p.sight.Parser == "" {
		return
	}
	tried := map[string]bool{}
	for _, row := range p.cfg.Rows {
		if len(row.Open) == 0 || len(row.Close) == 0 {
			continue
		}
		text := row.Open[0] + thoughtWord + row.Close[0] + answerWord
		if tried[text] {
			continue
		}
		tried[text] = true
		a := p.calls.post(ctx, "/separate_reasoning", `{"text":`+openai.String(text)+`,"reasoning_parser":`+openai.String(p.sight.Parser)+`}`)
		if !a.ok() {
			return // there is no such endpoint, or no such parser
		}
		thinking, rest := gjson.Get(a.body, "reasoning_text").String(), gjson.Get(a.body, "text").String()
		if strings.TrimSpace(thinking) == thoughtWord && strings.TrimSpace(rest) == answerWord {
			p.sight.Splits = append(p.sight.Splits, row.Name)
		}
	}
}
