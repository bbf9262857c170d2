package live

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"oneslot/internal/remote"
	"oneslot/ledger"
)

// A Book is the ledger of a running proxy.
type Book struct{ proxy *remote.Client }

// New returns the ledger behind a client, which stays the caller's to close.
func New(proxy *remote.Client) Book { return Book{proxy} }

// Get asks for one row.
func (b Book) Get(ctx context.Context, id string) (ledger.Row, error) {
	var row ledger.Row
	err := b.proxy.JSON(ctx, remote.Call{Path: "/v1/usage/" + url.PathEscape(id)}, &row)
	return row, err
}

// List asks for a page.
func (b Book) List(ctx context.Context, q ledger.Query) ([]ledger.Row, string, error) {
	var page struct {
		Data []ledger.Row `json:"data"`
		Next string       `json:"next_after"`
	}
	err := b.proxy.JSON(ctx, remote.Call{Path: "/v1/usage", Query: params(q)}, &page)
	return page.Data, page.Next, err
}

// Sum asks for sums.
func (b Book) Sum(ctx context.Context, q ledger.Query, by ledger.By) ([]ledger.Sum, error) {
	v := params(q)
	v.Set("by", string(by))
	var list struct {
		Data []ledger.Sum `json:"data"`
	}
	err := b.proxy.JSON(ctx, remote.Call{Path: "/v1/usage", Query: v}, &list)
	return list.Data, err
}

// params is a query as it stands in a URL.
func params(q ledger.Query) url.Values {
	v := url.Values{}
	for name, text := range map[string]string{"key": q.Key, "model": q.Model, "outcome": string(q.Outcome), "after": q.After} {
		if text != "" {
			v.Set(name, text)
		}
	}
	for name, t := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !t.IsZero() {
			v.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}
