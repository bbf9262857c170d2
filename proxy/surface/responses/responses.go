package responses

import (
	"strings"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/surface"
)

// Config says what is kept of a response when it has ended.
type Config struct {
	// On has responses kept. Zero means that none is.
	On bool
	// Keep is how many, the newest ones. Zero means 1000.
	Keep int
	// MaxBytes is how much is kept, about. Zero means 256 MiB.
	MaxBytes int64
	// Dir is the folder that they are kept in. Zero means memory alone.
	Dir string
	// For is how long they are kept. Zero means as long as there is room.
	For time.Duration
}

// API is the Responses API. Create it with New; it is safe for concurrent use.
type API struct {
	kept *store
}

// New returns the API. The error says that the folder cannot be used.
func New(cfg Config) (*API, error) {
	if cfg.Keep == 0 {
		cfg.Keep = 1000
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 256 << 20
	}
	kept, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	return &API{kept: kept}, nil
}

// Err is the error of the latest write into the folder, nil when it went well.
// Meanwhile responses are kept in memory, and would be lost with the process.
func (a *API) Err() error { return a.kept.err() }

// Decode reads a request and makes it a chat request.
func (a *API) Decode(in surface.In) (*openai.Request, surface.Talk, error) {
	p, err := read(in.Body)
	if err != nil {
		return nil, nil, err
	}
	if p.items, err = a.conversation(p, in.Key); err != nil {
		return nil, nil, err
	}
	body, err := p.chat(in.Body)
	if err != nil {
		return nil, nil, err
	}
	req, err := openai.DecodeChat(body)
	if err != nil {
		return nil, nil, p.names().Rename(err)
	}
	req.Names = p.names()
	// Its usage is always told.
	req.IncludeUsage = true
	return req, newTalk(a, p, in, req), nil
}

// conversation is the input with what went before it, as a list of raw items.
func (a *API) conversation(p *params, key string) ([]string, error) {
	var items []string
	if id := p.text("previous_response_id"); id != "" {
		before, err := a.kept.get(id, key)
		if err != nil {
			return nil, openai.Invalid("previous_response_id", "previous_response_not_found", "The response %.80q %s Send the whole conversation as 'input'.", id, a.why())
		}
		items = append(items, before.Items...)
		items = append(items, before.Output...)
		p.before = len(items)
	}
	for i, item := range p.input() {
		if item.Get("type").Str == "item_reference" {
			raw, err := a.kept.item(item.Get("id").Str, key)
			if err != nil {
				return nil, openai.Invalid(place(i)+".id", "item_not_found", "The item %.80q %s Send the whole conversation as 'input'.", item.Get("id").Str, a.why())
			}
			items = append(items, raw)
			continue
		}
		items = append(items, item.Raw)
	}
	return items, nil
}

// why says why something is not there.
func (a *API) why() string {
	if !a.kept.cfg.On {
		return "is not known: this proxy keeps no responses (responses.store is off)."
	}
	return "is not known, or not any more."
}

// Problem is the error object of OpenAI's API.
func (*API) Problem(p *openai.Problem) []byte { return p.JSON() }

// Get returns a kept response of the key, as JSON. What was said is its owner's
// alone: no other key gets it, an admin's neither.
func (a *API) Get(id, key string) ([]byte, error) {
	r, err := a.kept.get(id, key)
	if err != nil {
		return nil, a.missing(id)
	}
	return []byte(r.Object), nil
}

// Delete forgets a kept response of the key and returns what a client is told.
func (a *API) Delete(id, key string) ([]byte, error) {
	if _, err := a.kept.get(id, key); err != nil {
		return nil, a.missing(id)
	}
	a.kept.drop(id)
	return []byte(`{"id":` + openai.String(id) + `,"object":"response","deleted":true}`), nil
}

// missing is the problem of a response that is not kept.
func (a *API) missing(id string) *openai.Problem {
	return &openai.Problem{
		Status: 404, Type: "invalid_request_error", Code: "response_not_found", Param: "response_id",
		Message: "The response " + openai.String(short(id)) + " " + a.why(),
	}
}

func short(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") // the cut may be inside a rune
	}
	return s
}

// Cancelled is the response object of a request that was cancelled before it had
// an answer to show.
func Cancelled(id, model string, created time.Time) []byte {
	o := object{id: surface.ResponseID + id, model: model, created: created.Unix(), p: &params{}, thin: true}
	return o.json("cancelled", state{})
}
