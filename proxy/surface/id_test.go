package surface_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/downstream"
	"oneslot/proxy/surface"
	"oneslot/proxy/surface/chat"
	"oneslot/proxy/surface/completions"
	"oneslot/proxy/surface/messages"
	"oneslot/proxy/surface/responses"
	"oneslot/usage"
)

// TestRequestID takes one prefix away, and only one that is there.
func TestRequestID(t *testing.T) {
	id := strings.Repeat("0f", 16)
	for given, want := range map[string]string{
		id: id, "chatcmpl-" + id: id, "cmpl-" + id: id, "resp_" + id: id, "msg_" + id: id,
		"": "", "resp_": "", "chatcmpl-cmpl-" + id: "cmpl-" + id, "x" + id: "x" + id, "MSG_" + id: "MSG_" + id,
	} {
		if got := surface.RequestID(given); got != want {
			t.Errorf("%q is the request %q, want %q", given, got, want)
		}
	}
}

// TestEveryAPIsAnswersCanBeFound: the id that a client is shown first is known here.
func TestEveryAPIsAnswersCanBeFound(t *testing.T) {
	id := strings.Repeat("0f", 16)
	kept, err := responses.New(responses.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		api  surface.API
		body string
	}{
		"chat":        {chat.API{}, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
		"completions": {completions.API{}, `{"model":"m","prompt":"hi"}`},
		"responses":   {kept, `{"model":"m","input":"hi"}`},
		"messages":    {messages.API{}, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
	} {
		answer := wholeAnswer(t, c.api, surface.In{ID: id, Created: time.Unix(1, 0), Body: []byte(c.body)})
		if shown, ok := answer["id"].(string); !ok || shown == id || surface.RequestID(shown) != id {
			t.Errorf("%s: the answer %v is not found by its id", name, answer)
		}
	}
}

// wholeAnswer is what the client of a request gets for an answer without a word.
func wholeAnswer(t *testing.T, api surface.API, in surface.In) (answer map[string]any) {
	t.Helper()
	_, talk, err := api.Decode(in)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	cfg := downstream.Config{Voice: talk, Problem: func(error) *openai.Problem { return &openai.Problem{Status: http.StatusBadGateway} }}
	client, err := downstream.New(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Release()
	stage := surface.Stage{Client: client, Stop: func() string { return "" }, Aligned: func() bool { return true }}
	if err := talk.Sink(stage).Finish("stop", func() usage.Report { return usage.Report{} }); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return answer
}
