// Package arch holds no code: its tests are the rules of the tree. They read the
// sources themselves, so that the test cache sees every file that matters.
//
//   - which package may import which (imports_test.go), module-wide fences for
//     third parties, and which packages are pure;
//   - one package comment for each package, and a comment for each exported
//     name (doc_test.go);
//   - how long files, functions, parameter lists and interfaces may get
//     (size_test.go).
//
// A rule that is in the way is changed here, with its reason, in the same commit
// as the code that needs it.
package arch
