package report

import (
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"oneslot/internal/openai"
	"oneslot/ledger"
	"oneslot/proxy/surface"
)

// An Ask is a question to the ledger.
type Ask struct {
	// Query selects the rows. Its Limit is 0 where none was named.
	Query ledger.Query
	// By adds them up. Zero means the rows themselves.
	By ledger.By
	// CSV says how the answer is written. Zero means JSON.
	CSV bool
}

// Read reads the parameters since, until, key, model, outcome, by, limit, after and
// format. Errors are *openai.Problem.
func Read(r *http.Request) (Ask, error) {
	v := r.URL.Query()
	a := Ask{By: ledger.By(v.Get("by")), Query: ledger.Query{
		Key: v.Get("key"), Model: v.Get("model"), Outcome: ledger.Outcome(v.Get("outcome")), After: surface.RequestID(v.Get("after")),
	}}
	var err error
	if a.CSV, err = wantsCSV(r, v); err != nil {
		return a, err
	}
	if a.Query.Since, err = moment(v, "since"); err != nil {
		return a, err
	}
	if a.Query.Until, err = moment(v, "until"); err != nil {
		return a, err
	}
	if a.By != "" && !a.By.Valid() {
		return a, openai.Invalid("by", "invalid_value", "'by' must be key, model or day.")
	}
	if text := v.Get("limit"); text != "" {
		if a.Query.Limit, err = strconv.Atoi(text); err != nil || a.Query.Limit < 1 || a.Query.Limit > 1000 {
			return a, openai.Invalid("limit", "invalid_value", "'limit' must be a whole number from 1 to 1000.")
		}
	}
	return a, nil
}

// wantsCSV reads format, else what the client accepts.
func wantsCSV(r *http.Request, v url.Values) (bool, error) {
	switch format := v.Get("format"); format {
	case "csv", "json":
		return format == "csv", nil
	case "":
		for _, part := range strings.Split(strings.Join(r.Header.Values("Accept"), ","), ",") {
			switch kind, _, _ := mime.ParseMediaType(part); kind {
			case "text/csv":
				return true, nil
			case "application/json", "*/*":
				return false, nil
			}
		}
		return false, nil
	default:
		return false, openai.Invalid("format", "invalid_value", "'format' must be json or csv.")
	}
}

// moment reads a time.
func moment(v url.Values, name string) (time.Time, error) {
	t, err := ledger.ParseMoment(v.Get(name), time.Now())
	if err != nil {
		return t, openai.Invalid(name, "invalid_value", "'%s': %v.", name, err)
	}
	return t, nil
}
