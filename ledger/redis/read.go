package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"oneslot/ledger"

	goredis "github.com/redis/go-redis/v9"
)

// Get finds a row.
func (s *store) Get(ctx context.Context, id string) (ledger.Row, error) {
	text, err := s.client.HGet(ctx, s.keys[rowsKey], id).Result()
	if errors.Is(err, goredis.Nil) {
		return ledger.Row{}, fmt.Errorf("%w: %s", ledger.ErrNotFound, id)
	}
	if err != nil {
		return ledger.Row{}, fault("read row "+id, err)
	}
	row, err := unpack(text)
	return row, fault("read row "+id, err)
}

// List finds a page of rows.
func (s *store) List(ctx context.Context, q ledger.Query) (rows []ledger.Row, err error) {
	err = s.visit(ctx, q, func(r *ledger.Row) bool {
		rows = append(rows, *r)
		return len(rows) < q.Limit
	})
	return rows, fault("list", err)
}

// Sum adds up the rows as they are read.
func (s *store) Sum(ctx context.Context, q ledger.Query, by ledger.By) ([]ledger.Sum, error) {
	q.After = ""
	a := ledger.NewAdder(by)
	err := s.visit(ctx, q, func(r *ledger.Row) bool {
		a.Row(r)
		return true
	})
	return a.Sums(), fault("add up", err)
}

// chunk is how many rows are read at once.
const chunk = 1000

// visit calls f with the rows of q, newest first, while it wants more.
func (s *store) visit(ctx context.Context, q ledger.Query, f func(*ledger.Row) bool) error {
	span := goredis.ZRangeArgs{Key: s.keys[timesKey], ByScore: true, Rev: true, Start: "+inf", Stop: "-inf", Count: chunk}
	if !q.Since.IsZero() {
		span.Stop = q.Since.UnixMilli()
	}
	if !q.Until.IsZero() {
		span.Start = "(" + strconv.FormatInt(q.Until.UnixMilli(), 10)
	}
	last := goredis.Z{} // the newest row that is not wanted any more
	if q.After != "" {
		at, err := s.client.ZScore(ctx, span.Key, q.After).Result()
		if errors.Is(err, goredis.Nil) {
			return nil
		} else if err != nil {
			return err
		}
		last = goredis.Z{Score: at, Member: q.After}
		span.Start = at
	}
	for {
		found, err := s.client.ZRangeArgsWithScores(ctx, span).Result()
		if err != nil {
			return err
		}
		wanted, err := s.fresh(ctx, found, last)
		if err != nil {
			return err
		}
		for i := range wanted {
			if q.Selects(&wanted[i]) && !f(&wanted[i]) {
				return nil
			}
		}
		if len(found) < chunk {
			return nil
		}
		// The next part begins with the rows of the moment at which this one ends,
		// which may be more than a part.
		next := found[len(found)-1]
		if next.Score != last.Score {
			last, span.Offset = next, 0
		} else {
			span.Offset += chunk
			if member(next) < member(last) {
				last = next
			}
		}
		span.Start = next.Score
	}
}

func member(z goredis.Z) string {
	id, _ := z.Member.(string)
	return id
}

// fresh reads the rows behind ids that come after last.
func (s *store) fresh(ctx context.Context, found []goredis.Z, last goredis.Z) (rows []ledger.Row, err error) {
	var ids []string
	for _, z := range found {
		if z.Score != last.Score || member(z) < member(last) {
			ids = append(ids, member(z))
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	texts, err := s.client.HMGet(ctx, s.keys[rowsKey], ids...).Result()
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		text, ok := text.(string)
		if !ok {
			continue // it was deleted meanwhile
		}
		row, err := unpack(text)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}
