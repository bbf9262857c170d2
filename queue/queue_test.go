package queue

import (
	"context"
	"fmt"
	"testing"
)

type settleFunc func(ctx context.Context, slot string) error

func (f settleFunc) Settle(ctx context.Context, slot string) error { return f(ctx, slot) }

func TestSmoke(t *testing.T) {
	cfg := Config{Slots: []string{"spark"}}
	store, err := NewMemory(cfg)
	if err != nil {
		t.Fatal(err)
	}
	q, err := New(store, settleFunc(func(context.Context, string) error { return nil }), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		err = q.Do(t.Context(), Job{ID: fmt.Sprintf("%032x", i)}, func(_ context.Context, h *Hold) error {
			t.Log(h.Slot, h.Fence, h.Waited)
			h.Idle()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := q.Snapshot(t.Context())
	t.Logf("%+v %v", s, err)
	if err := q.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
