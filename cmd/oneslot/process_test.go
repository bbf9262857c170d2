package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"oneslot/configs"
	"oneslot/internal/simengine"
	"oneslot/internal/simengine/simtest"
	"oneslot/internal/tokenizer"
)

// asProgram makes the test binary be the program, so that tests can run it as a
// process of its own, kill it, and read its exit status.
const asProgram = "RUN_AS_ONESLOT"

// process is the program as a process.
type process struct {
	cmd    *exec.Cmd
	errs   *simtest.Buffer
	ended  chan error
	baseIs string
}

// launch starts the program. Its end is waited for with the test.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{errs: &simtest.Buffer{}, ended: make(chan error, 1)}
	p.cmd = exec.CommandContext(t.Context(), self, args...)
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = io.Discard, p.errs
	p.cmd.WaitDelay = 5 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		err := p.cmd.Wait()
		p.ended <- err
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended already
		<-p.ended
		if t.Failed() {
			t.Logf("%v said:\n%s", args, p.errs)
		}
	})
	return p
}

// serving starts a proxy on a free port and waits until it answers.
func serving(t *testing.T, engine string, more ...string) *process {
	t.Helper()
	return servingAll(t, append([]string{"--engine", engine, "--model", "ripple"}, more...)...)
}

// servingAll runs a proxy whose engines are in its settings.
func servingAll(t *testing.T, more ...string) *process {
	t.Helper()
	address := freeAddress(t)
	p := launch(t, append([]string{"serve", "--listen", address, "--data", t.TempDir()}, more...)...)
	p.baseIs = "http://" + address
	eventually(t, "the proxy answers", func() bool {
		status, _, err := fetch(t.Context(), p.baseIs+"/healthz")
		return err == nil && status == http.StatusOK
	})
	return p
}

// fetch reads a page of another process.
func fetch(ctx context.Context, url string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// hold listens on a free port.
func hold(t testing.TB) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// eventually polls for something that another process does. It is no measure of
// time: the limit only ends a test that hangs.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(60 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

func closeIt(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l := hold(t)
	defer closeIt(t, l)
	return l.Addr().String()
}

// end waits for the process and returns its exit status.
func (p *process) end(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(60 * time.Second):
		t.Fatal("the process does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// Each fault of the surroundings is one sentence that says what to do, with the
// right status and no stack trace.
func TestFaultsOfTheSurroundings(t *testing.T) {
	taken := hold(t)
	t.Cleanup(func() { closeIt(t, taken) })
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("listn: x\nqueue: {lease: soon, max_waitin: 3}\nengines: [{url: \"ftp://x\"}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	engine := "http://127.0.0.1:9"
	for _, c := range []struct {
		name   string
		args   []string
		status int
		words  []string
	}{
		{"port in use", []string{"serve", "--engine", engine, "--listen", taken.Addr().String(), "--data", t.TempDir()}, 1, []string{"is in use", "--listen"}},
		{"unreachable Redis", []string{"serve", "--engine", engine, "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--redis", "redis://127.0.0.1:9"}, 1, []string{"Redis at 127.0.0.1:9 does not answer", "--redis"}},
		{"bad file", []string{"serve", "--config", bad}, 2, []string{"listn: no such key", "queue.max_waitin: no such key", "queue.lease", "http://"}},
		{"no such file", []string{"serve", "--config", bad + "x"}, 2, []string{"does not exist", "--config"}},
		{"no engine", []string{"serve"}, 2, []string{"--engine http://HOST:PORT"}},
		{"open to the network", []string{"serve", "--engine", engine, "--listen", "0.0.0.0:0"}, 2, []string{"keys", "--insecure-no-auth"}},
		{"unknown flag", []string{"serve", "--engin", "x"}, 2, []string{"--engin", "--help"}},
		{"unknown command", []string{"srve"}, 2, []string{"srve", "help"}},
		{"nobody to check", []string{"healthcheck", "--url", engine}, 1, []string{"no proxy answers", engine}},
		{"folder that cannot be", []string{"serve", "--engine", engine, "--listen", "127.0.0.1:0", "--data", bad}, 1, []string{bad}},
		{"tokenizer that is not there", []string{"serve", "--engine", engine, "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--tokenizer", bad + ".json"}, 1, []string{"tokenizer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(c.name, "tokenizer") && !tokenizer.Available {
				c.status, c.words = 0, []string{"counted through the engine"}
			}
			p := launch(t, c.args...)
			if c.status == 0 {
				eventually(t, "it says so", func() bool { return strings.Contains(p.errs.String(), c.words[0]) })
				return
			}
			status := p.end(t)
			said := p.errs.String()
			if status != c.status {
				t.Errorf("exit status %d, want %d", status, c.status)
			}
			for _, w := range c.words {
				if !strings.Contains(said, w) {
					t.Errorf("it said %q, without %q", said, w)
				}
			}
			if strings.Contains(said, "goroutine ") || strings.Contains(said, "panic") {
				t.Errorf("a stack trace: %s", said)
			}
		})
	}
}

// An engine that is not there is no fault of the start: the proxy says so and
// serves as soon as the engine is.
func TestEngineComesLater(t *testing.T) {
	t.Parallel()
	p := serving(t, "http://127.0.0.1:9")
	eventually(t, "it says that the engine does not answer", func() bool {
		return strings.Contains(p.errs.String(), "the engine does not answer")
	})
	status, _, err := fetch(t.Context(), p.baseIs+"/readyz")
	if err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("/readyz says %d, %v", status, err)
	}
}

// redisServer starts a Redis of the test's own.
func redisServer(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(`redis-server is missing: run "make deps"`)
	}
	_, port, _ := net.SplitHostPort(freeAddress(t))
	cmd := exec.CommandContext(t.Context(), path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the context may have done it
		_ = cmd.Wait()         // and then it ends with an error
	})
	address := "127.0.0.1:" + port
	eventually(t, "Redis answers", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return false
		}
		defer closeIt(t, conn)
		if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
			return false
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		return err == nil && strings.HasPrefix(line, "+PONG")
	})
	return "redis://" + address
}

// chat reads a whole streamed answer of a process.
func (p *process) chat(ctx context.Context, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.baseIs+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return string(all), err
}

func (p *process) view(t *testing.T) (view struct {
	Waiting, Running int
	Slots            []struct{ State string }
},
) {
	t.Helper()
	_, body, err := fetch(t.Context(), p.baseIs+"/v1/queue")
	if err == nil {
		err = json.Unmarshal(body, &view)
	}
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// Two proxies share one engine through Redis. The one that holds the slot is
// killed with kill -9: its ghost is aborted and the other's client is served.
func TestKilledProxyLosesTheSlot(t *testing.T) {
	t.Parallel()
	engine, url := simtest.Start(t, simengine.Config{TokensPerSecond: 200, Thinking: 100_000, Ghost: true})
	redis := redisServer(t)
	file := filepath.Join(t.TempDir(), "oneslot.yaml")
	if err := os.WriteFile(file, []byte("queue: {lease: 6s, commit_after: 50ms}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	doomed := serving(t, url, "--redis", redis, "--config", file)
	other := serving(t, url, "--redis", redis, "--config", file)

	go func() { _, _ = doomed.chat(t.Context(), hello) }() // dies with the process
	await(t, engine, func(s simengine.Stats) bool { return s.Running == 1 })
	answer := make(chan string, 1)
	go func() {
		text, err := other.chat(t.Context(), strings.Replace(hello, `"messages"`, `"max_tokens":5,"messages"`, 1))
		answer <- fmt.Sprint(text, err)
	}()
	eventually(t, "the other client waits, and both proxies see it", func() bool {
		return doomed.view(t).Waiting == 1 && other.view(t).Running == 1
	})
	if err := doomed.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	text := <-answer
	if !strings.Contains(text, `"finish_reason":"length"`) || !strings.Contains(text, "data: [DONE]") {
		t.Errorf("the other client got %s", text)
	}
	s := engine.Stats()
	if s.MaxRunning != 1 || s.Arrivals != 2 {
		t.Errorf("the engine had %d at once, %d requests", s.MaxRunning, s.Arrivals)
	}
	eventually(t, "the slot is idle", func() bool { return other.view(t).Slots[0].State == "idle" })
}

func await(t *testing.T, e *simengine.Engine, is func(simengine.Stats) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Await(ctx, is); err != nil {
		t.Fatalf("%v: %+v", err, e.Stats())
	}
}

// SIGTERM lets the running answer end, and the process then ends with status 0;
// its client's row is in the ledger of the next process.
func TestTermination(t *testing.T) {
	t.Parallel()
	_, url := simtest.Start(t, simengine.Config{TokensPerSecond: 100, Thinking: 50})
	data := t.TempDir()
	p := serving(t, url, "--data", data)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.baseIs+"/v1/chat/completions", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, half := range []string{"", "POST /v1/chat", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"} { // none holds up the end
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.baseIs, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer closeIt(t, conn)
		if _, err := io.WriteString(conn, half); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Contains(body, []byte("data: [DONE]")) || !bytes.Contains(body, []byte(`"finish_reason":"stop"`)) {
		t.Errorf("the running answer ended as %v %s", err, body)
	}
	if status := p.end(t); status != 0 || !strings.Contains(p.errs.String(), `"status":503,"reason":"draining"`) {
		t.Errorf("exit status %d", status)
	}
	next := serving(t, url, "--data", data)
	var row struct{ Outcome string }
	_, text, err := fetch(t.Context(), next.baseIs+"/v1/usage/"+resp.Header.Get("X-Request-Id"))
	if err == nil {
		err = json.Unmarshal(text, &row)
	}
	if err != nil || row.Outcome != "served" {
		t.Errorf("its row is %s, %v", text, err)
	}
}

// A request whose proxy is killed has its one line in the log of the next one.
func TestKilledIsLogged(t *testing.T) {
	t.Parallel()
	engine, url := simtest.Start(t, simengine.Config{TokensPerSecond: 100, Thinking: 100_000})
	data := t.TempDir()
	doomed := serving(t, url, "--data", data)
	go func() { _, _ = doomed.chat(t.Context(), hello) }() // dies with the process
	await(t, engine, func(s simengine.Stats) bool { return s.Running == 1 })
	eventually(t, "its row is in the file", func() bool { // as running: a row is written within a moment
		_, text, err := fetch(t.Context(), doomed.baseIs+"/v1/usage")
		return err == nil && strings.Contains(string(text), `"outcome":"running"`)
	})
	if err := doomed.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-doomed.ended
	next := serving(t, url, "--data", data)
	if n := strings.Count(doomed.errs.String()+next.errs.String(), `"msg":"request"`); n != 1 || !strings.Contains(next.errs.String(), `"outcome":"slot_lost","reason":"process_died"`) {
		t.Errorf("the request has %d lines; the next process says\n%s", n, next.errs)
	}
}

// TestCheckUsesThem: what serve would fail on in files and folders of this machine
// config check finds too, and says where it is set.
func TestCheckUsesThem(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "oneslot.yaml")
	text := "data: " + filepath.Join(file, "data") + "\nengines:\n  - url: http://127.0.0.1:9\n    tokenizer: " + filepath.Join(dir, "none.json") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), []string{"config", "check", "--config", file}, world{out: io.Discard, errs: io.Discard})
	want := []string{file + ":1: data: "}
	if tokenizer.Available {
		want = append(want, file+":4: engines[0].tokenizer: ")
	}
	for _, w := range want {
		if !errors.Is(err, configs.ErrConfig) || !strings.Contains(err.Error(), w) {
			t.Errorf("there is no %q in %v", w, err)
		}
	}
	if strings.Count(fmt.Sprint(err), "\n") != len(want) {
		t.Errorf("other faults: %v", err)
	}
}
