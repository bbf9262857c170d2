// Package budget reads how much a request wants the model to think, and says
// when it has thought enough.
//
// It is pure: no I/O, no clock, no goroutines.
//
// # What it promises
//
//   - Every spelling that clients use means one number of tokens: reasoning_effort,
//     reasoning, thinking, enable_thinking, thinking_budget and the
//     chat_template_kwargs of the same meaning. Off is 0, no limit is NoLimit.
//     A number beats a word, the smaller of two numbers counts, and "off" beats
//     both.
//   - A Gauge is exact where the engine tells its running totals, or where a
//     tokenizer can be asked; the number of times it asks grows with the
//     logarithm of the budget. Without either it goes by the length of the text.
package budget
