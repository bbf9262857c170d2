// Package words is the language of the simulated engine: a rule that cuts any
// text into tokens, and texts made of those tokens.
//
// # Contract
//
//   - Split is total and lossless: the pieces joined are the text, also when it
//     is not valid UTF-8.
//   - Pieces of a composed text are what Split makes of it, so a count of
//     generated tokens and a count of the same text always agree.
//   - A thinking text is unchanged by strings.ToLower, an answer by
//     strings.ToUpper; the scripts without case differ too (hiragana against
//     katakana, other emoji), so a word in the wrong channel shows at a glance.
//   - The same seed gives the same text.
package words
