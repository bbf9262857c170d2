package arch

import (
	"go/ast"
	"testing"
)

// The gates. What does not fit is two things.
const (
	maxFileRows    = 250
	maxFuncRows    = 60
	maxStatements  = 40
	maxParameters  = 4
	maxMethods     = 3
	maxSourceFiles = 10
	minTestRatio   = 1.0
)

func TestFileSizes(t *testing.T) {
	files := map[string]int{}
	for _, s := range code(tree(t)) {
		files[s.pkg]++
		if s.rows > maxFileRows {
			t.Errorf("%s has %d lines; %d are allowed", s.path, s.rows, maxFileRows)
		}
	}
	for pkg, n := range files {
		if n > maxSourceFiles {
			t.Errorf("%s has %d source files; %d are allowed", pkg, n, maxSourceFiles)
		}
	}
}

func TestFunctionSizes(t *testing.T) {
	for _, s := range code(tree(t)) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				checkFunction(t, s, n)
			case *ast.InterfaceType:
				if methods := n.Methods.NumFields(); methods > maxMethods {
					t.Errorf("%s: an interface has %d methods; %d are allowed", s.fset.Position(n.Pos()), methods, maxMethods)
				}
			}
			return true
		})
	}
}

func checkFunction(t *testing.T, s source, f *ast.FuncDecl) {
	t.Helper()
	at := s.fset.Position(f.Pos())
	if f.Body == nil {
		return
	}
	if rows := s.fset.Position(f.End()).Line - at.Line - 1; rows > maxFuncRows {
		t.Errorf("%s: %s has %d lines; %d are allowed", at, f.Name.Name, rows, maxFuncRows)
	}
	if n := statements(f.Body); n > maxStatements {
		t.Errorf("%s: %s has %d statements; %d are allowed", at, f.Name.Name, n, maxStatements)
	}
	if n := f.Type.Params.NumFields(); n > maxParameters {
		t.Errorf("%s: %s has %d parameters; %d are allowed, then a struct", at, f.Name.Name, n, maxParameters)
	}
}

func statements(body *ast.BlockStmt) int {
	n := 0
	ast.Inspect(body, func(node ast.Node) bool {
		if _, ok := node.(ast.Stmt); ok {
			if _, block := node.(*ast.BlockStmt); !block {
				n++
			}
		}
		return true
	})
	return n
}

func TestTestsWeighAsMuchAsCode(t *testing.T) {
	tests, sources := 0, 0
	for _, s := range tree(t) {
		if s.test {
			tests += s.rows
		} else {
			sources += s.rows
		}
	}
	if ratio := float64(tests) / float64(sources); ratio < minTestRatio {
		t.Errorf("tests have %d lines, sources %d: the ratio %.2f is below %.1f", tests, sources, ratio, minTestRatio)
	}
}
