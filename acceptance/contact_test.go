package acceptance_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"oneslot/acceptance/stack"
	"oneslot/acceptance/transcript"
)

// update writes the transcripts anew: go test -run TestFirstContact -update.
var update = flag.Bool("update", false, "write docs/transcripts anew")

const transcripts = "../docs/transcripts/"

// TestFirstContact has each library say its first words to the proxy, and holds its
// transcript in docs/transcripts to what both said.
func TestFirstContact(t *testing.T) {
	for client, program := range map[string][]string{
		"openai-python": {os.Getenv("ONESLOT_PYTHON"), "python/hello.py"}, "openai-node": {"node", "node/hello.mjs"}, "ai-sdk": {"node", "node/hello.mjs"},
		"langchain": {os.Getenv("ONESLOT_LANGCHAIN_PYTHON"), "python/hello.py"}, "anthropic": {os.Getenv("ONESLOT_API_PYTHON"), "python/hello.py"}, "openai-go": nil,
	} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			flags := []string{"--tokens-per-second", "-1", "--prefill-tokens-per-second", "-1", "--thinking", "4", "--answer", "3"}
			proxy := stack.StartPaced(t, flags, "queue: {commit_after: 30s, heartbeat: 30s}")
			recorder := record(t, proxy)
			if program == nil {
				hello(t, recorder.URL)
			} else {
				process := stack.Start(t, nil, program[0], program[1], client, recorder.URL, "simulated")
				if status := process.Status(); status != 0 {
					t.Fatalf("exit status %d: %s", status, process.Said())
				}
			}
			checkTranscript(t, transcripts+client+".md", transcript.Write(recorder.Exchanges()))
		})
	}
}

// record stands between a client and the proxy for the length of the test.
func record(t *testing.T, proxy *stack.Proxy) *transcript.Recorder {
	t.Helper()
	recorder, err := transcript.Listen(t.Context(), "127.0.0.1:0", proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := recorder.Close(); err != nil {
			t.Error(err)
		}
	})
	return recorder
}

// hello is what the scripts of the other clients do, with openai-go.
func hello(t *testing.T, url string) {
	t.Helper()
	c := client(&stack.Proxy{URL: url})
	lorem := "Lorem ipsum dolor sit amet?"
	chat := openai.ChatCompletionNewParams{Model: "simulated", MaxTokens: openai.Int(50), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(lorem)}}
	items := responses.ResponseNewParams{Model: "simulated", MaxOutputTokens: openai.Int(50), Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(lorem)}}
	if _, err := c.Models.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Chat.Completions.New(t.Context(), chat); err != nil {
		t.Fatal(err)
	}
	chat.StreamOptions.IncludeUsage = openai.Bool(true)
	chunks := c.Chat.Completions.NewStreaming(t.Context(), chat)
	for chunks.Next() {
	}
	if _, err := c.Responses.New(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	events := c.Responses.NewStreaming(t.Context(), items)
	for events.Next() {
	}
	if chunks.Err() != nil || events.Err() != nil {
		t.Fatal(chunks.Err(), events.Err())
	}
}

// checkTranscript holds a file, behind its heading, to what was said.
func checkTranscript(t *testing.T, name, said string) {
	t.Helper()
	old := textOf(t, name)
	heading, _, _ := strings.Cut(old, "\n## ")
	text := strings.TrimRight(heading, "\n") + "\n\n" + strings.TrimRight(said, "\n") + "\n"
	if *update {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text == old || *update {
		return
	}
	was, is := strings.Split(old, "\n"), strings.Split(text, "\n")
	for i := range is {
		if i >= len(was) || was[i] != is[i] {
			t.Fatalf("%s is not what is said (see -update): line %d is now\n%s", name, i+1, is[i])
		}
	}
	t.Fatalf("%s goes on behind what is said (see -update)", name)
}

// private is what no transcript may hold: a key, an id, a path of the machine, a
// host, a day.
var private = regexp.MustCompile(`Bearer [^…]|sk-|[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-|/(tmp|root|home|work|usr)/|https?://[^H]|\b20\d\d-\d\d-\d\d\b`)

// TestTranscriptsHoldNothingPrivate, those of the clients that were tried by hand
// among them, and docs/clients.md names each.
func TestTranscriptsHoldNothingPrivate(t *testing.T) {
	files, err := filepath.Glob(transcripts + "*.md")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	index := textOf(t, "../docs/clients.md")
	for _, file := range files {
		if !strings.Contains(index, "transcripts/"+filepath.Base(file)) {
			t.Errorf("docs/clients.md does not name %s", file)
		}
		for n, line := range strings.Split(textOf(t, file), "\n") {
			if found := private.FindString(line); found != "" && !strings.HasPrefix(line, "Anthropic-Version: ") {
				t.Errorf("%s:%d has %q", file, n+1, found)
			}
		}
	}
}
