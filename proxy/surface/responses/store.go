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
	"sync"
	"time"
)

// errUnknown is returned for what is not kept.
var errUnknown = errors.New("responses: not kept")

// record is one response that has ended.
type record struct {
	// Key names whose it is.
	Key string `json:"key"`
	// Items is the conversation that it answers, Output what it has added.
	Items  []string `json:"items"`
	Output []string `json:"output"`
	// Object is the response object.
	Object string `json:"object"`
	// Ended is when it ended.
	Ended time.Time `json:"ended"`
}

// entry is one response in the order of their ends.
type entry struct {
	id    string
	ended time.Time
}

// store keeps the newest responses, in memory or in a folder. A folder holds one
// file for each, which only its owner can read.
type store struct {
	cfg Config

	mu      sync.Mutex // guards what follows, and the files
	records map[string]record
	order   []entry // the oldest first
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
		id := f.Name()[:len(f.Name())-len(filepath.Ext(f.Name()))]
		if info, err := f.Info(); err == nil && responseID.MatchString(id) {
			s.order = append(s.order, entry{id, info.ModTime()})
		}
	}
	slices.SortFunc(s.order, func(a, b entry) int { return a.ended.Compare(b.ended) })
	s.prune()
	return s, nil
}

func (s *store) file(id string) string { return filepath.Join(s.cfg.Dir, id+".json") }

// put keeps a response, and lets the oldest go for it. Where the folder takes
// none, memory does.
func (s *store) put(id string, r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has(id) {
		return // it has ended before
	}
	if !s.write(id, r) {
		s.records[id] = r
	}
	s.order = append(s.order, entry{id, r.Ended})
	s.prune()
}

func (s *store) has(id string) bool {
	return slices.ContainsFunc(s.order, func(e entry) bool { return e.id == id })
}

func (s *store) write(id string, r record) bool {
	if s.cfg.Dir == "" {
		return false
	}
	text, err := json.Marshal(r)
	if err != nil {
		return false
	}
	// A file is whole or not there.
	part := s.file(id) + ".part"
	if os.WriteFile(part, text, 0o600) != nil || os.Rename(part, s.file(id)) != nil {
		_ = os.Remove(part) // it may not be there
		return false
	}
	return true
}

// prune lets go what is too many or too old. The caller holds mu.
func (s *store) prune() {
	for len(s.order) > 0 && (len(s.order) > s.cfg.Keep || s.old(s.order[0])) {
		s.forget(s.order[0].id)
		s.order = s.order[1:]
	}
}

func (s *store) old(e entry) bool { return s.cfg.For > 0 && time.Since(e.ended) > s.cfg.For }

func (s *store) forget(id string) {
	delete(s.records, id)
	if s.cfg.Dir != "" {
		_ = os.Remove(s.file(id)) // it may be in memory only
	}
}

// get returns a response of the key; all is whether it may be anybody's.
func (s *store) get(id, key string, all bool) (record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune()
	if !responseID.MatchString(id) || !s.has(id) {
		return record{}, errUnknown
	}
	r, ok := s.records[id]
	if !ok {
		text, err := os.ReadFile(s.file(id))
		if err != nil || json.Unmarshal(text, &r) != nil {
			return record{}, errUnknown
		}
	}
	if r.Key != key && !all {
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
	r, err := s.get("resp_"+m[1], key, false)
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
	defer s.mu.Unlock()
	s.order = slices.DeleteFunc(s.order, func(e entry) bool { return e.id == id })
	s.forget(id)
}
