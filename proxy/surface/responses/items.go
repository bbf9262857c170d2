package responses

import (
	"fmt"
	"strconv"
	"strings"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
)

// kind is what an item of the output is.
type kind string

const (
	reasoningItem kind = "reasoning"
	messageItem   kind = "message"
	callItem      kind = "function_call"
)

// prefixes begin the ids of items.
var prefixes = map[kind]string{reasoningItem: "rs_", messageItem: "msg_", callItem: "fc_"}

// A manner is how one kind of text is told.
type manner struct {
	index               string // the member that counts the parts
	added, delta, done  string // types of events, in their order
	closed              string
	kind, member, whole string // the part's type and member, and the member of the done event
	probs               bool   // it has token probabilities
}

var (
	answerText = &manner{
		"content_index", "response.content_part.added", "response.output_text.delta", "response.output_text.done", "response.content_part.done",
		"output_text", "text", "text", true,
	}
	refusalText = &manner{
		"content_index", "response.content_part.added", "response.refusal.delta", "response.refusal.done", "response.content_part.done",
		"refusal", "refusal", "refusal", false,
	}
	thinkingText = &manner{
		"content_index", "response.content_part.added", "response.reasoning_text.delta", "response.reasoning_text.done", "response.content_part.done",
		"reasoning_text", "text", "text", false,
	}
	summaryText = &manner{
		"summary_index", "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done", "response.reasoning_summary_part.done",
		"summary_text", "text", "text", false,
	}
)

// part is one text of an item.
type part struct {
	*manner
	text  strings.Builder
	probs []string // lists of raw JSON, without brackets
}

// json is the part with a text.
func (p *part) json(text string) string {
	b := `{"type":"` + p.kind + `","` + p.member + `":` + openai.String(text)
	if p.manner.probs {
		b += `,"annotations":[],"logprobs":[` + strings.Join(p.probs, ",") + "]"
	}
	return b + "}"
}

// item is one item of the output.
type item struct {
	kind   kind
	id     string
	index  int    // in the output
	status string // in_progress, completed or incomplete
	parts  []*part
	sealed bool // thinking is carried for sending back

	call      openai.ToolCall
	callIndex int
	told      int // bytes of the call's input
}

// json is the item as it stands; empty is whether its text is left out, as in the
// event that announces it.
func (it *item) json(empty bool) string {
	b := `{"id":"` + it.id + `","type":"` + string(it.kind) + `","status":"` + it.status + `"`
	if it.kind == callItem {
		input := it.call.Input
		if empty {
			input = ""
		}
		return b + `,"call_id":` + openai.String(it.call.ID) + `,"name":` + openai.String(it.call.Name) + `,"arguments":` + openai.String(input) + "}"
	}
	lists := map[string][]string{}
	text := ""
	for _, p := range it.parts {
		text += p.text.String()
		if !empty {
			lists[p.index] = append(lists[p.index], p.json(p.text.String()))
		}
	}
	content := string(appendList(nil, lists["content_index"]))
	if it.kind == messageItem {
		return b + `,"role":"assistant","content":` + content + "}"
	}
	secret := "null"
	if it.sealed && !empty {
		secret = openai.String(sealed(text))
	}
	return b + `,"summary":` + string(appendList(nil, lists["summary_index"])) + `,"content":` + content + `,"encrypted_content":` + secret + "}"
}

// output is the items so far. Where there are no events to tell them by, e is nil.
type output struct {
	id      string // of the request
	seq     int    // of the next event
	summary bool
	sealed  bool
	items   []*item
	open    *item // reasoning or message that is being told
	calls   openai.ToolCalls
	called  []*item // their items
}

// event adds one event. members begin with a comma.
func (o *output) event(e *downstream.Events, name, members string) {
	if e == nil {
		return
	}
	data := `{"type":"` + name + `","sequence_number":` + strconv.Itoa(o.seq) + members + "}"
	o.seq++
	e.Named(name, []byte(data))
}

// begin adds an item.
func (o *output) begin(k kind) *item {
	it := &item{kind: k, index: len(o.items), status: "in_progress", sealed: o.sealed}
	it.id = fmt.Sprintf("%s%s%02d", prefixes[k], o.id, it.index)
	o.items = append(o.items, it)
	return it
}

func (o *output) announce(e *downstream.Events, it *item) {
	o.event(e, "response.output_item.added", `,"output_index":`+strconv.Itoa(it.index)+`,"item":`+it.json(true))
}

// say adds text to the item of a kind that is being told; another one is ended
// first. probs is a list of token probabilities without its brackets.
func (o *output) say(e *downstream.Events, m *manner, text, probs string) {
	k := messageItem
	if m == thinkingText || m == summaryText {
		k = reasoningItem
	}
	if o.open == nil || o.open.kind != k {
		o.end(e, "completed")
		o.open = o.begin(k)
		o.announce(e, o.open)
	}
	it := o.open
	if n := len(it.parts); n == 0 || it.parts[n-1].manner != m {
		o.endPart(e, it)
		it.parts = append(it.parts, &part{manner: m})
		o.event(e, m.added, o.at(it)+`,"part":`+it.parts[len(it.parts)-1].json(""))
	}
	p := it.parts[len(it.parts)-1]
	p.text.WriteString(text)
	if probs != "" {
		p.probs = append(p.probs, probs)
	}
	if e == nil {
		return
	}
	members := o.at(it) + `,"delta":` + openai.String(text)
	if m.probs {
		members += `,"logprobs":[` + probs + `]`
	}
	o.event(e, m.delta, members)
}

// at says where the part is that is being told.
func (o *output) at(it *item) string {
	return `,"item_id":"` + it.id + `","output_index":` + strconv.Itoa(it.index) + `,"` + it.parts[len(it.parts)-1].index + `":` + strconv.Itoa(it.partIndex())
}

// partIndex is the place of the last part among those of its list.
func (it *item) partIndex() int {
	n, last := -1, it.parts[len(it.parts)-1]
	for _, p := range it.parts {
		if p.index == last.index {
			n++
		}
	}
	return n
}

func (o *output) endPart(e *downstream.Events, it *item) {
	if len(it.parts) == 0 || e == nil {
		return
	}
	p := it.parts[len(it.parts)-1]
	members := o.at(it) + `,"` + p.whole + `":` + openai.String(p.text.String())
	if p.manner.probs {
		members += `,"logprobs":[` + strings.Join(p.probs, ",") + `]`
	}
	o.event(e, p.done, members)
	o.event(e, p.closed, o.at(it)+`,"part":`+p.json(p.text.String()))
}
