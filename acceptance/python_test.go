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

// python starts one of the programs written with openai-python and returns the
// lines it prints.
func python(t *testing.T, script string, proxy *stack.Proxy, engine *stack.Engine, more ...string) (*stack.Process, <-chan string) {
	t.Helper()
	args := append([]string{"python/" + script, proxy.URL + "/v1", engine.Model}, more...)
	return printing(t, os.Getenv("ONESLOT_PYTHON"), args...)
}

// printing starts a program and returns the lines it prints.
func printing(t *testing.T, name string, args ...string) (*stack.Process, <-chan string) {
	t.Helper()
	read, write := io.Pipe()
	process := stack.Start(t, write, name, args...)
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
	process, lines := python(t, "client_test.py", stack.StartProxy(t, engine), engine)
	report(t, process, lines)
}

// TestPythonBudget limits thinking with openai-python, on an engine that keeps a
// budget and on one that does not.
func TestPythonBudget(t *testing.T) {
	for _, split := range []stack.Split{stack.ByProxy, stack.ByEngine, stack.Unaware} {
		t.Run("split by "+string(split), func(t *testing.T) {
			engine := stack.StartEngine(t, split)
			proxy := stack.StartProxy(t, engine, "reasoning: {answer_reserve: 20}")
			if split == stack.Unaware {
				// That it keeps none shows with the first budget.
				params := endless(t, engine, map[string]any{"thinking_budget": 8})
				ask(t, proxy, params)
			}
			process, lines := python(t, "budget_test.py", proxy, engine, engine.CloseToken(t))
			report(t, process, lines)
		})
	}
}

// report makes a subtest of every line that a program prints, and returns the names
// of the tests that passed.
func report(t *testing.T, process *stack.Process, lines <-chan string) []string {
	t.Helper()
	ran := 0
	var passed []string
	for open := true; open; {
		select {
		case line, more := <-lines:
			open = more
			var result struct{ Test, Fault string }
			if json.Unmarshal([]byte(line), &result) != nil || result.Test == "" {
				continue
			}
			ran++
			if t.Run(result.Test, func(t *testing.T) {
				if result.Fault != "" {
					t.Error(result.Fault)
				}
			}) {
				passed = append(passed, result.Test)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("the client hangs:\n%s", process.Said())
		}
	}
	if ran == 0 {
		t.Fatalf("no test ran:\n%s", process.Said())
	}
	return passed
}

// TestPythonResponses runs the tests of the Responses API.
func TestPythonResponses(t *testing.T) {
	engine := stack.StartEngine(t, stack.ByEngine)
	process, lines := python(t, "responses_test.py", stack.StartProxy(t, engine), engine, engine.CallToken(t))
	report(t, process, lines)
}
