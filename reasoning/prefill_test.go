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
