package ask

// Format is how the simulated model marks its thinking.
type Format struct {
	// Open and Close are the markers. Zero means "<think>" and "</think>".
	Open, Close string

	// StartsInThinking says that the chat template ends with Open, so that the
	// model writes only Close. Zero means the model writes Open itself, except
	// in a Format that is wholly zero, where it means true.
	StartsInThinking bool

	// Plain says that markers are ordinary text of several tokens, which come
	// one by one. Zero means each marker is one token.
	Plain bool

	// Special says that markers are special tokens, which do not show in raw
	// text unless the request has skip_special_tokens false. Zero means they
	// always show.
	Special bool

	// Switch says that the template knows chat_template_kwargs.enable_thinking
	// and reasoning_effort "none". Zero means it ignores them.
	Switch bool
}

// WithDefaults returns f with its zero fields filled in.
func (f Format) WithDefaults() Format {
	if f == (Format{}) {
		f.StartsInThinking = true
	}
	if f.Open == "" && f.Close == "" {
		f.Open, f.Close = "<think>", "</think>"
	}
	return f
}

// Marks returns the markers that are one token each.
func (f Format) Marks() []string {
	if f.Plain {
		return nil
	}
	return []string{f.Open, f.Close}
}
