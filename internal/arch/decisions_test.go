package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// maxDecisionRows is how long the record of a decision may be: what is longer is not
// read when it is needed.
const maxDecisionRows = 60

var (
	decisionName = regexp.MustCompile(`^(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.md$`)
	decisionLink = regexp.MustCompile(`\b(\d{4}-[a-z0-9-]+\.md)\b`)
)

// TestDecisions: their numbers are 1, 2, 3 and so on, each once and in the heading
// too, so that a number names one of them; and what names one by its file finds it.
func TestDecisions(t *testing.T) {
	root := filepath.Join("..", "..")
	files, err := os.ReadDir(filepath.Join(root, "docs", "adr"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no decisions: %v", err)
	}
	there := map[string]bool{}
	for i, f := range files {
		there[f.Name()] = true
		text := read(t, filepath.Join(root, "docs", "adr", f.Name()))
		for _, fault := range decisionFaults(i+1, f.Name(), text) {
			t.Errorf("docs/adr/%s: %s", f.Name(), fault)
		}
	}
	pages, _ := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	decisions, _ := filepath.Glob(filepath.Join(root, "docs", "adr", "*.md"))
	for _, page := range append(append(pages, decisions...), filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		for _, m := range decisionLink.FindAllStringSubmatch(read(t, page), -1) {
			if !there[m[1]] {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
	}
}

// decisionFaults are what is wrong with the n-th decision.
func decisionFaults(n int, name, text string) (faults []string) {
	if m := decisionName.FindStringSubmatch(name); m == nil {
		faults = append(faults, "the name is not NNNN-words.md")
	} else if number, _ := strconv.Atoi(m[1]); number != n {
		faults = append(faults, fmt.Sprintf("the number is %d, want %d: numbers are unique, without gaps", number, n))
	}
	if heading, _, _ := strings.Cut(text, "\n"); !strings.HasPrefix(heading, fmt.Sprintf("# %d. ", n)) {
		faults = append(faults, fmt.Sprintf("the first line is %q, want \"# %d. Title\"", heading, n))
	}
	if rows := strings.Count(text, "\n"); rows > maxDecisionRows {
		faults = append(faults, fmt.Sprintf("%d lines; %d are allowed", rows, maxDecisionRows))
	}
	return faults
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDecisionFaults: the rules are not met by everything.
func TestDecisionFaults(t *testing.T) {
	for name, c := range map[string]struct {
		name, text string
		want       int
	}{
		"fine":               {"0007-a-title.md", "# 7. A title\n", 0},
		"another number":     {"0008-a-title.md", "# 7. A title\n", 1},
		"no number":          {"a-title.md", "# 7. A title\n", 1},
		"no number in it":    {"0007-a-title.md", "# A title\n", 1},
		"zeros":              {"0007-a-title.md", "# 0007 A title\n", 1},
		"a longer number":    {"0007-a-title.md", "# 70. A title\n", 1},
		"too long":           {"0007-a-title.md", "# 7. A title\n" + strings.Repeat("x\n", maxDecisionRows), 1},
		"everything at once": {"7.md", "", 2},
	} {
		if got := decisionFaults(7, c.name, c.text); len(got) != c.want {
			t.Errorf("%s: %q, want %d faults", name, got, c.want)
		}
	}
}
