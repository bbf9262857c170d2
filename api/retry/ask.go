package retry

import (
	"crypto/sha256"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"oneslot/internal/openai"
)

// An Ask is what a request says of itself and of retries. Two with the same
// fields are one request, asked twice.
type Ask struct {
	// Caller names the API key; nobody repeats another's request.
	Caller string
	// Key is the Idempotency-Key, "" if there is none.
	Key string
	// Again is whether the client's library says that it asks again.
	Again bool
	// Patience is how long the client says that it waits.
	Patience Patience
	// Came is when it came; its patience counts from there.
	Came time.Time
	// Body is the hash of what was asked.
	Body [sha256.Size]byte
}

// maxKey is the longest Idempotency-Key, in bytes.
const maxKey = 255

// Read reads the headers of a request. The hash of its body is added by Sum.
func Read(caller string, h http.Header) (Ask, error) {
	a := Ask{Caller: caller, Key: strings.TrimSpace(h.Get("Idempotency-Key"))}
	if len(a.Key) > maxKey {
		return a, openai.Invalid("", "invalid_value", "The Idempotency-Key has %d bytes; at most %d are allowed.", len(a.Key), maxKey)
	}
	if text := h.Get("X-Stainless-Retry-Count"); text != "" {
		n, err := strconv.Atoi(text)
		a.Again = err == nil && n > 0
	}
	a.Patience = patienceOf(h)
	return a, nil
}

// Matters reports whether the request may repeat another, or be repeated.
func (a *Ask) Matters() bool { return a.Key != "" || a.Again || a.Patience.Known() }

// Sum notes what was asked, and where.
func (a *Ask) Sum(path string, body []byte) {
	h := sha256.New()
	_, _ = h.Write([]byte(path + "\n")) // never fails
	_, _ = h.Write(body)
	h.Sum(a.Body[:0])
}

// Patience is how long a client waits, by its own word, before it hangs up and asks
// again. The zero value is one that has said nothing.
type Patience struct {
	told    time.Duration
	cut     bool // it may have been cut to whole seconds
	guessed bool // it is the library's usual time
}

// patienceOf reads the time that openai-python announces, or that of the other
// libraries, which cut it to whole seconds.
func patienceOf(h http.Header) Patience {
	for _, name := range []string{"X-Stainless-Read-Timeout", "X-Stainless-Timeout"} {
		text := h.Get(name)
		if text == "" {
			continue
		}
		s, err := strconv.ParseFloat(text, 64)
		if err != nil || !(s >= 0 && s <= maxPatience.Seconds()) {
			continue // None, NaN, or no time to reckon with
		}
		told := time.Duration(math.Round(s * float64(time.Second)))
		if cut := name == "X-Stainless-Timeout" && !strings.Contains(text, "."); cut || told > 0 {
			return Patience{told: told, cut: cut}
		}
	}
	if h.Get("X-Stainless-Lang") == "js" {
		return Patience{told: usualNode, guessed: true}
	}
	return Patience{}
}

// usualNode is the timeout of openai-node, which it announces only where a request
// has one of its own.
const usualNode = 10 * time.Minute

// maxPatience is the longest time that counts as one.
const maxPatience = 30 * 24 * time.Hour

// Known reports whether it is known how long the client waits.
func (p Patience) Known() bool { return p != Patience{} }

// Most is the longest that it may mean; 0 where the client has not said it itself.
func (p Patience) Most() time.Duration {
	switch {
	case p.guessed:
		return 0
	case p.cut:
		return p.told + time.Second
	default:
		return p.told
	}
}

// Ends reports whether a client that has waited for d has left, or is just leaving,
// because its time was over: within a tenth of it, and within the second that may
// have been cut off.
func (p Patience) Ends(d time.Duration) bool {
	return p.Known() && d >= p.told-p.told/10 && d <= max(p.told+p.told/10, p.Most())
}
