package usage

// Report is what a request used.
type Report struct {
	Tokens Tokens
	// FinishReason is the one given to Finish; empty when the run was cut.
	FinishReason string
	// AnswerStarted says that visible answer text or a tool call came.
	AnswerStarted bool
	// Runs is the number of engine runs the answer was made of.
	Runs int
	// EnginePrompt and EngineCompletion are the engine's totals over all runs,
	// discarded tokens included.
	EnginePrompt, EngineCompletion Count
	// DraftsProposed is the number of speculative draft tokens offered.
	DraftsProposed Count
	// Residue is the engine's completion total minus the own count, where both
	// were taken; what the engine counted and the text does not show.
	Residue int
	// Extra are the engine's members to be passed on in Usage.
	Extra Extra
}

// Usage is the wire form of a report: the `usage` object of the OpenAI API.
type Usage struct {
	Tokens         Tokens
	DraftsRejected Count
	Extra          Extra
	// IncludeSources adds the member "oneslot" with the source of each figure.
	IncludeSources bool
}
