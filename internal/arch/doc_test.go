package arch

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

func TestPackageComments(t *testing.T) {
	comments := map[string][]string{}
	for _, s := range code(tree(t)) {
		comments[s.pkg] = append(comments[s.pkg], "")
		if s.file.Doc != nil {
			comments[s.pkg] = append(comments[s.pkg], s.path)
		}
	}
	for pkg, files := range comments {
		files = slices.DeleteFunc(files, func(f string) bool { return f == "" })
		switch {
		case len(files) == 0:
			t.Errorf("%s has no package comment; state what it promises in %s/doc.go", pkg, pkg)
		case len(files) > 1:
			t.Errorf("%s has %d package comments, in %v; one is enough", pkg, len(files), files)
		case !strings.HasSuffix(files[0], "/doc.go"):
			t.Errorf("%s has its package comment in %s; put it into doc.go", pkg, files[0])
		}
	}
}

func TestExportedNamesHaveComments(t *testing.T) {
	for _, s := range code(tree(t)) {
		if s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s: %s has no comment", s.fset.Position(d.Pos()), name)
			}
		}
	}
}

// undocumented returns the exported names of a declaration that have no comment
// of their own or of their group.
func undocumented(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var out []string
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc == nil && d.Doc == nil {
					out = append(out, spec.Name.Name)
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() && spec.Doc == nil && spec.Comment == nil && d.Doc == nil {
						out = append(out, name.Name)
					}
				}
			}
		}
		return out
	}
	return nil
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	name, ok := typ.(*ast.Ident)
	return ok && name.IsExported()
}
