// Package tokenizer counts tokens with a model's own tokenizer.json.
package tokenizer
