package responses

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"oneslot/proxy/surface"
)

// errUnknown is returned for what is not kept.
var errUnknown = errors.New("responses: not kept")

// entry is one response in the order of their ends.
type entry struct {
	id    string
	ended time.Time
	size  int64
}

// store keeps the newest responses, in memory or in a folder. A folder holds one
// file for each, which only its owner can read. Files are read and written outside
// of mu: a slow disk holds up nobody else.
type store struct {
	cfg Config

	mu      sync.Mutex // guards what follows
	records map[string]record
	order   []entry // the oldest first
	size    int64   // of all
	fault   error   // of the latest write
}

// responseID is what the id of a response looks like; nothing else becomes the
// name of a file. itemID finds the response in the id of an item.
var (
	responseID = regexp.MustCompile(`^resp_[0-9a-f]{32}$`)
	itemID     = regexp.MustCompile(`^(?:rs|msg|fc)_([0-9a-f]{32})(\d{2,4})$`)
)

func newStore(cfg Config) (*store, error) {
	s := &store{cfg: cfg, records: map[string]record{}}
	if !cfg.On || cfg.Dir == "" {
		return s, nil
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("responses: the folder cannot be made: %w", err)
	}
	files, err := os.ReadDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("responses: the folder cannot be read: %w", err)
	}
	for _, f := range files {
		id, kind, _ := strings.Cut(f.Name(), ".")
		info, err := f.Info()
		switch {
		case err != nil || !responseID.MatchString(id):
		case kind == "json":
			s.order, s.size = append(s.order, entry{id, info.ModTime(), info.Size()}), s.size+info.Size()
		case kind == "json.part": // its writer has died
			_ = os.Remove(s.file(id) + ".part") // what stays is in nobody's way
		}
	}
	slices.SortFunc(s.order, func(a, b entry) int { return a.ended.Compare(b.ended) })
	s.remove(s.prune())
	return s, nil
}

func (s *store) file(id string) string { return filepath.Join(s.cfg.Dir, id+".json") }

// put keeps a response, and lets the oldest go for it. Where the folder takes
// none, memory does.
func (s *store) put(id string, r record) {
	if s.has(id) {
		return // it has ended before
	}
	size, written, fault := r.size(), false, error(nil)
	if s.cfg.Dir != "" {
		var text []byte
		if text, fault = json.Marshal(r); fault == nil && int64(len(text)) <= s.cfg.MaxBytes {
			size, fault = int64(len(text)), s.write(id, text)
			written = fault == nil
		}
	}
	if size > s.cfg.MaxBytes {
		return // all others would have to go for it
	}
	if !written {
		r = r.own()
	}
	s.mu.Lock()
	s.fault = fault
	if !written {
		s.records[id] = r
	}
	s.order, s.size = append(s.order, entry{id, r.Ended, size}), s.size+size
	gone := s.prune()
	s.mu.Unlock()
	s.remove(gone)
}

func (s *store) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(id) >= 0
}

// find returns where a response is in the order, -1 for nowhere. The caller holds mu.
func (s *store) find(id string) int {
	return slices.IndexFunc(s.order, func(e entry) bool { return e.id == id })
}

// write makes the file of a response. It is whole or not there.
func (s *store) write(id string, text []byte) error {
	part := s.file(id) + ".part"
	err := os.WriteFile(part, text, 0o600)
	if err == nil {
		err = os.Rename(part, s.file(id))
	}
	if err != nil {
		_ = os.Remove(part) // it may not be there
		return fmt.Errorf("responses: the folder takes none: %w", err)
	}
	return nil
}

// err is the fault of the latest write, nil when it went well.
func (s *store) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// prune lets go what is too many, too much or too old, and returns it; the caller
// holds mu, and removes it without.
func (s *store) prune() (gone []string) {
	for len(s.order) > 0 && (len(s.order) > s.cfg.Keep || s.size > s.cfg.MaxBytes || s.old(s.order[0])) {
		gone = append(gone, s.order[0].id)
		s.forget(0)
	}
	return gone
}

func (s *store) old(e entry) bool { return s.cfg.For > 0 && time.Since(e.ended) > s.cfg.For }

// forget takes one off the order. The caller holds mu.
func (s *store) forget(at int) {
	delete(s.records, s.order[at].id)
	s.size -= s.order[at].size
	s.order = slices.Delete(s.order, at, at+1)
}

// remove removes the files of responses that are forgotten.
func (s *store) remove(gone []string) {
	for _, id := range gone {
		if s.cfg.Dir != "" {
			_ = os.Remove(s.file(id)) // it may be in memory only
		}
	}
}

// get returns a response of the key.
func (s *store) get(id, key string) (record, error) {
	s.mu.Lock()
	gone := s.prune()
	kept := responseID.MatchString(id) && s.find(id) >= 0
	r, ok := s.records[id]
	s.mu.Unlock()
	s.remove(gone)
	if !kept {
		return record{}, errUnknown
	}
	if !ok {
		text, err := os.ReadFile(s.file(id))
		if err != nil || json.Unmarshal(text, &r) != nil {
			return record{}, errUnknown
		}
	}
	if r.Key != key {
		return record{}, errUnknown
	}
	return r, nil
}

// item returns an item of a kept response's output by its id.
func (s *store) item(id, key string) (string, error) {
	m := itemID.FindStringSubmatch(id)
	if m == nil {
		return "", errUnknown
	}
	r, err := s.get(surface.ResponseID+m[1], key)
	if err != nil {
		return "", err
	}
	if n, err := strconv.Atoi(m[2]); err == nil && n < len(r.Output) {
		return r.Output[n], nil
	}
	return "", errUnknown
}

// drop forgets a response.
func (s *store) drop(id string) {
	s.mu.Lock()
	if at := s.find(id); at >= 0 {
		s.forget(at)
	}
	s.mu.Unlock()
	s.remove([]string{id})
}
