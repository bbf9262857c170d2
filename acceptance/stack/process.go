package stack

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for something that takes far less on any machine.
const patience = 30 * time.Second

// Process is a program that a test started. It is stopped with the test, and
// what it wrote is shown when the test failed.
type Process struct {
	cmd  *exec.Cmd
	name string
	done chan struct{}
	said *lockedBuffer
}

// Start runs a program for the length of the test. Its standard input stays open
// until the test ends; out, if not nil, receives its standard output.
func Start(t testing.TB, out io.Writer, name string, args ...string) *Process {
	t.Helper()
	p := &Process{name: name, said: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd = exec.CommandContext(context.Background(), name, args...)
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool {
		// The proxy takes every ONESLOT_ variable for a setting of its own.
		return strings.HasPrefix(pair, "ONESLOT_")
	})
	p.cmd.Stderr, p.cmd.Stdout = p.said, p.said
	if out != nil {
		p.cmd.Stdout = io.MultiWriter(out, p.said)
	}
	if _, err := p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.done)
		// The state is read from the process itself: a test kills some of them.
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() { p.stop(t) })
	return p
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Kill ends the process as kill -9 does, and waits until it is gone.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill %s: %v", p.name, err)
	}
	<-p.done
}

// Status waits until the process has ended and returns its exit status.
func (p *Process) Status() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Said is everything the process wrote so far.
func (p *Process) Said() string { return p.said.String() }

// stop asks the process to end, and fails the test when it does not.
func (p *Process) stop(t testing.TB) {
	select {
	case <-p.done:
	default:
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("stop %s: %v", p.name, err)
		}
		select {
		case <-p.done:
		case <-time.After(patience):
			t.Errorf("%s did not end within %s of SIGTERM", p.name, patience)
			p.Kill(t)
		}
	}
	if t.Failed() {
		t.Logf("what %s said:\n%s", p.name, p.said.String())
	}
}

// Eventually waits until ok is true, asking every interval.
func Eventually(t testing.TB, every time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// freeAddress returns a loopback address that nothing listens on.
func freeAddress(t testing.TB) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// env returns a variable that the script running the tests sets.
func env(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run the acceptance tests with make real", name)
	}
	return value
}

// lockedBuffer is written by a process and read by a test.
type lockedBuffer struct {
	mu  sync.Mutex // protects buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
