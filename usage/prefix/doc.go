// Package prefix predicts how much of a prompt an engine takes from its prefix
// cache, for engines that have one and do not tell.
//
// It is pure and works on token ids. A Model is told what the engine has run, in
// order, and answers what it will find again. There are two kinds, since engines
// keep prompts in two ways; both were measured on the real engines:
//
//   - Tree, for SGLang and vLLM: whatever was run can be found again, by its
//     longest beginning, in whole blocks, at most the prompt less one token. What
//     was used longest ago goes first when the cache is full.
//   - Slot, for llama.cpp's server: the slot holds one sequence, which the next
//     prompt overwrites from where it differs. A sequence of which less than half
//     would be kept is put aside first, and may be taken up again.
//
// A model that has not seen all that its engine ran says unknown where it finds
// nothing at all; what it does find is then the least that the engine has.
//
// Memory is bounded: a model keeps at most Rule.Capacity tokens, four bytes each,
// with a share for what holds them together.
//
// A Model is not safe for concurrent use.
package prefix
