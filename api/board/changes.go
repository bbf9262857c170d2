package board

import "time"

// change is one event of a feed.
type change struct {
	name string
	data any
}

type grantedEvent struct {
	RequestID string `json:"request_id"`
	Engine    string `json:"engine"`
}

type leftEvent struct {
	RequestID string `json:"request_id"`
}

type lineEvent struct {
	Waiting  int  `json:"waiting"`
	Running  int  `json:"running"`
	Paused   bool `json:"paused"`
	Draining bool `json:"draining"`
}

func (v *View) counts() lineEvent {
	return lineEvent{v.Waiting, v.Running, v.Paused, v.Draining}
}

// changes are the events that lead from the view last told to v. More than most of
// them need not be whole.
func (w *watcher) changes(v *View, now time.Time) []change {
	list := w.waiters(v)
	for i := range v.Slots {
		if i < len(w.last.Slots) {
			list = w.slot(list, &w.last.Slots[i], &v.Slots[i], now)
		}
	}
	if v.counts() != w.last.counts() {
		list = append(list, change{"line", v.counts()})
	}
	return list
}

// waiters are the changes of the viewer's own places.
func (w *watcher) waiters(v *View) (list []change) {
	old := map[string]*Waiter{}
	for i := range w.last.Waiters {
		if own := &w.last.Waiters[i]; own.RequestID != "" {
			old[own.RequestID] = own
		}
	}
	var came []change
	for _, now := range v.Waiters {
		was := old[now.RequestID]
		delete(old, now.RequestID)
		switch {
		case was == nil:
			came = append(came, change{"joined", now})
		case was.Position != now.Position:
			came = append(came, change{"moved", now})
		}
	}
	runs := map[string]string{}
	for _, s := range v.Slots {
		runs[s.RequestID] = s.Engine
	}
	for id := range old {
		if engine, ok := runs[id]; ok {
			list = append(list, change{"granted", grantedEvent{id, engine}})
		} else {
			list = append(list, change{"left", leftEvent{id}})
		}
	}
	return append(list, came...)
}

// slot adds the change of one slot.
func (w *watcher) slot(list []change, was, is *Slot, now time.Time) []change {
	switch {
	case was.State != is.State || was.RequestID != is.RequestID:
		w.told[is.Engine] = now
		return append(list, change{"slot", *is})
	case is.Phase != was.Phase, is.Phase != "" && now.Sub(w.told[is.Engine]) >= progress:
		w.told[is.Engine] = now
		return append(list, change{"phase", *is})
	}
	return list
}
