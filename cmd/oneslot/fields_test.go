package main

import (
	"net/http"
	"strings"
	"testing"

	"oneslot/internal/simengine"
)

// allFields is a request with every field that a client of the chat API may send,
// but for those that tests of their own are about.
const allFields = `"frequency_penalty":-2,"presence_penalty":-2,"logit_bias":{"7":1},"logprobs":false,"top_logprobs":null,"n":1,"parallel_tool_calls":true,"seed":3,"temperature":1,"top_p":1,
	"response_format":{"type":"text"},"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"auto","stop":null,"max_completion_tokens":9,"max_tokens":null,
	"service_tier":"auto","store":true,"metadata":{"a":"b"},"user":"u","safety_identifier":"s","prompt_cache_key":"k","prompt_cache_retention":"24h","prompt_cache_options":{"mode":"implicit"},
	"verbosity":"low","modalities":["text"],"audio":{"voice":"x","format":"wav"},"prediction":{"type":"content","content":"x"},"web_search_options":{},"moderation":{"model":"m"},
	"stream_options":{"include_usage":true,"include_obfuscation":true},"functions":null,"function_call":null,"reasoning_effort":null,"never_heard_of":{"x":null}`

// TestEveryField: nothing that a client may send is refused, what is for OpenAI's
// own service stays here, and the rest reaches the engine.
func TestEveryField(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/chat/completions", "/v1/chat/completions/"} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{}, "")
			r := p.send(t.Context(), http.MethodPost, path, `{"model":"ripple","stream":true,"messages":[{"role":"user","content":"hi"}],`+allFields+`}`)
			if r.status != http.StatusOK || !strings.Contains(r.body, `"finish_reason":"length"`) {
				t.Fatalf("%s: got %d %s", path, r.status, r.body)
			}
			got := p.upstream()
			for _, name := range []string{"frequency_penalty", "logit_bias", "logprobs", "parallel_tool_calls", "seed", "temperature", "top_p", "response_format", "tools", "tool_choice", "never_heard_of"} {
				if got[name] == nil {
					t.Errorf("the engine did not get %s", name)
				}
			}
			for _, name := range []string{
				"store", "metadata", "user", "safety_identifier", "service_tier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "verbosity", "modalities", "audio",
				"prediction", "web_search_options", "moderation", "n", "stop", "top_logprobs", "functions", "function_call", "reasoning_effort", "max_completion_tokens",
			} {
				if v, ok := got[name]; ok {
					t.Errorf("the engine got %s: %v", name, v)
				}
			}
			if got["max_tokens"] != 9.0 {
				t.Errorf("the engine got the limit %v", got["max_tokens"])
			}
		})
	}
}

// TestDeniedFields could break the engine or open it.
func TestDeniedFields(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "")
		denied := []string{"custom_logit_processor", "lora_path", "bootstrap_host", "bootstrap_room", "session_params", "input_ids", "input_embeds", "priority", "return_hidden_states", "kv_transfer_params"}
		body := `{"model":"ripple","messages":[{"role":"user","content":"hi"}],"rid":"mine"`
		for _, name := range denied {
			body += `,"` + name + `":"x"`
		}
		for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
			if r := p.send(t.Context(), http.MethodPost, path, strings.Replace(body, `"messages":[`, `"input":"hi","messages":[`, 1)+`}`); r.status != http.StatusOK {
				t.Fatalf("%s: got %d %s", path, r.status, r.body)
			}
		}
		for _, run := range p.engine.Stats().Runs {
			for _, name := range append(denied, `"rid":"mine"`) {
				if strings.Contains(string(run.Body), name) {
					t.Errorf("the engine got %s: %s", name, run.Body)
				}
			}
		}
	})
}

// TestContentParts: what an engine cannot take it refuses itself, and its words
// reach the client.
func TestContentParts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "")
		for kind, bodies := range map[string][2]string{
			"image_url":   {`{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD","detail":"low"}}`, `{"type":"input_image","image_url":"data:image/png;base64,QUJD","detail":"low"}`},
			"input_audio": {`{"type":"input_audio","input_audio":{"data":"QUJD","format":"wav"}}`, `{"type":"input_audio","input_audio":{"data":"QUJD","format":"wav"}}`},
		} {
			for i, request := range []struct{ path, list, text string }{{"/v1/chat/completions", "messages", "text"}, {"/v1/responses", "input", "input_text"}} {
				r := p.send(t.Context(), http.MethodPost, request.path, `{"model":"ripple","`+request.list+`":[{"role":"user","content":[{"type":"`+request.text+`","text":"look"},`+bodies[i]+`]}]}`)
				if r.status != http.StatusBadRequest || !strings.Contains(r.body, "unsupported content type '"+kind+"'") || r.header.Get("X-Oneslot-Reason") != "prompt_refused" {
					t.Errorf("%s, %s: got %d %s", request.path, kind, r.status, r.body)
				}
			}
		}
	})
}

// eachAPI has the route of each API, with what it is asked but for the model.
var eachAPI = map[string]string{
	"/v1/chat/completions": `"max_tokens":20,"messages":[{"role":"user","content":"hi"}]`,
	"/v1/completions":      `"max_tokens":20,"prompt":"hi"`,
	"/v1/responses":        `"max_output_tokens":20,"input":"hi"`,
	"/v1/messages":         `"max_tokens":20,"messages":[{"role":"user","content":"hi"}]`,
}

// TestServiceTier is a class, capped by the key, on every route.
func TestServiceTier(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := start(t, simengine.Config{}, "")
		for tier, class := range map[string]string{"priority": "interactive", "fast": "interactive", "default": "default", "auto": "default", "flex": "batch", "scale": "batch", "standard_only": "default", "unheard": "default"} {
			for path, asked := range eachAPI {
				r := p.send(t.Context(), http.MethodPost, path, `{"model":"ripple","service_tier":"`+tier+`",`+asked+`,`+thinks+`}`)
				if got := p.record(r)["class"]; r.status != http.StatusOK || got != class {
					t.Errorf("%s, %s: the class is %v: %d %s", path, tier, got, r.status, r.body)
				}
			}
		}
	})
}

// TestModelNames: aliases and, if allowed, any name, on every route.
func TestModelNames(t *testing.T) {
	for settings, names := range map[string]map[string]int{
		"models: {gpt-4o: ripple}": {"ripple": 200, "gpt-4o": 200, "gpt-5": 404},
		"accept_any_model: true":   {"ripple": 200, "gpt-5": 200},
	} {
		inBubble(t, func(t *testing.T) {
			p := start(t, simengine.Config{}, settings)
			for name, status := range names {
				if r := p.fetch("/v1/models/" + name); r.status != status || status == 200 && !strings.Contains(r.body, `"id":"`+name+`"`) {
					t.Errorf("the model %s is shown as %d %s", name, r.status, r.body)
				}
				for path, asked := range eachAPI {
					says := `"model":"` + name + `"`
					switch {
					case status == 404 && path == "/v1/messages":
						says = `"not_found_error"`
					case status == 404:
						says = `"code":"model_not_found"`
					}
					for _, path := range []string{path, strings.TrimPrefix(path, "/v1")} {
						if r := p.send(t.Context(), http.MethodPost, path, `{"model":"`+name+`",`+asked+`,`+thinks+`}`); r.status != status || !strings.Contains(r.body, says) {
							t.Errorf("%s, %s: got %d %s", path, name, r.status, r.body)
						}
					}
				}
			}
			for _, run := range p.engine.Stats().Runs {
				if !strings.Contains(string(run.Body), `"model":"ripple"`) {
					t.Errorf("the engine was asked for another model: %s", run.Body)
				}
			}
		})
	}
}
