package queue

import (
	"context"
	"sync"
	"time"

	"oneslot/queue/line"
)

// Store keeps the line, in this process (NewMemory) or in Redis (NewRedis). It
// carries out the steps of the policy one after the other, each whole or not at
// all, and is safe for concurrent use. Only this package implements it.
type Store interface {
	// apply carries out one step. An error means that its fate is unknown; every
	// step may be repeated. It returns within Config.CallTimeout.
	apply(ctx context.Context, by line.Caller, s line.Step) (line.Reply, error)
	// listen calls hear with what other processes have for owner, one at a time,
	// until ctx ends. Messages may be lost; after a gap it says so by Resync.
	listen(ctx context.Context, owner string, hear func(Note))
	// lease is how long a silent owner keeps its slots and places; 0 is for ever.
	lease() time.Duration
}

// NoteKind is what a Note is about.
type NoteKind uint8

// The kinds of notes.
const (
	Resync  NoteKind = iota // messages may have been lost
	Granted                 // Grant was made for the owner
	Asked                   // the job Grant.ID is to be cancelled
)

// Note is a message from another process.
type Note struct {
	Kind  NoteKind
	Grant line.Grant
}

// memory is the store of one process. Its clock is the monotonic one.
type memory struct {
	began time.Time
	mu    sync.Mutex // guards line
	line  *line.Line
}

// NewMemory returns a store that lives and dies with this process. It serves
// one Queue; there is no lease to lose.
func NewMemory(cfg Config) (Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &memory{began: time.Now(), line: line.New(cfg.WithDefaults().rules(0))}, nil
}

func (m *memory) apply(_ context.Context, by line.Caller, s line.Step) (line.Reply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.line.Apply(m.began.Add(time.Since(m.began)), by, s), nil
}

func (m *memory) listen(ctx context.Context, _ string, _ func(Note)) { <-ctx.Done() }

func (m *memory) lease() time.Duration { return 0 }

// place is the position of a ticket without I/O: 1 is next.
func (m *memory) place(id string) (position, of int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.line.Position(id), m.line.Len()
}
