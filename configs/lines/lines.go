package lines

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Lines are those of one file, by key.
type Lines map[string]int

// Of reads a file. One that is no YAML has no lines.
func Of(text []byte) Lines {
	var file yaml.Node
	out := Lines{}
	if err := yaml.Unmarshal(text, &file); err == nil && len(file.Content) == 1 {
		out.walk("", file.Content[0])
	}
	return out
}

// A Fault is what YAML says of a file that it cannot read.
type Fault struct {
	Line int // 0: it does not say
	Text string
}

// Faults takes apart what YAML says of a file that it cannot read.
func Faults(err error) (out []Fault) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	for _, text := range strings.Split(strings.TrimPrefix(text, "unmarshal errors:\n"), "\n") {
		f := Fault{Text: strings.TrimSpace(text)}
		if at := atLine.FindStringSubmatch(f.Text); at != nil {
			f.Line, _ = strconv.Atoi(at[1])
			f.Text = f.Text[len(at[0]):]
			if parsed.MatchString(f.Text) {
				f.Line++
			}
		} else if !strings.HasPrefix(f.Text, "unknown anchor") {
			f.Line = 1 // which it leaves out
		}
		out = append(out, f)
	}
	return out
}

// atLine is how YAML names a line. What its parser says, as parsed has it, and not
// its scanner, counts from 0.
var (
	atLine = regexp.MustCompile(`^line (\d+): `)
	parsed = regexp.MustCompile(`^did not find expected (<|node content|key|'-'|',')`)
)

// walk notes what is below a key. Aliases are left alone: they may stand for much more
// than the file holds.
func (l Lines) walk(key string, n *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i]
			at := strings.TrimPrefix(key+"."+name.Value, ".")
			l[at] = name.Line
			l.walk(at, n.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			at := fmt.Sprintf("%s[%d]", key, i)
			l[at] = item.Line
			l.walk(at, item)
		}
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
}

// Near is the line of a key, or of the closest one around it that the file has; 0 if
// it has none.
func (l Lines) Near(key string) int {
	for key != "" {
		if line, ok := l[key]; ok {
			return line
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return 0
}
