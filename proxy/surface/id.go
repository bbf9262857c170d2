package surface

import "strings"

// What the ids of answers begin with, by the API; the request's own follows.
const (
	ChatID       = "chatcmpl-"
	CompletionID = "cmpl-"
	ResponseID   = "resp_"
	MessageID    = "msg_"
)

// RequestID is the id of the request that a client knows by the id of its answer.
// Any other text comes back as it is, so that a request may go by its own id too.
func RequestID(id string) string {
	for _, prefix := range [...]string{ChatID, CompletionID, ResponseID, MessageID} {
		if own, ok := strings.CutPrefix(id, prefix); ok {
			return own
		}
	}
	return id
}
