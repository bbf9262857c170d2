package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"oneslot/ledger"
	"oneslot/usage"
)

func TestRowJSON(t *testing.T) {
	bare := ledger.Row{ID: id(2), Created: start, Outcome: ledger.Rejected, Status: 429, Reason: "queue_full", Tokens: usage.NotRun()}
	full := served(1)
	full.ClientRequestID, full.Budget = "theirs", "unsupported"
	for _, tc := range []struct {
		name string
		row  ledger.Row
		want string
	}{
		{"served", full, `{"object":"usage.record","id":"00000000000000000000000000000001","created":1796040001,"model":"ripple","engine":"spark","key":"team-a","class":"default",` +
			`"client_request_id":"theirs","route":"/v1/chat/completions","stream":true,"outcome":"served","status":200,"finish_reason":"stop",` +
			`"queue_wait_ms":40210,"prefill_ms":1710,"thinking_ms":65200,"answer_ms":10100,"slot_ms":77010,"answer_started":true,` +
			`"tokens":{"prompt":{"n":812,"source":"engine"},"cached_prompt":{"n":0,"source":"engine_config"},` +
			`"thinking":{"n":640,"source":"tokenizer"},"answer":{"n":102,"source":"tokenizer"},"completion":{"n":742,"source":"engine"},` +
			`"drafts_accepted":{"n":null,"source":"unknown"}},"runs":1,"engine_prompt":{"n":812,"source":"engine"},"engine_completion":{"n":742,"source":"engine"},"budget":"unsupported"}`},
		{"refused", bare, `{"object":"usage.record","id":"00000000000000000000000000000002","created":1796040000,"model":"","engine":null,"key":null,` +
			`"stream":false,"outcome":"rejected","status":429,"reason":"queue_full","finish_reason":null,` +
			`"queue_wait_ms":0,"prefill_ms":0,"thinking_ms":0,"answer_ms":0,"slot_ms":0,"answer_started":false,` +
			`"tokens":{"prompt":{"n":null,"source":"unknown"},"cached_prompt":{"n":null,"source":"unknown"},` +
			`"thinking":{"n":0,"source":"not_run"},"answer":{"n":0,"source":"not_run"},"completion":{"n":0,"source":"not_run"},` +
			`"drafts_accepted":{"n":null,"source":"unknown"}},"engine_prompt":{"n":null,"source":"unknown"},"engine_completion":{"n":null,"source":"unknown"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := json.Marshal(tc.row)
			must(t, err)
			if string(got) != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			var back ledger.Row
			must(t, json.Unmarshal(got, &back))
			again, err := json.Marshal(back)
			must(t, err)
			if string(again) != tc.want {
				t.Errorf("read back: %s", again)
			}
		})
	}
	var r ledger.Row
	if err := json.Unmarshal([]byte(`{"created":"yesterday"}`), &r); err == nil {
		t.Error("a record that is none is read")
	}
}

func TestOutcomes(t *testing.T) {
	for outcome, open := range map[ledger.Outcome]bool{
		ledger.Queued: true, ledger.Running: true,
		ledger.Rejected: false, ledger.Abandoned: false, ledger.Expired: false, ledger.Served: false, ledger.EngineFailed: false,
		ledger.ClientGone: false, ledger.Cancelled: false, ledger.SlotLost: false,
	} {
		if !outcome.Valid() || outcome.Open() != open {
			t.Errorf("%s: valid %v, open %v", outcome, outcome.Valid(), outcome.Open())
		}
	}
	if ledger.Outcome("").Valid() || ledger.Outcome("lost").Valid() {
		t.Error("an unknown outcome is valid")
	}
}

// FuzzRow reads any record and writes what it has read: the same bytes again,
// however often, and never a text that is not valid.
func FuzzRow(f *testing.F) {
	for _, r := range []ledger.Row{{}, queued(1), served(2)} {
		seed, err := json.Marshal(r)
		must(f, err)
		f.Add(seed)
	}
	f.Add([]byte(`{"tokens":{"prompt":{"n":3,"source":"\u0001\u2028"}}}`))
	f.Add([]byte(`{"tokens":{"prompt":{"n":3}},"created":-1,"queue_wait_ms":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r ledger.Row
		if json.Unmarshal(raw, &r) != nil {
			return
		}
		once, err := json.Marshal(r)
		must(t, err)
		var again ledger.Row
		must(t, json.Unmarshal(once, &again))
		twice, err := json.Marshal(again)
		must(t, err)
		if string(once) != string(twice) {
			t.Fatalf("first  %s\nsecond %s", once, twice)
		}
	})
}

// FuzzKept writes a row with any labels and reads it back: cut and mended, and
// the same wherever it is read from.
func FuzzKept(f *testing.F) {
	l := open(f, ledger.Config{Dir: f.TempDir()})
	f.Add("model", "key", "label", "reason")
	f.Add("\x00", "\xff\xfe", "日本語", "'")
	f.Add(strings.Repeat("a\xff", 200), strings.Repeat("\x80", 300), strings.Repeat("語", 100), "")
	n := 0
	f.Fuzz(func(t *testing.T, model, key, label, reason string) {
		n++
		r := served(n)
		r.Model, r.Key, r.ClientRequestID, r.Reason = model, key, label, reason
		must(t, l.Finish(r))
		waiting := get(t, l, n)
		must(t, l.Flush(t.Context()))
		kept := get(t, l, n)
		kept.Created, waiting.Created = start, start
		if kept != waiting {
			t.Fatalf("on disk   %+v\nin memory %+v", kept, waiting)
		}
		if len(kept.Model) > 256 || !utf8.ValidString(kept.Model) || len(label) <= 256 && utf8.ValidString(label) && kept.ClientRequestID != label {
			t.Fatalf("model of %d bytes, label %q of %q", len(kept.Model), kept.ClientRequestID, label)
		}
	})
}
