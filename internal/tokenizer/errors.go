package tokenizer

import "errors"

// Causes a caller can test for.
var (
	// ErrNotBuilt is returned by New in a program without the native library.
	ErrNotBuilt = errors.New("tokenizer: not built in: run scripts/build-tokenizers.sh and build with -tags hftokenizers, or set no tokenizer")
	// ErrFile is returned by New for a file that is no tokenizer.json.
	ErrFile = errors.New("tokenizer: no usable tokenizer.json")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("tokenizer: closed")
	// ErrFailed is returned when the library cannot encode a text.
	ErrFailed = errors.New("tokenizer: encoding failed")
)
