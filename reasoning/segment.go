package reasoning

// Kind is the channel a piece of text belongs to. The zero Kind is invalid.
type Kind uint8

// The channels of a stream.
const (
	// Thinking is text the model wrote for itself.
	Thinking Kind = iota + 1
	// Answer is text meant for the reader, tool calls included.
	Answer
)

// String returns the name of the channel, as used in labels and logs.
func (k Kind) String() string {
	switch k {
	case Thinking:
		return "thinking"
	case Answer:
		return "answer"
	default:
		return "unknown"
	}
}

// Segment is a run of text of one channel. Text is never empty.
type Segment struct {
	Kind Kind
	Text string
}
