package openai_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"oneslot/internal/openai"
)

func TestRewrite(t *testing.T) {
	drop := func(key string) bool { return key == "rid" || strings.HasPrefix(key, "session_") }
	for _, c := range []struct {
		name, body string
		set        []openai.Member
		want       string
	}{
		{"nothing to do", `{"a":1,"b":"x"}`, nil, `{"a":1,"b":"x"}`},
		{"empty", `{}`, nil, `{}`},
		{"bytes are kept", `{ "a" : 1.50e+1 , "b":{ "c" : [1 , null] } ,"d":"\u00e9\/<&>" }`, nil, `{"a":1.50e+1,"b":{ "c" : [1 , null] },"d":"\u00e9\/<&>"}`},
		{"order is kept", `{"z":1,"a":2,"m":3}`, nil, `{"z":1,"a":2,"m":3}`},
		{"set replaces and goes last", `{"model":"x","a":1}`, []openai.Member{{Key: "model", Raw: `"y"`}, {Key: "n", Raw: "2"}}, `{"a":1,"model":"y","n":2}`},
		{"nulls are dropped, inner ones kept", `{"a":null,"b":{"c":null},"d":[null]}`, nil, `{"b":{"c":null},"d":[null]}`},
		{"a set null is dropped", `{"a":1}`, []openai.Member{{Key: "a", Raw: "null"}, {Key: "b", Raw: ""}}, `{}`},
		{"dropped by name", `{"rid":"x","session_params":{},"a":1}`, nil, `{"a":1}`},
		{"dropped by name, escaped", `{"\u0072id":"x","sess\u0069on_id":1,"a":1}`, nil, `{"a":1}`},
		{"replaced by name, escaped", `{"mod\u0065l":"x"}`, []openai.Member{{Key: "model", Raw: `"y"`}}, `{"model":"y"}`},
		{"escaped keys keep their bytes", `{"caf\u00e9":1}`, nil, `{"caf\u00e9":1}`},
		{"of a repeated key the last", `{"a":1,"b":2,"a":3}`, nil, `{"a":3,"b":2}`},
		{"of a repeated key the last, escaped", `{"a":1,"\u0061":3}`, nil, `{"a":3}`},
		{"a repeated key that ends null", `{"a":1,"a":null}`, nil, `{}`},
		{"a key to be escaped", `{}`, []openai.Member{{Key: `q"`, Raw: "1"}}, `{"q\"":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(openai.Rewrite([]byte(c.body), c.set, drop)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// FuzzRewrite holds the result to what encoding/json makes of the body and of
// the same change.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"model":2,"x":null}`, `{"a":1,"a":{"b":null}}`, `{"\u006dodel":[],"q\"":"\ud83d\ude00"}`, `{"":0,"rid":{}}`, "{\"\x82\":0,\"\x80\":null}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var want map[string]any
		if !json.Valid([]byte(body)) || json.Unmarshal([]byte(body), &want) != nil || want == nil {
			return
		}
		delete(want, "rid")
		want["model"] = "m"
		for key, value := range want {
			if value == nil {
				delete(want, key)
			}
		}
		out := openai.Rewrite([]byte(body), []openai.Member{{Key: "model", Raw: `"m"`}}, func(key string) bool { return key == "rid" })
		var got map[string]any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%q became %q: %v", body, out, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %q", body, out)
		}
	})
}
