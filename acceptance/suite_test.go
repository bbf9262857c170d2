package acceptance_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"oneslot/acceptance/stack"
)

// theirID is the response that openai-go's own tests ask for.
const theirID = "resp_677efb5139a88190b512bc3fef8e535d"

// suites are openai-go's own tests of what the proxy speaks. They send every optional
// field there is, some of which are for a service that no engine here can do.
var suites = []struct {
	pkg   string
	tests map[string]string // how the refusal goes on behind its message; empty for a pass
}{
	{"github.com/openai/openai-go/v3", map[string]string{
		"TestChatCompletionNewWithOptionalParams": "", "TestModelGet": "", "TestModelList": "", "TestUsage": "",
		"TestCompletionNewWithOptionalParams": `"param":"suffix","code":"unsupported_value"}}`,
	}},
	{"github.com/openai/openai-go/v3/responses", map[string]string{
		"TestResponseNewWithOptionalParams": `"param":"background","code":"unsupported_value"}}`,
		"TestResponseGetWithOptionalParams": `"param":"response_id","code":"response_not_found"}}`,
		"TestResponseDelete":                `"param":"response_id","code":"response_not_found"}}`,
		"TestResponseCancel":                `"param":"id","code":"request_not_found"}}`,
	}},
}

// TestOpenAISuite runs openai-go's own tests twice: as they are, where those that ask
// for what cannot be had end with the refusal that says so; and without that, in which
// case all of them pass.
func TestOpenAISuite(t *testing.T) {
	proxy := stack.StartSimulated(t, "accept_any_model: true", "responses: {store: memory}")
	for name, to := range map[string]func(*testing.T) string{
		"as they are":      func(t *testing.T) string { return watch(t, proxy).URL },
		"what can be done": func(t *testing.T) string { return without(t, proxy) },
	} {
		t.Run(name, func(t *testing.T) {
			target := to(t)
			for _, suite := range suites {
				said := runSuite(t, target, suite.pkg, suite.tests)
				for test, refusal := range suite.tests {
					want := "--- PASS: " + test + " "
					if refusal != "" && name == "as they are" {
						want = "--- FAIL: " + test + " "
					}
					if !strings.Contains(said[test], want) {
						t.Errorf("no %q in\n%s", want, said[test])
					}
				}
			}
		})
	}
}

// runSuite returns what each test said.
func runSuite(t *testing.T, target, pkg string, tests map[string]string) map[string]string {
	t.Helper()
	var names []string
	for name := range tests {
		names = append(names, name)
	}
	slices.Sort(names)
	run := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run", "^("+strings.Join(names, "|")+")$", pkg)
	run.Env = append(os.Environ(), "TEST_API_BASE_URL="+target+"/v1")
	out, _ := run.CombinedOutput() // some fail, as they are to
	said := map[string]string{}
	for _, name := range names {
		_, text, _ := strings.Cut(string(out), "=== RUN   "+name+"\n")
		said[name], _, _ = strings.Cut(text, "=== RUN ")
	}
	return said
}

// TestRefusalsOfTheSuite: what openai-go's own tests are refused names the field, or
// says that there is no such response.
func TestRefusalsOfTheSuite(t *testing.T) {
	proxy := stack.StartSimulated(t, "accept_any_model: true", "responses: {store: memory}")
	recorder := record(t, proxy)
	for _, suite := range suites {
		for test, refusal := range suite.tests {
			if refusal == "" {
				continue
			}
			before := len(recorder.Exchanges())
			runSuite(t, recorder.URL, suite.pkg, map[string]string{test: refusal})
			said := recorder.Exchanges()[before:]
			if last := string(said[len(said)-1].Answer); !strings.HasSuffix(strings.TrimSpace(last), refusal) {
				t.Errorf("%s got %s, want it to end with %s", test, last, refusal)
			}
		}
	}
}

// refused are members of those tests that are for a service of OpenAI's, or that
// cannot be had together.
var refused = []string{"suffix", "logprobs", "background", "conversation", "previous_response_id"}

// without stands before the proxy, takes out of the requests what is refused, and puts
// a response that is kept in the place of theirs.
func without(t *testing.T, proxy *stack.Proxy) string {
	t.Helper()
	to, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var members map[string]any
		if r.URL.Path != "/v1/chat/completions" && json.Unmarshal(body, &members) == nil {
			for _, name := range refused {
				delete(members, name)
			}
			if _, template := members["prompt"].(map[string]any); template {
				delete(members, "prompt")
			}
			if body, err = json.Marshal(members); err != nil {
				t.Error(err)
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if before, after, theirs := strings.Cut(r.URL.Path, theirID); theirs {
			r.URL.Path = before + keep(t, proxy) + after
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// keep has a response made that is kept, and returns its id.
func keep(t *testing.T, proxy *stack.Proxy) string {
	t.Helper()
	reply, err := http.DefaultClient.Do(request(t, http.MethodPost, proxy.URL+"/v1/responses", `{"model":"simulated","input":"Lorem ipsum?","max_output_tokens":20}`))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	var made struct{ ID string }
	if err := json.NewDecoder(reply.Body).Decode(&made); err != nil || made.ID == "" {
		t.Errorf("nothing is kept: %v, %+v", err, made)
	}
	return made.ID
}
