package engine_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/simengine"
	"oneslot/proxy/engine"
)

func TestDetection(t *testing.T) {
	for _, x := range []struct {
		name    string
		dialect string
		replies map[string]string
		status  map[string]int
		want    engine.Info // Dialect by its name
		as      string
	}{
		{
			"SGLang", "",
			map[string]string{"/v1/models": models, "/server_info": serverInfo},
			nil,
			engine.Info{Version: "0.5.19", Models: []string{"tiny"}, ContextLength: 4096, CacheOff: true},
			"sglang",
		},
		{
			"SGLang of the old path", "auto",
			map[string]string{"/v1/models": models, "/get_server_info": `{"max_running_requests":1}`},
			nil,
			engine.Info{Models: []string{"tiny"}, ContextLength: 2048},
			"sglang",
		},
		{
			"vLLM", "",
			map[string]string{"/v1/models": models, "/version": version},
			nil,
			engine.Info{Version: "0.32.0", Models: []string{"tiny"}, ContextLength: 2048},
			"vllm",
		},
		{
			"llama.cpp", "",
			map[string]string{"/v1/models": `{"data":[{"id":"a","meta":{"n_ctx":1024}},{"id":"b"}]}`, "/props": props},
			nil,
			engine.Info{Version: "b11434", Models: []string{"a", "b"}, ContextLength: 8192},
			"llamacpp",
		},
		{
			"another", "",
			map[string]string{"/v1/models": models},
			nil,
			engine.Info{Models: []string{"tiny"}, ContextLength: 2048},
			"openai",
		},
		{"one that has nothing", "", nil, nil, engine.Info{}, "openai"},
		{"one that answers anything", "", map[string]string{"*": `{}`}, nil, engine.Info{}, "openai"},
		{"one that answers pages", "", map[string]string{"*": `<html>`}, nil, engine.Info{}, "openai"},
		{
			"one that hides its info", "",
			map[string]string{"/v1/models": models},
			map[string]int{"/server_info": 403, "/get_server_info": 401},
			engine.Info{Models: []string{"tiny"}, ContextLength: 2048},
			"openai",
		},
		{
			"configured", "vllm",
			map[string]string{"/v1/models": models, "/server_info": serverInfo, "/version": version},
			nil,
			engine.Info{Version: "0.32.0", Models: []string{"tiny"}, ContextLength: 2048},
			"vllm",
		},
		{
			"configured, without its endpoint", "sglang",
			map[string]string{"/v1/models": models, "/version": version},
			nil,
			engine.Info{Models: []string{"tiny"}, ContextLength: 2048},
			"sglang",
		},
		{
			"configured as any other", "openai",
			map[string]string{"/v1/models": models, "/server_info": serverInfo},
			nil,
			engine.Info{Models: []string{"tiny"}, ContextLength: 2048},
			"openai",
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, x.replies)
				for path, status := range x.status {
					f.reply(path, status, "")
				}
				e := open(t, engine.Config{Dialect: x.dialect}, f.line.dial)
				got, err := e.Info(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				name := got.Dialect.Name
				got.Dialect = nil
				if name != x.as || !reflect.DeepEqual(got, x.want) {
					t.Errorf("got %s %+v, want %s %+v", name, got, x.as, x.want)
				}
			})
		})
	}
}

// TestDetectionOfSimulatedEngines meets all the endpoints that each has.
func TestDetectionOfSimulatedEngines(t *testing.T) {
	for dialect, want := range map[simengine.Dialect]string{simengine.SGLang: "sglang", simengine.VLLM: "vllm", simengine.LlamaCPP: "llamacpp"} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := simulated(t, engine.Config{}, simengine.Config{Dialect: dialect, ContextLength: 512})
			info, err := e.Info(t.Context())
			if err != nil || info.Dialect.Name != want || info.ContextLength != 512 || info.Models[0] != "ripple" {
				t.Errorf("got %+v, %v; want %s", info, err, want)
			}
			if info.CacheOff != (want == "sglang") {
				t.Errorf("%s: the cache is off: %v", want, info.CacheOff)
			}
		})
	}
}

// TestDetectionDoesNotGuess: an endpoint that fails or hangs may be there the
// next time, so nothing is remembered.
func TestDetectionDoesNotGuess(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"fails": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"busy":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]string{"/v1/models": models})
				f.handle("/server_info", h)
				e := open(t, engine.Config{}, f.line.dial)
				began := time.Now()
				if info, err := e.Info(t.Context()); err == nil || errors.Is(err, engine.ErrUnreachable) {
					t.Errorf("got %+v, %v", info, err)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				if _, ok := e.Known(); ok {
					t.Error("a guess is remembered")
				}
				f.reply("/server_info", http.StatusOK, serverInfo)
				if info, err := e.Info(t.Context()); err != nil || info.Dialect.Name != "sglang" {
					t.Errorf("afterwards got %+v, %v", info, err)
				}
			})
		})
	}
}

// TestInfoIsRemembered until nobody is there.
func TestInfoIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]string{"/v1/models": models, "/server_info": serverInfo})
		e := open(t, engine.Config{}, f.line.dial)
		if _, ok := e.Known(); ok {
			t.Error("something is known at first")
		}
		if e.ModelName() != "default" {
			t.Errorf("the model is called %q at first", e.ModelName())
		}
		for range 3 {
			if _, err := e.Info(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(f.seen("/v1/models")); n != 1 {
			t.Errorf("asked %d times", n)
		}
		if info, ok := e.Known(); !ok || info.Dialect.Name != "sglang" || e.ModelName() != "tiny" {
			t.Errorf("known is %+v", info)
		}
		e.Close()
		_ = f.line.Close()
		if _, err := e.Chat(t.Context(), []byte("{}")); !errors.Is(err, engine.ErrUnreachable) {
			t.Errorf("chat returns %v", err)
		}
		if _, ok := e.Known(); ok {
			t.Error("it is still known")
		}
		if _, err := e.Info(t.Context()); !errors.Is(err, engine.ErrUnreachable) || !strings.Contains(err.Error(), "http://engine.test") || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("info returns %v", err)
		}
	})
}

// TestUnreachableOrRefused: an engine that is still loading is as good as none;
// one that answers in any other way is there.
func TestUnreachableOrRefused(t *testing.T) {
	for status, unreachable := range map[int]bool{503: true, 500: true, 502: true, 404: false, 405: false, 401: false, 501: false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, nil)
			f.reply("*", status, `{"error":{"message":"Loading model"}}`)
			e := open(t, engine.Config{}, f.line.dial)
			_, err := e.Info(t.Context())
			if errors.Is(err, engine.ErrUnreachable) != unreachable || (err != nil) != unreachable {
				t.Errorf("%d: got %v", status, err)
			}
			if err := e.Ready(t.Context()); err == nil {
				t.Errorf("%d: it is ready", status)
			}
		})
	}
}

func TestPasswordsAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		_ = f.line.Close()
		e := open(t, engine.Config{URL: "http://me:secret@engine.test/v1"}, f.line.dial)
		_, err := e.Info(t.Context())
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.Settle(ctx); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	})
}

func TestUpstreamModel(t *testing.T) {
	for _, x := range []struct {
		configured string
		served     []string
		want       string
	}{
		{"ripple", []string{"ripple"}, "ripple"},
		{"ripple", []string{"other", "ripple"}, "ripple"},
		{"ripple", []string{"other"}, "other"},
		{"ripple", nil, "ripple"},
		{"", nil, "default"},
	} {
		e := open(t, engine.Config{Model: x.configured, Name: "spark"}, nil)
		if got := e.UpstreamModel(engine.Info{Models: x.served}); got != x.want {
			t.Errorf("%q of %q is sent as %q, want %q", x.configured, x.served, got, x.want)
		}
		if e.Name() != "spark" {
			t.Errorf("the slot is called %q", e.Name())
		}
	}
}
