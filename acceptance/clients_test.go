package acceptance_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"oneslot/acceptance/stack"
)

// short is a line that is soon full, so that a client's request is refused.
const short = "queue: {commit_after: 200ms, heartbeat: 500ms, max_waiting: 3}"

// TestClients has libraries do, with each API they speak, what their users do, and
// holds the table in docs/clients.md to what came of it.
func TestClients(t *testing.T) {
	table := readTable(t)
	for script, apis := range map[string]map[string]string{ // as the script calls them, and the table
		"python/openai_test.py":    {"chat": "openai-python chat", "responses": "openai-python responses"},
		"node/openai_test.mjs":     {"chat": "openai-node chat", "responses": "openai-node responses"},
		"node/aisdk_test.mjs":      {"chat": "Vercel AI SDK chat", "responses": "Vercel AI SDK responses"},
		"python/langchain_test.py": {"chat": "ChatOpenAI chat", "deepseek": "ChatDeepSeek chat", "responses": "ChatOpenAI responses"},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			engine := stack.StartEngine(t, stack.ByEngine)
			proxy := watch(t, stack.StartProxy(t, engine, short))
			program := "node"
			if strings.HasSuffix(script, ".py") {
				program = os.Getenv("ONESLOT_LANGCHAIN_PYTHON")
			}
			process, lines := printing(t, program, script, proxy.URL+"/v1", engine.Model, engine.CallToken(t))
			ran := map[string][]string{}
			for _, test := range report(t, process, lines) {
				api, name, _ := strings.Cut(test, " ")
				ran[apis[api]] = append(ran[apis[api]], name)
			}
			for client, names := range ran {
				table.check(t, client, names)
			}
			if len(ran) != len(apis) {
				t.Errorf("there are results of %d APIs, want %d", len(ran), len(apis))
			}
		})
	}
}

// results is the table of docs/clients.md: what is said of a client and an API, by the
// name of the check.
type results map[string]map[string]string

// readTable reads the table, and holds the versions in it to those that are installed.
func readTable(t *testing.T) results {
	t.Helper()
	pinned := ""
	for _, name := range []string{"node/package.json", "requirements.txt", "requirements-api.txt", "requirements-langchain.txt", "go.mod"} {
		pinned += textOf(t, name)
	}
	var columns []string
	table := results{}
	for line := range strings.Lines(textOf(t, "../docs/clients.md")) {
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "| \n"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		switch {
		case len(cells) < 4:
		case columns == nil:
			columns = cells
		case len(cells) == len(columns) && !strings.HasPrefix(cells[0], "---"):
			name, version, _ := strings.Cut(strings.Trim(cells[1], "`"), " ")
			row := map[string]string{}
			for i, column := range columns[3:] {
				row[column] = cells[i+3]
			}
			table[cells[0]+" "+cells[2]] = row
			pins := []string{`"` + name + `": "` + version + `"`, name + "==" + version + "\n", name + " v" + version + "\n"}
			if !slices.ContainsFunc(pins, func(pin string) bool { return strings.Contains(pinned, pin) }) {
				t.Errorf("docs/clients.md has %s %s, which is not the one that is installed", name, version)
			}
		}
	}
	return table
}

// check holds one row to the names of the checks that ran.
func (r results) check(t *testing.T, client string, ran []string) {
	t.Helper()
	row, there := r[client]
	if !there {
		t.Fatalf("docs/clients.md has no row for %s", client)
	}
	for column, said := range row {
		if (said == "yes") != slices.Contains(ran, column) {
			t.Errorf("docs/clients.md says %q to %q of %s; what ran is %v", said, column, client, ran)
		}
	}
}

func textOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
