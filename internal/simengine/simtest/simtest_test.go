package simtest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const chat = `{"messages":[{"role":"user","content":"hi"}]}`

func post(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(chat))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestStart(t *testing.T) {
	e, url := simtest.Start(t, simengine.Config{TokensPerSecond: simengine.Fast, PrefillTokensPerSecond: simengine.Fast})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	if !strings.HasPrefix(url, "http://127.0.0.1:") || strings.HasSuffix(url, "/") {
		t.Errorf("url %q", url)
	}
	if body := post(t, client, url); !strings.Contains(body, `"finish_reason":"stop"`) || e.Stats().Arrivals != 1 {
		t.Error(body)
	}
}

func TestPipeRunsOnTheBubblesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := simtest.Pipe(t, simengine.Config{PrefillTokensPerSecond: simengine.Fast, Thinking: 5, Answer: 5})
		begin := time.Now()
		if body := post(t, client, "http://engine"); !strings.Contains(body, `"finish_reason":"stop"`) {
			t.Error(body)
		}
		if took := time.Since(begin); took != 1200*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestPipeEndsWithItsTest(t *testing.T) {
	var client *http.Client
	t.Run("inner", func(t *testing.T) { // its cleanup closes the engine
		_, client = simtest.Pipe(t, simengine.Config{TokensPerSecond: simengine.Fast, PrefillTokensPerSecond: simengine.Fast})
		post(t, client, "http://engine")
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://engine/v1/models", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := client.Do(req); err == nil {
		res.Body.Close()
		t.Errorf("status %d of an engine that is gone", res.StatusCode)
	}
}

func TestNew(t *testing.T) {
	if e := simtest.New(t, simengine.Config{}); e.Stats().Arrivals != 0 {
		t.Error("a new engine has seen something")
	}
}
