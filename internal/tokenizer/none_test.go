//go:build !hftokenizers

package tokenizer_test

import (
	"errors"
	"testing"

	"oneslot/internal/tokenizer"
)

func TestNotBuilt(t *testing.T) {
	if tokenizer.Available {
		t.Error("available without the native library")
	}
	tok, err := tokenizer.New("tokenizer.json")
	if !errors.Is(err, tokenizer.ErrNotBuilt) || tok != nil {
		t.Errorf("New: %v, %v; want ErrNotBuilt", tok, err)
	}
	var none tokenizer.Tokenizer
	if _, err := none.Count(t.Context(), "x"); !errors.Is(err, tokenizer.ErrNotBuilt) {
		t.Errorf("Count: %v", err)
	}
	if _, err := none.Encode(t.Context(), "x"); !errors.Is(err, tokenizer.ErrNotBuilt) {
		t.Errorf("Encode: %v", err)
	}
	if err := none.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
