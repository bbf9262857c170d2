package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "oneslot"

// source is one Go file of the module.
type source struct {
	path string // from the root, with slashes
	pkg  string // folder from the root
	test bool
	fset *token.FileSet
	file *ast.File
	rows int
}

// tree reads every Go file of the module. Nested modules have rules of their own.
func tree(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, path, d.Name())
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s := source{test: strings.HasSuffix(path, "_test.go"), fset: token.NewFileSet(), rows: strings.Count(string(text), "\n")}
		rel, _ := filepath.Rel(root, path)
		s.path = filepath.ToSlash(rel)
		s.pkg = filepath.ToSlash(filepath.Dir(rel))
		if s.file, err = parser.ParseFile(s.fset, path, text, parser.ParseComments); err != nil {
			return err
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("only %d Go files found: the rules would pass for want of code", len(out))
	}
	return out
}

func enter(root, path, name string) error {
	if path == root {
		return nil
	}
	if strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "node_modules" {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// code is the sources that go into the program.
func code(all []source) []source {
	return slices.DeleteFunc(slices.Clone(all), func(s source) bool { return s.test })
}

func imports(s source) []string {
	var out []string
	for _, i := range s.file.Imports {
		out = append(out, strings.Trim(i.Path.Value, `"`))
	}
	return out
}
