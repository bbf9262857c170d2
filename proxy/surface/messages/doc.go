// Package messages is Anthropic's Messages API, made of chat requests.
//
// # A request
//
// System text, blocks of text, images, tool uses and their results become chat
// messages; thinking that a client sends back becomes the thinking of its message,
// which goes where the format's history rule says, and its signature is not looked
// at. Tools without a schema of their own are Anthropic's and are left out, as are
// the blocks they leave in a history. What an engine cannot read in a message of
// the user, such as a PDF, is refused. An assistant's message that stands last is
// continued.
//
// `thinking.budget_tokens`, `thinking.type: disabled` and `output_config.effort`
// set the budget of thinking. Blocks of thinking are sent to clients that ask for
// thinking, as there; without `thinking` the model thinks as it does, unseen.
//
// # An answer
//
// A stream begins with message_start, at the latest with the first sign of life;
// signs of life are ping events, with a comment that says why. Then come blocks,
// one after the other: thinking, whose signature is a digest of its text (clients
// drop thinking that has none), text, and tool uses. Of several tool calls that an
// engine sends interleaved each is still one block. message_start has the prompt's
// tokens where the answer begins at once and the engine tells them with it, and 0
// where the request waits, since the prompt has not been read then. message_delta has the reason
// and the whole usage, which takes the place of the first, and in which input tokens exclude those read from a cache; message_stop
// ends the stream, and an error event one that cannot be completed.
package messages
