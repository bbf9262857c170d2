package usage

// Figure is a number the engine may have told. The zero Figure was not told.
type Figure struct {
	N     int
	Known bool
}

// Totals are the engine's figures so far for one run.
type Totals struct {
	Prompt, Completion Figure
	// Thinking is the engine's own thinking figure, from wherever it stood.
	Thinking Figure
	// Cached are the prompt tokens taken from the engine's prefix cache.
	Cached Figure
	// DraftsAccepted and DraftsRejected are speculative draft tokens.
	DraftsAccepted, DraftsRejected Figure
	// Extra holds the members this package does not know, to be passed on.
	Extra Extra
}

// Extra holds unknown members of a usage object as compact JSON members
// without braces, such as `"a":1,"b":null`.
type Extra struct {
	Top, Prompt, Completion string
}
