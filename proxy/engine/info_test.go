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
			engine.Info{Version: "0.5.19", Models: []string{"tiny"}, ContextLength: 4096, Cache: engine.Cache{Off: true}},
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
			if info.Cache.Off != (want == "sglang") {
				t.Errorf("%s: the cache is off: %v", want, info.Cache.Off)
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
		if e.Named() || e.ModelName() != "tiny" {
			t.Errorf("when it is gone its model is called %q", e.ModelName())
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

// TestForgottenWhileItLoads: whoever is ready afterwards may be another engine.
func TestForgottenWhileItLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]string{"/v1/models": models, "/server_info": serverInfo})
		e := open(t, engine.Config{}, f.line.dial)
		if info, err := e.Info(t.Context()); err != nil || info.Dialect.Name != engine.SGLang {
			t.Fatalf("it is %v, %v", info.Dialect, err)
		}
		f.reply("*", http.StatusServiceUnavailable, "loading")
		f.reply("/v1/models", http.StatusServiceUnavailable, "loading")
		if err := e.Ready(t.Context()); !errors.Is(err, engine.ErrUnreachable) || e.Lost() != 1 {
			t.Errorf("while it loads: %v, lost %d times", err, e.Lost())
		}
		f.reply("*", http.StatusNotFound, "")
		f.reply("/server_info", http.StatusNotFound, "")
		f.reply("/v1/models", http.StatusOK, models)
		f.reply("/version", http.StatusOK, `{"version":"0.20"}`)
		if info, err := e.Info(t.Context()); err != nil || info.Dialect.Name != engine.VLLM {
			t.Errorf("afterwards it is %v, %v", info.Dialect, err)
		}
	})
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
		if err := e.Settle(ctx, alone{}); err == nil || strings.Contains(err.Error(), "secret") {
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

// TestCacheFacts reads how an engine's cache works, and when it was started.
func TestCacheFacts(t *testing.T) {
	for _, x := range []struct {
		name, path, text, metrics string
		want                      engine.Cache
		start                     string
	}{
		{
			"SGLang", "/server_info",
			`{"max_running_requests":1,"disable_radix_cache":false,"enable_cache_report":true,"page_size":64,"max_total_num_tokens":139264,"random_seed":42}`, "",
			engine.Cache{Told: true, Block: 64, Capacity: 139264},
			"seed 42",
		},
		{"vLLM that says little", "/version", version, "", engine.Cache{}, ""},
		{
			"vLLM", "/version", version,
			"# TYPE x gauge\nvllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"True\",num_gpu_blocks=\"573\"} 1.0\nprocess_start_time_seconds 1.79e+09\n",
			engine.Cache{Block: 16, Capacity: 9168},
			"1.79e+09",
		},
		{
			"vLLM without a cache", "/version", version,
			"vllm:prompt_tokens_created{model_name=\"a b\"} 1.8e+09\nvllm:cache_config_info{block_size=\"128\",enable_prefix_caching=\"False\",num_gpu_blocks=\"None\"} 1.0\n",
			engine.Cache{Off: true, Block: 128},
			"1.8e+09",
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				replies := map[string]string{"/v1/models": models, x.path: x.text}
				if x.metrics != "" {
					replies["/metrics"] = x.metrics
				}
				e := open(t, engine.Config{}, newFake(t, replies).line.dial)
				info, err := e.Info(t.Context())
				if err != nil || info.Cache != x.want || info.Start != x.start {
					t.Errorf("got %+v, start %q, %v; want %+v, %q", info.Cache, info.Start, err, x.want, x.start)
				}
			})
		})
	}
}

// TestRefresh: an engine that is asked anew is asked first for what it was, and
// may have become another one.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]string{"/v1/models": models, "/version": version})
		e := open(t, engine.Config{}, f.line.dial)
		for i, want := range []string{"vllm", "vllm", "sglang"} {
			if want == "sglang" {
				f.reply("/version", http.StatusNotFound, "")
				f.reply("/server_info", http.StatusOK, serverInfo)
			}
			before := len(f.seen("/server_info"))
			info, err := e.Refresh(t.Context())
			if err != nil || info.Dialect.Name != want {
				t.Fatalf("it is %+v, %v; want %s", info, err, want)
			}
			if known, ok := e.Known(); !ok || known.Dialect.Name != want {
				t.Errorf("known as %+v", known)
			}
			if asked := len(f.seen("/server_info")) - before; asked != []int{1, 0, 1}[i] {
				t.Errorf("time %d: /server_info was asked %d times", i, asked)
			}
		}
		_ = f.line.Close()
		e.Close()
		if _, err := e.Refresh(t.Context()); err == nil {
			t.Error("an engine that is gone answered")
		}
		if known, ok := e.Known(); !ok || known.Dialect.Name != "sglang" || e.Lost() != 0 {
			t.Error("asking in vain has forgotten the engine")
		}
		if _, err := e.Chat(t.Context(), []byte("{}")); err == nil || e.Lost() != 1 {
			t.Errorf("lost %d times, %v", e.Lost(), err)
		}
		if e.Misses() < 2 {
			t.Errorf("missed %d times", e.Misses())
		}
	})
}

// TestRoom: an answer has the room behind its prompt, or less if it is limited; of an
// engine that has not told its context only the limit is known.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := simulated(t, engine.Config{}, simengine.Config{ContextLength: 1000})
		if e.Room(0, 400) != 0 || e.Room(50, 400) != 50 {
			t.Error("an engine that was never asked bounds an answer")
		}
		if _, err := e.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ limit, prompt, want int }{{0, 400, 900}, {50, 400, 50}, {5000, 400, 900}, {0, 1 << 20, 1}} {
			if got := e.Room(c.limit, c.prompt); got != c.want {
				t.Errorf("a limit of %d behind %d bytes leaves %d", c.limit, c.prompt, got)
			}
		}
	})
}
