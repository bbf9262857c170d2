// Package responses is the Responses API. A request is made a chat request, which
// is what engines read; the answer is told in items and in events of their own.
//
// # What a request becomes
//
//   - `instructions` and the items of `input` become messages. A reasoning item
//     becomes the thinking of the assistant's message that follows it, and what
//     happens to that is the format's rule, as for a chat.
//   - Tools that are functions are passed on. Those of other kinds are a service
//     of OpenAI's and are left out, and so are items of their calls.
//   - What OpenAI's service does for a client and nobody here can do is refused
//     with the field's name: `background`, `conversation`, `prompt`, uploaded
//     files. What only tunes that service is ignored.
//   - Fields that this API does not have reach the engine, as a chat's do.
//
// # What a client hears
//
//	created, queued*, in_progress
//	  output_item.added  reasoning      its text, as content or as summary
//	  output_item.done
//	  output_item.added  message        its text
//	  output_item.done
//	  output_item.added  function_call* its arguments
//	  output_item.done
//	completed | incomplete | failed, [DONE]
//
// Every event is named by its type and numbered. A request that waits, or whose
// engine is silent, is heard of by `response.queued` and `response.in_progress`,
// which count for idle timers that ignore comments; a comment before them says the
// place in line. A failure is an `error` event before `response.failed`.
//
// Thinking is the content of a reasoning item (`reasoning_text`). A client that
// asks for a summary by `reasoning.summary` reads no other thinking, so it gets
// the thinking as the summary, whole, since nobody here could make it shorter.
// With `include: ["reasoning.encrypted_content"]` it comes a second time in a
// form that is for sending back only. It is not encrypted: it is the client's own.
//
// # What is kept
//
// Nothing, unless Config says so; `previous_response_id` and references to items
// are then refused with the reason. What is kept belongs to the key that asked.
// It is bounded in number, in bytes and in age; the oldest goes first. A folder that
// takes nothing is told by Err, and memory takes its place until it does.
package responses
