package responses_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"oneslot/internal/openai"
	"oneslot/proxy/surface"
	"oneslot/proxy/surface/responses"
)

// number is the id of the n-th request.
func number(n int) string { return fmt.Sprintf("%032x", n) }

// answered has a request answered and returns the id of its response.
func answered(t *testing.T, a *responses.API, n int, body string) string {
	t.Helper()
	r := beginAs(t, a, "key", number(n), body)
	r.say(thought, "so")
	r.say(said, "answer")
	r.finish("stop")
	return "resp_" + number(n)
}

// TestGoOn: a response is gone on with by its id, with all that was before it.
func TestGoOn(t *testing.T) {
	for _, cfg := range []responses.Config{{On: true}, {On: true, Dir: filepath.Join(t.TempDir(), "kept")}} {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(t, cfg)
			first := answered(t, a, 1, `{"model":"m","input":"one","instructions":"not carried over"}`)
			if cfg.Dir != "" {
				a = newAPI(t, cfg) // another process finds it
				if info, err := os.Stat(filepath.Join(cfg.Dir, first+".json")); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("the file: %v, %v", info, err)
				}
			}
			second := answered(t, a, 2, `{"model":"m","input":"two","previous_response_id":"`+first+`"}`)
			req, _, err := a.Decode(surface.In{ID: number(3), Key: "key", Body: []byte(`{"model":"m","input":[{"type":"item_reference","id":"msg_` + number(1) + `01"},{"role":"user","content":"three"}],"previous_response_id":"` + second + `"}`)})
			if err != nil {
				t.Fatal(err)
			}
			want := `[{"role":"user","content":"one"},{"role":"assistant","reasoning_content":"so","content":"answer"},{"role":"user","content":"two"},{"role":"assistant","reasoning_content":"so","content":"answer"},{"role":"assistant","content":"answer"},{"role":"user","content":"three"}]`
			if req.Messages != want {
				t.Errorf("got  %s\nwant %s", req.Messages, want)
			}
			if text, err := a.Get(second, "key"); err != nil || !strings.Contains(string(text), `"previous_response_id":"`+first+`"`) || !strings.Contains(string(text), `"store":true`) {
				t.Errorf("got %s, %v", text, err)
			}
		})
	}
}

func TestKeptIsTheOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, responses.Config{On: true})
		one := answered(t, a, 1, ask(""))
		var p *openai.Problem
		if _, err := a.Get(one, "other"); !errors.As(err, &p) || p.Status != 404 {
			t.Errorf("another key gets it: %v", err)
		}
		if _, err := a.Delete(one, "other"); err == nil {
			t.Error("another key deletes it")
		}
		if _, _, err := a.Decode(surface.In{Key: "other", Body: []byte(ask(`,"previous_response_id":"` + one + `"`))}); err == nil {
			t.Error("another key goes on with it")
		}
		if text, err := a.Delete(one, "key"); err != nil || string(text) != `{"id":"`+one+`","object":"response","deleted":true}` {
			t.Errorf("got %s, %v", text, err)
		}
		if _, err := a.Get(one, "key"); err == nil {
			t.Error("it is still there")
		}
	})
}

// TestRoom: the oldest go, by number and by age.
func TestRoom(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(t, responses.Config{On: true, Keep: 2, For: time.Hour, Dir: dir})
			var ids []string
			for n := range 3 {
				ids = append(ids, answered(t, a, n, ask("")))
			}
			for n, id := range ids {
				if _, err := a.Get(id, "key"); (err == nil) != (n > 0) {
					t.Errorf("%d of 3: %v", n, err)
				}
			}
			<-time.After(time.Hour + time.Second)
			if _, err := a.Get(ids[2], "key"); err == nil {
				t.Error("it is kept for too long")
			}
			if files, err := os.ReadDir(dir); dir != "" && (err != nil || len(files) > 0) {
				t.Errorf("left are %v, %v", files, err)
			}
		})
	}
}

// TestRoomInBytes: the oldest go when there is too much, and one that is too much
// by itself drives out no other. A folder is measured anew at the start.
func TestRoomInBytes(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		synctest.Test(t, func(t *testing.T) {
			cfg := responses.Config{On: true, MaxBytes: 55_000, Dir: dir}
			a := newAPI(t, cfg)
			of := func(n int) string { return fmt.Sprintf(`{"model":"m","input":%q}`, strings.Repeat("x", n)) }
			ids := []string{answered(t, a, 1, of(15_000)), answered(t, a, 2, of(15_000)), answered(t, a, 3, of(15_000)), answered(t, a, 4, of(60_000))}
			has := func(want ...bool) {
				t.Helper()
				for n, id := range ids {
					if _, err := a.Get(id, "key"); (err == nil) != want[n] {
						t.Errorf("dir %q, %d of 4: %v", dir, n+1, err)
					}
				}
			}
			has(true, true, true, false)
			ids[3] = answered(t, a, 5, of(15_000))
			has(false, true, true, true)
			if _, err := a.Delete(ids[1], "key"); err != nil {
				t.Error(err)
			}
			ids[0] = answered(t, a, 6, of(15_000))
			has(true, false, true, true)
			if dir != "" {
				a = newAPI(t, responses.Config{On: true, MaxBytes: 37_000, Dir: dir})
				has(true, false, false, true)
			}
		})
	}
}

// TestKeptIsNotTheBody: a short item holds on to nothing of a long request.
func TestKeptIsNotTheBody(t *testing.T) {
	const long = 16 << 20
	a, before := newAPI(t, responses.Config{On: true}), heap()
	t.Run("the request", func(t *testing.T) { // what the test itself holds of it ends with it
		answered(t, a, 1, `{"model":"m","input":[{"role":"user","content":"hi"}],"client_metadata":"`+strings.Repeat("x", long)+`"}`)
	})
	if more := int64(heap()) - int64(before); more > long/2 {
		t.Errorf("%d bytes are kept", more)
	}
	if _, err := a.Get("resp_"+number(1), "key"); err != nil {
		t.Error(err)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestSlowDisk: a write that hangs holds up neither those who are answered nor
// those who read.
func TestSlowDisk(t *testing.T) {
	dir := t.TempDir()
	a := newAPI(t, responses.Config{On: true, Dir: dir})
	first := answered(t, a, 1, ask(""))
	slow := filepath.Join(dir, "resp_"+number(2)+".json.part")
	if err := syscall.Mkfifo(slow, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		answered(t, a, 2, fmt.Sprintf(`{"model":"m","input":%q}`, strings.Repeat("x", 1<<20)))
	}()
	disk, err := os.Open(slow) // returns when it is being written
	if err != nil {
		t.Fatal(err)
	}
	others := make(chan error, 1)
	go func() {
		_, err := a.Get(first, "key")
		answered(t, a, 3, ask(""))
		others <- err
	}()
	select {
	case err := <-others:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("they wait for the disk")
	}
	_, _ = io.Copy(io.Discard, disk)
	_ = disk.Close()
	<-written
}

// TestLeftovers of a writer that has died are removed at the start, and nothing else.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	part, other := "resp_"+number(1)+".json.part", "notes.part"
	for _, name := range []string{part, other} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	newAPI(t, responses.Config{On: true, Dir: dir})
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 || files[0].Name() != other {
		t.Errorf("left are %v, %v", files, err)
	}
}

func TestNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off, on := newAPI(t, responses.Config{}), newAPI(t, responses.Config{On: true})
		var p *openai.Problem
		if _, err := off.Get(answered(t, off, 1, ask("")), "key"); !errors.As(err, &p) || !strings.Contains(p.Message, "responses.store") {
			t.Errorf("got %v", err)
		}
		if _, err := on.Get(answered(t, on, 1, ask(`,"store":false`)), "key"); !errors.As(err, &p) || strings.Contains(p.Message, "responses.store") {
			t.Errorf("got %v", err)
		}
		for _, id := range []string{"", "resp_", "../../etc/passwd", "resp_" + number(9), strings.Repeat("x", 500), "x" + strings.Repeat("é", 200)} {
			if _, err := on.Get(id, "key"); !errors.As(err, &p) || p.Status != 404 || len(p.Message) > 300 || strings.Contains(p.Message, "\uFFFD") {
				t.Errorf("%.40s: got %v", id, err)
			}
		}
	})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := responses.New(responses.Config{On: true, Dir: file}); err == nil {
		t.Error("a file is taken for a folder")
	}
}

// TestFullDisk: what the folder does not take is kept in memory.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, responses.Config{On: true, Dir: dir})
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Get(answered(t, a, 1, ask("")), "key"); err != nil || a.Err() == nil {
			t.Errorf("%v; told is %v", err, a.Err())
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if answered(t, a, 2, ask("")); a.Err() != nil {
			t.Errorf("it works again, but told is %v", a.Err())
		}
	})
}

// TestPlacesAreTheClients: an error names an item by its place in the client's own
// input, whatever was kept before it.
func TestPlacesAreTheClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, responses.Config{On: true})
		first := answered(t, a, 1, ask(""))
		_, _, err := a.Decode(surface.In{ID: number(2), Key: "key", Body: []byte(`{"model":"m","previous_response_id":"` + first + `","input":[{"role":"user","content":"hi"},{"role":"user","content":7}]}`)})
		var p *openai.Problem
		if !errors.As(err, &p) || p.Param != "input[1].content" || !strings.Contains(p.Message, "input[1].content") {
			t.Errorf("got %+v", err)
		}
	})
}

func TestCancelled(t *testing.T) {
	if got := string(responses.Cancelled(id, "m", time.Unix(5, 0))); !strings.HasPrefix(got, `{"id":"resp_`+id+`","object":"response","created_at":5,"status":"cancelled",`) {
		t.Errorf("got %s", got)
	}
}
