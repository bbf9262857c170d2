// Package tokenizer counts tokens with a model's own tokenizer.json.
//
// It is the only package that needs cgo: the work is done by the tokenizers
// library of the model's makers, linked statically. That library has to be
// built first (scripts/build-tokenizers.sh), so the package does nothing
// without the build tag hftokenizers: New then returns ErrNotBuilt, Available
// is false, and everything else of the program builds and runs without it.
//
// # What a count is
//
// Special tokens in the text count as what they are, one token each; no begin
// or end token is added. A truncation or padding set in the file is ignored. A
// NUL byte counts as the control character U+0001 would, since the library
// takes a NUL for the end of the text; invalid UTF-8 counts as U+FFFD.
//
// A Tokenizer is safe for concurrent use. Close waits for the counts under way.
package tokenizer
