package transcript

import (
	"net/http"
	"strings"
	"testing"
)

const anID = "0123456789abcdef0123456789abcdef"

// TestWrite: what is of one run, one machine or one person is not written.
func TestWrite(t *testing.T) {
	long := strings.Repeat("lorem ", 20)
	first := Exchange{
		Method: http.MethodPost, Path: "/v1/responses/resp_" + anID,
		Request: http.Header{"Authorization": {"Bearer sk-secret"}, "X-Api-Key": {"secret"}, "User-Agent": {"Client/1.2.3"}, "Host": {"h"}, "X-Meta": {`{"a":1}`}},
		Body:    []byte(`{"model":"m","cwd":"/tmp/x/y","messages":[{"content":"` + long + `"},2,3,4],"tools":[{"parameters":{"type":"object"}}]}`),
		Status:  200, Response: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}, "Date": {"today"}},
		Answer: []byte(": queue position=2\n\ndata: {\"created\":1796000000,\"id\":\"chatcmpl-" + anID + "\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n" +
			"data: {\"created\":1796000000,\"id\":\"chatcmpl-" + anID + "\",\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\ndata: [DONE]\n\n"),
	}
	second := Exchange{Method: http.MethodGet, Path: "/v1/models", Request: http.Header{"User-Agent": {"Client/1.2.3"}, "Accept": {"*/*"}}}
	want := `## POST /v1/responses/resp_ID

` + "```" + `
Authorization: Bearer …
User-Agent: Client/N
X-Api-Key: …
X-Meta: (JSON)

{"cwd":"PATH","messages":[{"content":"(text of 120 characters)"},2,"(2 more)"],"model":"m","tools":[{"parameters":"(schema)"}]}
` + "```" + `

Answer: 200

` + "```" + `
Content-Type: text/event-stream; charset=utf-8

: queue position=2
data: {"choices":[{"delta":{"content":"a"}}],"created":"TIME","id":"chatcmpl-ID"}
  (and more like it)
data: [DONE]
` + "```" + `

## GET /v1/models

` + "```" + `
Accept: */*
(the rest as before)
` + "```" + `

The client left before an answer began.

`
	if got := Write([]Exchange{first, second}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestKindOf tells what a client has to tell apart.
func TestKindOf(t *testing.T) {
	delta := func(members string) string {
		return `{"choices":[{"delta":{` + members + `},"finish_reason":null}]}`
	}
	if kindOf(delta(`"content":"a"`)) != kindOf(delta(`"content":"b"`)) {
		t.Error("two of the same are told apart")
	}
	for _, other := range []string{delta(`"reasoning_content":"a"`), `{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{}}`, "[DONE]"} {
		if kindOf(other) == kindOf(delta(`"content":"a"`)) {
			t.Errorf("%s is taken for another", other)
		}
	}
}
