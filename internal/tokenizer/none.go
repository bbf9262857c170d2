//go:build !hftokenizers

package tokenizer

import "context"

// Available says whether this program has the native library.
const Available = false

// Tokenizer counts nothing in a program without the native library.
type Tokenizer struct{}

// New returns ErrNotBuilt.
func New(string) (*Tokenizer, error) { return nil, ErrNotBuilt }

// Count returns ErrNotBuilt.
func (*Tokenizer) Count(context.Context, string) (int, error) { return 0, ErrNotBuilt }

// Encode returns ErrNotBuilt.
func (*Tokenizer) Encode(context.Context, string) ([]uint32, error) { return nil, ErrNotBuilt }

// Close does nothing.
func (*Tokenizer) Close() error { return nil }
