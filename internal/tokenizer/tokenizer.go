//go:build hftokenizers

package tokenizer

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/daulet/tokenizers"
)

// Available says whether this program has the native library.
const Available = true

// Tokenizer counts with one tokenizer.json.
type Tokenizer struct {
	mu     sync.RWMutex // guards native: shared by counts, alone for Close
	native *tokenizers.Tokenizer
}

// New reads the tokenizer.json at path. Call Close when done with it.
func New(path string) (*Tokenizer, error) {
	config, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if config, err = whole(config); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFile, path, err)
	}
	native, err := tokenizers.FromBytes(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFile, path, err)
	}
	return &Tokenizer{native: native}, nil
}

// whole takes truncation and padding out of a tokenizer.json: they would make
// every long text the same length.
func whole(config []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(config, &members); err != nil {
		return nil, err
	}
	if isNull(members["truncation"]) && isNull(members["padding"]) {
		return config, nil
	}
	delete(members, "truncation")
	delete(members, "padding")
	return json.Marshal(members)
}

func isNull(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }

// Count returns the number of tokens of text. It cannot be stopped half-way;
// ctx is looked at before it begins.
func (t *Tokenizer) Count(ctx context.Context, text string) (int, error) {
	ids, err := t.Encode(ctx, text)
	return len(ids), err
}

// Encode returns the token ids of text.
func (t *Tokenizer) Encode(ctx context.Context, text string) ([]uint32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.native == nil {
		return nil, ErrClosed
	}
	// The library takes a C string. A NUL would end it; its neighbour is a
	// control character too, and like it one byte that no merge contains.
	text = strings.ReplaceAll(text, "\x00", "\x01")
	encoding, err := t.native.EncodeWithOptionsErr(text, false)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return encoding.IDs, nil
}

// Close frees the library's memory, once the counts under way have ended. It
// is safe to call it again.
func (t *Tokenizer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.native == nil {
		return nil
	}
	native := t.native
	t.native = nil
	return native.Close()
}
