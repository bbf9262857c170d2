package acceptance_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"testing"
	"time"

	"oneslot/acceptance/stack"
)

// python starts one of the Python programs and returns the lines it prints.
func python(t *testing.T, script string, proxy *stack.Proxy, engine *stack.Engine) (*stack.Process, <-chan string) {
	t.Helper()
	read, write := io.Pipe()
	process := stack.Start(t, write, os.Getenv("ONESLOT_PYTHON"), "python/"+script, proxy.URL+"/v1", engine.Model)
	lines := make(chan string, 64)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(read); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	go func() {
		<-process.Done()
		write.Close()
	}()
	return process, lines
}

// killed starts a Python client with a long stream and kills it in the middle. It
// returns the id of the request.
func killed(t *testing.T, proxy *stack.Proxy, engine *stack.Engine) string {
	t.Helper()
	process, lines := python(t, "endless.py", proxy, engine)
	select {
	case id := <-lines:
		process.Kill(t)
		return id
	case <-process.Done():
		t.Fatalf("the client ended:\n%s", process.Said())
	case <-time.After(30 * time.Second):
		t.Fatalf("the client got nothing:\n%s", process.Said())
	}
	return ""
}

// TestPythonClient runs the tests that are written with openai-python.
func TestPythonClient(t *testing.T) {
	engine := stack.StartEngine(t, stack.ByProxy)
	proxy := stack.StartProxy(t, engine)
	process, lines := python(t, "client_test.py", proxy, engine)
	ran := 0
	for open := true; open; {
		select {
		case line, more := <-lines:
			open = more
			var result struct{ Test, Fault string }
			if json.Unmarshal([]byte(line), &result) != nil || result.Test == "" {
				continue
			}
			ran++
			t.Run(result.Test, func(t *testing.T) {
				if result.Fault != "" {
					t.Error(result.Fault)
				}
			})
		case <-time.After(2 * time.Minute):
			t.Fatalf("the client hangs:\n%s", process.Said())
		}
	}
	if ran == 0 {
		t.Fatalf("no Python test ran:\n%s", process.Said())
	}
}
