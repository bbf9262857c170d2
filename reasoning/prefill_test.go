package reasoning_test

import (
	"testing"

	"oneslot/reasoning"
)

// TestStartAfter wants the state from the prefill alone, whatever the default.
func TestStartAfter(t *testing.T) {
	const asIs = reasoning.State(0) // the default
	f := reasoning.Format{
		Open: []string{"<t>", "<t>>"}, Close: []string{"</t>", "<r>", "</t></r>", "<c>>", "[<c>", ""}, ToolOpen: []string{"<c>", "<c></t>", "<r>\n"},
		MarkersSpecial: true, ControlTokens: []string{"<r>", "<e>"},
	}
	for _, tt := range []struct {
		prefill string
		want    reasoning.State
	}{
		{"", asIs},
		{" \n", asIs},
		{"Sure, ", asIs},
		{"a </t", asIs},
		{"<t", asIs},
		{"<t>", reasoning.StartThinking},
		{"<t> \n", reasoning.StartThinking},
		{"<t>>\n", reasoning.StartThinking},
		{"<t><e>\n", reasoning.StartThinking},
		{"<t>So the", reasoning.StartMidThinking},
		{"x <t>So the ", reasoning.StartMidThinking},
		{"<t>a<t>", reasoning.StartMidThinking},
		{"<t>a dozen dozens</t>", reasoning.StartClosed},
		{"<t>a</t>\n\n", reasoning.StartClosed},
		{"<t>a</t> <e>\n<e><r> ", reasoning.StartClosed},
		{"<t>a</t></r>", reasoning.StartClosed},
		{"</t>", reasoning.StartClosed},
		{"a<r>", reasoning.StartClosed},
		{"a</t>It is", reasoning.StartMidAnswer},
		{"a</t>\n<e>It is ", reasoning.StartMidAnswer},
		{"a</t>\n<t>", reasoning.StartMidAnswer},
		{"<t>a<c>{", reasoning.StartMidAnswer},
		{"<t>a<c></t>", reasoning.StartMidAnswer},
		{"<t>a</t><c>", reasoning.StartMidAnswer},
		{"<c>", reasoning.StartMidAnswer},
		{"a<c>>", reasoning.StartClosed},
		{"a[<c>", reasoning.StartClosed},
		{"a<r>\n", reasoning.StartMidAnswer},
	} {
		for _, def := range []reasoning.State{reasoning.StartThinking, reasoning.StartAnswer, reasoning.StartAuto} {
			want := tt.want
			if want == asIs {
				want = def
			}
			if got := reasoning.StartAfter(&f, tt.prefill, def); got != want {
				t.Errorf("%q = %q, want %q", tt.prefill, got, want)
			}
		}
	}
	if got := reasoning.StartAfter(nil, "</t>", reasoning.StartThinking); got != reasoning.StartThinking {
		t.Errorf("without a format: %q", got)
	}
}

// TestContinue: a stream that is cut anywhere in its text and continued from
// what it said so far comes to the same split as in one go.
func TestContinue(t *testing.T) {
	f := pool[0]
	for _, stream := range []string{"<think>So the queue</think>\n\nOK! RED", "<think> \nSo</think>Go <think>", "<think>So"} {
		whole := judge(f, reasoning.StartAnswer, stream)
		for i := range len(stream) + 1 {
			start := reasoning.StartAfter(&f, stream[:i], reasoning.StartAnswer)
			if start == reasoning.StartAnswer && i > 0 || withinMarker(f, stream, i) {
				continue // the cut falls into a marker, which StartAfter leaves to the caller
			}
			first, second := split(t, f, reasoning.StartAnswer, stream[:i]), split(t, f, start, stream[i:])
			if first.thinking+second.thinking != whole.thinking || first.answer+second.answer != whole.answer {
				t.Errorf("%q | %q: %+v and %+v, want %+v", stream[:i], stream[i:], first, second, whole)
			}
		}
	}
}

// withinMarker reports whether byte i of text is inside a marker.
func withinMarker(f reasoning.Format, text string, i int) bool {
	for at := range text {
		if m, _ := longest(text[at:], f.Open, f.Close); at < i && i < at+len(m) {
			return true
		}
	}
	return false
}

func TestStartInPrompt(t *testing.T) {
	f := &reasoning.Format{Name: "x", Open: []string{"<a>"}, Close: []string{"</a>"}, StartsIn: reasoning.StartThinking}
	for _, c := range []struct {
		prompt string
		want   reasoning.State
	}{
		{"", reasoning.StartAnswer},
		{"once upon a time", reasoning.StartAnswer},
		{"user: hi\nassistant: <a>\n", reasoning.StartThinking},
		{"user: hi\nassistant: <a>so", reasoning.StartMidThinking},
		{"user: hi\nassistant: <a>so</a>\n\n", reasoning.StartClosed},
		{"user: hi\nassistant: <a>so</a>\n\nHello", reasoning.StartAnswer},
		{"assistant: <a>so</a> Hello\nuser: more\nassistant: <a>", reasoning.StartThinking},
		{"assistant: </a> Hello\nuser: more\nassistant: <a></a>", reasoning.StartClosed},
	} {
		if got := reasoning.StartInPrompt(f, c.prompt); got != c.want {
			t.Errorf("after %q: %v, want %v", c.prompt, got, c.want)
		}
	}
	if got := reasoning.StartInPrompt(&reasoning.Format{}, "x"); got != reasoning.StartAnswer {
		t.Errorf("without markers: %v", got)
	}
}
