package retry

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		header  http.Header
		key     string
		again   bool
		matters bool
	}{
		"nothing":        {headers(), "", false, false},
		"key":            {headers("Idempotency-Key", " k "), "k", false, true},
		"first try":      {headers("X-Stainless-Retry-Count", "0"), "", false, false},
		"retry":          {headers("X-Stainless-Retry-Count", "2"), "", true, true},
		"no number":      {headers("X-Stainless-Retry-Count", "x"), "", false, false},
		"python timeout": {headers("X-Stainless-Read-Timeout", "0.5"), "", false, true},
		"node timeout":   {headers("X-Stainless-Timeout", "0"), "", false, true},
	} {
		a, err := Read("team", c.header)
		if err != nil || a.Key != c.key || a.Again != c.again || a.Matters() != c.matters || a.Caller != "team" {
			t.Errorf("%s: read %+v, %v", name, a, err)
		}
	}
	if _, err := Read("", headers("Idempotency-Key", strings.Repeat("k", 256))); err == nil {
		t.Error("a key of 256 bytes passes")
	}
}

// TestPatience: a client leaves at its time if it leaves within a tenth of it; whole
// seconds may have been cut.
func TestPatience(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, c := range []struct {
		name, value string
		first, last time.Duration // of the times that are its end; 0: none are
	}{
		{"X-Stainless-Read-Timeout", "600", ms(540_000), ms(660_000)},
		{"X-Stainless-Read-Timeout", "1.5", ms(1350), ms(1650)},
		{"X-Stainless-Timeout", "600", ms(540_000), ms(660_000)},
		{"X-Stainless-Timeout", "2", ms(1800), ms(3000)},
		{"X-Stainless-Timeout", "2.0", ms(1800), ms(2200)},
		{"X-Stainless-Timeout", "0", 0, ms(1000)},
		{"X-Stainless-Read-Timeout", "0", 0, 0},
		{"X-Stainless-Read-Timeout", "None", 0, 0},
		{"X-Stainless-Timeout", "-3", 0, 0},
		{"X-Stainless-Timeout", "NaN", 0, 0},
		{"X-Stainless-Timeout", "1e300", 0, 0},
	} {
		a, err := Read("", headers(c.name, c.value))
		if err != nil {
			t.Fatal(err)
		}
		p := a.Patience
		if p.Known() != (c.last > 0) || p.Ends(c.first-1) || p.Ends(c.last+1) || c.last > 0 && (!p.Ends(c.first) || !p.Ends(c.last)) {
			t.Errorf("%s: %s is %+v", c.name, c.value, p)
		}
	}
	silent, _ := Read("", headers("X-Stainless-Lang", "js"))
	if p := silent.Patience; !p.Ends(ms(600_000)) || p.Ends(ms(539_999)) || p.Ends(ms(660_001)) || p.Most() != 0 {
		t.Errorf("a node client that says nothing has %+v", p)
	}
	if said, _ := Read("", headers("X-Stainless-Lang", "js", "X-Stainless-Timeout", "7")); said.Patience.Ends(ms(600_000)) || said.Patience.Most() != 8*time.Second {
		t.Errorf("a node client that says 7 s has %+v", said.Patience)
	}
	both := headers("X-Stainless-Read-Timeout", "5", "X-Stainless-Timeout", "7")
	if a, _ := Read("", both); a.Patience.Most() != 5*time.Second {
		t.Errorf("of two times %v counts", a.Patience.Most())
	}
	if a, _ := Read("", headers("X-Stainless-Timeout", "7")); a.Patience.Most() != 8*time.Second {
		t.Errorf("7 s that may have been cut mean at most %v", a.Patience.Most())
	}
}

// TestSum: what was asked is told apart by its words and its place.
func TestSum(t *testing.T) {
	sum := func(path, body string) [32]byte {
		var a Ask
		a.Sum(path, []byte(body))
		return a.Body
	}
	if again := sum("/a", "x"); again != sum("/a", "x") || sum("/a", "x") == sum("/a", "y") || sum("/a", "x") == sum("/b", "x") {
		t.Error("the hash does not follow what was asked")
	}
}
