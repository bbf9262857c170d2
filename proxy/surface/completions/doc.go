// Package completions is Completions, the API that goes on with raw text.
//
// The text is what the model writes, without a template before it. It is not
// split: all of it is answer, token probabilities and stop strings are the
// engine's, and nothing is trimmed. API.Split has it split as a chat's is, for
// clients that render the template themselves: what the prompt's last marker has
// opened or closed says where the text begins, thinking comes in a member beside
// the text, and there are no token probabilities.
//
// A prompt is one text or one list of token ids. With `echo` it is repeated here,
// so it has to be a text then. A suffix (text to fill in before) is refused: the
// engines ignore it or fill in something else, since a model has to be made for it.
package completions
