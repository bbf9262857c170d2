// Package cache says how much of a prompt an engine must have taken from its
// prefix cache, where it has one and does not tell.
//
// A Watch follows one engine; a Visit is one answer of it. The prompt's token ids
// come from the engine's own tokenize endpoint, which applies the chat template,
// else from a tokenizer here on the text of the messages. The template is then
// missing: what it adds is the engine's own prompt total less the own count, and
// is spread over the messages.
//
// # Which engine
//
// A Watch also remembers, as hashes of text, the beginnings of the prompts that its
// engine has run since it was started, so that a prompt may be given to the engine that
// has read most of it. This is a guess that is never waited for: no tokenizer is asked,
// since that would keep the request from its line, and it is not known what an engine
// has dropped.
//
// # Never in the way
//
// A visit tokenizes in a goroutine of its own, which begins with the first token
// of the answer: neither the prefill nor the stream waits for it. Its result is
// asked for when the answer has ended, for a second at most. What the engine wrote
// is tokenized after that, in a goroutine of the Watch: an answer's end, and the
// slot, do not wait for it. Where it hangs, a few answers wait to be remembered;
// further ones are not, and the model is less sure.
//
// The slot does wait for the figures of the row, which is written as the request
// ends: for the rest of the prompt's tokenizing, and for the count that splits
// thinking from answer where the engine does not tell.
//
// # Order
//
// Each visit looks up its prompt only after those that were over when it began have
// been remembered. Of an engine with several slots, one that began while others ran
// has no figure: nobody knows how far their prompts were in the cache.
//
// # What ends a model
//
// An engine that was started anew has an empty cache. A Watch asks it what it is
// with every visit, and begins a new model when its start has changed, or when it
// was found unreachable since.
//
// # Ownership
//
// A visit's goroutines have ended when it is remembered, all of them when Close of
// the Watch returns.
package cache
