package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// field is how one way to show thinking looks to a client.
type field struct {
	reasoning, reasoningContent bool // which members carry it
	content                     string
}

var fields = map[string]field{
	"reasoning_content": {reasoningContent: true, content: "flat"},
	"reasoning":         {reasoning: true, content: "flat"},
	"both":              {reasoning: true, reasoningContent: true, content: "flat"},
	"content_tags":      {content: "<think>deep</think>flat"},
	"hidden":            {content: "flat"},
}

// shown compares a reply with how thinking is to look, and wants no member that
// is null and no delta that says nothing.
func shown(t *testing.T, name string, r reply) {
	t.Helper()
	parts := map[string]string{}
	walk := func(data, member string) {
		var o struct {
			Choices []map[string]json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &o); err != nil {
			t.Fatalf("%s: %v in %s", name, err, data)
		}
		for _, c := range o.Choices {
			var part map[string]any
			if err := json.Unmarshal(c[member], &part); err != nil {
				t.Fatalf("%s: %v in %s", name, err, data)
			}
			if len(part) == 0 && string(c["finish_reason"]) == "null" {
				t.Errorf("%s: an empty delta: %s", name, data)
			}
			for key, v := range part {
				text, ok := v.(string)
				if !ok && (key != "refusal" || member == "delta") || text == "" && key != "refusal" && part["role"] == nil {
					t.Errorf("%s: %s is %v in %s", name, key, v, data)
				}
				parts[key] += text
			}
		}
	}
	if len(r.events) == 0 {
		walk(r.body, "message")
	}
	for _, e := range r.events {
		if e.data != "[DONE]" {
			walk(e.data, "delta")
		}
	}
	want := fields[name]
	for key, there := range map[string]bool{"reasoning": want.reasoning, "reasoning_content": want.reasoningContent} {
		text := ""
		if there {
			text = "deep"
		}
		if parts[key] != text {
			t.Errorf("%s: %s is %q, want %q", name, key, parts[key], text)
		}
	}
	if parts["content"] != want.content {
		t.Errorf("%s: content is %q, want %q", name, parts["content"], want.content)
	}
}

// Where thinking goes is for the settings to say, for each key, and for each
// request, streamed or not, and whoever splits.
func TestWhereThinkingGoes(t *testing.T) {
	raw := script.Script{chunk(`{"role":"assistant","content":null}`, ""), chunk(`{"content":"deep</th"}`, ""), chunk(`{"content":"ink>\n"}`, ""), chunk(`{"content":"flat","tool_calls":null}`, ""), finish()}
	split := script.Script{chunk(`{"role":"assistant","content":"","reasoning_content":null}`, ""), chunk(`{"reasoning_content":"deep","content":null}`, ""), chunk(`{"reasoning_content":null,"content":"flat"}`, ""), finish()}
	for who, s := range map[string]script.Script{"raw": raw, "split": split} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stream=%v", who, stream), func(t *testing.T) {
				inBubble(t, func(t *testing.T) { everyField(t, s, stream) })
			})
		}
	}
}

func everyField(t *testing.T, s script.Script, stream bool) {
	secrets, keys := newKeys(t, "plain")
	settings := "reasoning: {field: reasoning}\n" + keys
	for name := range fields {
		secret, row := newKey(t, "--name", name, "--reasoning-field", name)
		secrets[name], settings = secret, settings+"  "+row+"\n"
	}
	p := start(t, simengine.Config{Scripts: []script.Script{s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s}}, settings)
	say := func(key, header, members string) reply {
		h := bearer(secrets[key])
		if header != "" {
			h.Set("X-Oneslot-Reasoning", header)
		}
		return p.post(t.Context(), ask(stream, members), h)
	}
	shown(t, "reasoning", say("plain", "", ""))
	for name := range fields {
		shown(t, name, say(name, "", ""))
		shown(t, name, say("both", strings.ToUpper(name), ""))
	}
	shown(t, "hidden", say("both", "reasoning", `,"reasoning":{"exclude":true}`))
	if r := say("plain", "loud", ""); r.status != http.StatusBadRequest || !strings.Contains(r.body, "X-Oneslot-Reasoning") || !strings.Contains(r.body, "content_tags") {
		t.Errorf("a word that means nothing got %d %s", r.status, r.body)
	}
}
