package api

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"oneslot/api/openapi"

	"github.com/labstack/echo/v4"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// A description is the API's own, with its schemas ready to be used.
type description struct {
	paths   map[string]map[string]any // path, then what is said of it
	schemas map[string]*jsonschema.Schema
}

// described checks a response against the description. It is asked for every
// response that a test of this package reads.
func described(r *http.Request, g got) error {
	d, err := theDescription()
	if err != nil || r == nil { // without a request where a test has written it by hand
		return err
	}
	kind, _, _ := strings.Cut(g.header.Get("Content-Type"), ";")
	path, op := d.operation(r)
	switch {
	case r.Method == http.MethodHead || r.Method == http.MethodOptions || strings.HasPrefix(r.URL.Path, "/test/"):
		return nil
	case op == nil && anthropics(r.URL.Path):
		return d.check("components/schemas/AnthropicError", g.body)
	case op == nil:
		return d.check("components/schemas/Error", g.body)
	case kind == "text/event-stream":
		return d.stream(path, strings.ToLower(r.Method), g)
	}
	at, content, err := d.content(path, strings.ToLower(r.Method), op, g.status)
	if err != nil {
		return err
	}
	if _, ok := content[kind]; !ok {
		return fmt.Errorf("%s: no word of %q", at, kind)
	}
	if kind != "application/json" {
		return nil
	}
	return d.check(at+"/content/application~1json/schema", g.body)
}

// stream checks the data of each event. What is no event of the description, and a
// field that it does not name, is a fault.
func (d *description) stream(path, method string, g got) error {
	at, content, err := d.content(path, method, d.paths[path][method].(map[string]any), g.status)
	if err != nil {
		return err
	}
	if content["text/event-stream"] == nil {
		return fmt.Errorf("%s: no word of a stream", at)
	}
	for _, data := range g.events() {
		if data == "[DONE]" {
			data = `"[DONE]"`
		}
		if err := d.check(at+"/content/text~1event-stream/schema", data); err != nil {
			return fmt.Errorf("%s: %w", data, err)
		}
	}
	return nil
}

// feedEvent checks an event of the line's feed, which is told by its name.
func (d *description) feedEvent(name, data string) error {
	all := d.paths["components"]["schemas"].(map[string]any)["QueueEvent"].(map[string]any)
	schema, ok := all["x-events"].(map[string]any)[name].(string)
	if !ok {
		return fmt.Errorf("no word of an event %q", name)
	}
	return errors.Join(d.check("components/schemas/QueueEvent", data), d.check("components/schemas/"+schema, data))
}

// content finds what is said of a response: by its status, else by default; it
// may be said elsewhere.
func (d *description) content(path, method string, op map[string]any, status int) (at string, content map[string]any, err error) {
	responses := op["responses"].(map[string]any)
	name := strconv.Itoa(status)
	if responses[name] == nil {
		name = "default"
	}
	response, ok := responses[name].(map[string]any)
	if !ok || status < 400 && name == "default" {
		return "", nil, fmt.Errorf("no word of status %d", status)
	}
	at = "paths/" + pointer(path) + "/" + method + "/responses/" + name
	if ref, ok := response["$ref"].(string); ok {
		at = strings.TrimPrefix(ref, "#/")
		response = d.paths["components"]["responses"].(map[string]any)[at[strings.LastIndexByte(at, '/')+1:]].(map[string]any)
	}
	content, _ = response["content"].(map[string]any)
	return at, content, nil
}

// operation finds what a request is for; nil for what is not there.
func (d *description) operation(r *http.Request) (path string, op map[string]any) {
	given := strings.TrimSuffix(r.URL.EscapedPath(), "/")
	for path, item := range d.paths {
		forms := []string{path}
		if item["x-also-without-v1"] == true {
			forms = append(forms, strings.TrimPrefix(path, "/v1"))
		}
		if op, ok := item[strings.ToLower(r.Method)].(map[string]any); ok && slices.ContainsFunc(forms, func(form string) bool { return matches(form, given) }) {
			return path, op
		}
	}
	return "", nil
}

// matches reports whether a path is of a form. A parameter is one segment, but for
// the name of a model, which may hold slashes.
func matches(form, path string) bool {
	if form == path {
		return true
	}
	head, rest, ok := strings.Cut(form, "{")
	tail, found := strings.CutPrefix(path, head)
	if !ok || !found || tail == "" {
		return false
	}
	name, behind, _ := strings.Cut(rest, "}")
	if name == "model" {
		return true
	}
	value, more, _ := strings.Cut(tail, "/")
	return value != "" && value != "events" && strings.TrimPrefix(behind, "/") == more
}

func (d *description) check(name, text string) error {
	schema, ok := d.schemas[name]
	if !ok {
		return fmt.Errorf("there is no schema %s", name)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// pointer is a path as a part of a JSON pointer.
func pointer(path string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path)
}

var theDescription = sync.OnceValues(func() (*description, error) {
	var root map[string]any
	if err := yaml.Unmarshal([]byte(openapi.YAML()), &root); err != nil {
		return nil, err
	}
	d := &description{paths: map[string]map[string]any{}, schemas: map[string]*jsonschema.Schema{}}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("http://oneslot.test/api", root); err != nil {
		return nil, err
	}
	var faults []error
	var walk func(at string, v any)
	walk = func(at string, v any) {
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		if strings.HasPrefix(at, "components/schemas/") && strings.Count(at, "/") == 2 || strings.HasSuffix(at, "/schema") && !strings.Contains(at, "parameters") {
			schema, err := compiler.Compile("http://oneslot.test/api#/" + at)
			d.schemas[strings.NewReplacer("%7B", "{", "%7D", "}").Replace(at)] = schema
			d.schemas[at] = schema
			faults = append(faults, err)
			return
		}
		for key, value := range m {
			walk(strings.TrimPrefix(at+"/"+pointer(key), "/"), value)
		}
	}
	walk("", root)
	for path, item := range root["paths"].(map[string]any) {
		d.paths[path] = item.(map[string]any)
	}
	d.paths["components"] = root["components"].(map[string]any)
	return d, errors.Join(faults...)
})

// TestDescriptionNamesEveryRoute, and none that is not there.
func TestDescriptionNamesEveryRoute(t *testing.T) {
	d, err := theDescription()
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for path, item := range d.paths {
		for _, method := range methods {
			if item[strings.ToLower(method)] == nil {
				continue
			}
			said[method+" "+path] = true
			if item["x-also-without-v1"] == true {
				said[method+" "+strings.TrimPrefix(path, "/v1")] = true
			}
		}
	}
	routed := map[string]bool{}
	inBubble(t, setup{}, func(_ *testing.T, e *edge) {
		for _, r := range e.server.echo.Routes() {
			path := strings.Replace(r.Path, "*", "{model}", 1)
			var segments []string
			for segment := range strings.SplitSeq(path, "/") {
				if name, ok := strings.CutPrefix(segment, ":"); ok {
					segment = "{" + name + "}"
				}
				segments = append(segments, segment)
			}
			if r.Method != echo.RouteNotFound && r.Method != http.MethodHead {
				routed[r.Method+" "+strings.Join(segments, "/")] = true
			}
		}
	})
	for _, one := range slices.Sorted(maps.Keys(routed)) {
		if !said[one] {
			t.Errorf("api/openapi/openapi.yaml does not describe %s", one)
		}
	}
	for _, one := range slices.Sorted(maps.Keys(said)) {
		if !routed[one] {
			t.Errorf("api/openapi/openapi.yaml describes %s, which is no route", one)
		}
	}
}

// TestDescriptionIsServed, to callers without a key too.
func TestDescriptionIsServed(t *testing.T) {
	inBubble(t, setup{cfg: keyed()}, func(t *testing.T, e *edge) {
		g := e.do(call{path: "/openapi.yaml"})
		if g.status != 200 || g.header.Get("Content-Type") != "application/yaml" || g.body != openapi.YAML() || !bytes.HasPrefix([]byte(g.body), []byte("openapi: 3.1.0\n")) {
			t.Errorf("got %d %v %.40q", g.status, g.header, g.body)
		}
	})
}

// TestDescriptionIsStrict: what it must not let pass, it does not.
func TestDescriptionIsStrict(t *testing.T) {
	d, err := theDescription()
	if err != nil {
		t.Fatal(err)
	}
	for name, texts := range map[string][]string{
		"Error":          {`{}`, `{"error":{"message":"x","type":"server_error","param":null}}`, `{"error":{"message":"","type":"server_error","param":null,"code":null}}`, `{"message":"x"}`},
		"AnthropicError": {`{"type":"error","error":{"type":"api_error","message":"x"}}`, `{"error":{"message":"x","type":"server_error","param":null,"code":null}}`},
		"ChatChunk":      {`{"id":"chatcmpl-0","object":"chat.completion.chunk","created":1,"model":"m","choices":[]}`, `{"error":{}}`},
		"Message":        {`{"id":"msg_` + strings.Repeat("0", 32) + `","type":"message","role":"assistant","model":"m","content":[{"type":"text"}],"stop_reason":null,"stop_sequence":null,"usage":{}}`},
		"ResponseEvent":  {`{"type":"response.queued","sequence_number":0}`, `{"type":"response.output_text.delta","sequence_number":0,"item_id":"a","output_index":0,"content_index":0,"delta":"x","logprobs":[],"more":1}`, `{"type":"response.other","sequence_number":0}`},
		"MessageEvent":   {`{"type":"ping","more":1}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}`, `{"type":"message_stop","index":0}`, `"[DONE]"`},
		"QueueEvent":     {`{}`, `{"reason":"x"}`, `{"request_id":"x"}`},
		// Users decide who is next, where share_by says so.
		"ChatRequest":       {`{"model":"m","messages":[{"role":"user"}],"user":5}`, `{"model":"m","messages":[{"role":"user"}],"safety_identifier":5}`},
		"CompletionRequest": {`{"model":"m","prompt":"x","user":5}`, `{"model":"m","prompt":"x","safety_identifier":5}`},
		"ResponsesRequest":  {`{"model":"m","input":"x","user":5}`, `{"model":"m","input":"x","safety_identifier":5}`},
		"MessagesRequest":   {`{"model":"m","messages":[{"role":"user","content":"x"}],"metadata":5}`, `{"model":"m","messages":[{"role":"user","content":"x"}],"metadata":{"user_id":5}}`},
		"Count":             {`{"n":-1,"source":"engine"}`, `{"n":1,"source":"guess"}`, `{"n":1}`},
	} {
		for _, text := range texts {
			if err := d.check("components/schemas/"+name, text); err == nil {
				t.Errorf("%s takes %s", name, text)
			}
		}
	}
}
