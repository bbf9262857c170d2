package simengine_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/script"
)

// An engine that answers as fast as it can, and what it saw.
func Example() {
	engine, err := simengine.New(simengine.Config{
		TokensPerSecond: simengine.Fast, PrefillTokensPerSecond: simengine.Fast, Thinking: 4, Answer: 3,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(engine)
	defer server.Close()
	defer engine.Close() // before the server

	res, err := http.Post(server.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"<think>"}`)) //nolint:noctx // an example
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)

	run := engine.Stats().Runs[0]
	fmt.Printf("%q %q %s %d\n", run.Thinking, run.Answer, run.Outcome, run.CompletionTokens)
	// Output: "perhaps naïve my." "\n\nBLUE SEVEN!" stop 10
}

// Playing raw bytes to one client instead of a reply.
func ExampleEngine_Play() {
	engine, err := simengine.New(simengine.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(engine)
	defer server.Close()
	defer engine.Close()

	engine.Play(script.Script{script.Write("data: {\"half\":"), script.Cut()})
	res, err := http.Post(server.URL+"/v1/chat/completions", "application/json", //nolint:noctx // an example
		strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	fmt.Printf("%s, %v\n", body, err)
	// Output: data: {"half":, unexpected EOF
}

// Waiting for something to happen, without sleeping.
func ExampleEngine_Await() {
	engine, err := simengine.New(simengine.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	err = engine.Await(context.Background(), func(s simengine.Stats) bool { return s.Running == 0 })
	fmt.Println(err)
	// Output: <nil>
}
