package responses

import (
	"fmt"
	"strconv"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
)

// call takes the deltas of tool calls, as a chat has them.
func (o *output) call(e *downstream.Events, deltas string) {
	o.endText(e, "completed")
	o.calls.Add(deltas)
	for i := range o.calls.Len() {
		if i == len(o.called) {
			it := o.begin(callItem)
			it.callIndex = i
			o.called = append(o.called, it)
		}
		o.tell(e, o.called[i])
	}
}

// tell says what is new of a call. Its name comes before its arguments, and
// nothing can be said without it.
func (o *output) tell(e *downstream.Events, it *item) {
	if it.status != "in_progress" {
		return
	}
	if it.call.Name == "" {
		it.call = o.calls.Call(it.callIndex)
		it.call.Input = "" // it is taken at the end
		if it.call.ID == "" {
			it.call.ID = fmt.Sprintf("call_%s%02d", o.id, it.callIndex)
		}
		if it.call.Name == "" {
			return
		}
		o.announce(e, it)
	}
	if news := o.calls.Input(it.callIndex, it.told); news != "" && e != nil {
		it.told += len(news)
		o.event(e, "response.function_call_arguments.delta", it.here()+`,"delta":`+openai.String(news))
	}
}

func (it *item) here() string {
	return `,"item_id":"` + it.id + `","output_index":` + strconv.Itoa(it.index)
}

// endText ends the reasoning or message that is being told.
func (o *output) endText(e *downstream.Events, status string) {
	it := o.open
	if it == nil {
		return
	}
	o.endPart(e, it)
	o.close(e, it, status)
	o.open = nil
}

// end ends whatever is being told.
func (o *output) end(e *downstream.Events, status string) {
	o.endText(e, status)
	for _, it := range o.called {
		if it.status != "in_progress" {
			continue
		}
		if it.call.Name == "" {
			it.call.Name = "unknown" // an item must have one
			o.announce(e, it)
		}
		it.call.Input = o.calls.Input(it.callIndex, 0)
		if status == "completed" {
			o.event(e, "response.function_call_arguments.done", it.here()+`,"name":`+openai.String(it.call.Name)+`,"arguments":`+openai.String(it.call.Input))
		}
		o.close(e, it, status)
	}
}

func (o *output) close(e *downstream.Events, it *item, status string) {
	it.status = status
	if e == nil {
		return
	}
	o.event(e, "response.output_item.done", `,"output_index":`+strconv.Itoa(it.index)+`,"item":`+it.json(false))
}

// list is the items as raw JSON.
func (o *output) list() []string {
	list := make([]string, len(o.items))
	for i, it := range o.items {
		list[i] = it.json(false)
	}
	return list
}
