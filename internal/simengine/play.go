package simengine

import (
	"context"
	"net/http"
	"time"

	"oneslot/internal/simengine/outbox"
	"oneslot/internal/simengine/script"
	"oneslot/internal/simengine/wire"
)

// play does what the script says instead of a generated reply.
func (r *run) play() error {
	for _, step := range r.script {
		over, err := r.step(step)
		if over || err != nil {
			return err
		}
	}
	r.over()
	return nil
}

// over ends a played reply; last is delivered after all else.
func (r *run) over(last ...outbox.Item) {
	r.e.end(r, Scripted)
	r.out.Put(last...)
	r.out.Close()
}

// step does one step and reports whether it was the last one.
func (r *run) step(s script.Step) (over bool, err error) {
	switch s.Kind {
	case script.KindSleep:
		return false, r.until(time.Now().Add(s.Wait))
	case script.KindHold:
		return false, r.await(nil)
	case script.KindAwaitLeave:
		return false, r.await(r.gone)
	case script.KindRepeat:
		return false, r.repeat(s)
	case script.KindEnd:
		r.over()
		return true, nil
	case script.KindCut:
		r.over(outbox.Cut())
		return true, nil
	case script.KindReset:
		r.over(outbox.Reset())
		return true, nil
	case script.KindStatus, script.KindWrite, script.KindThinking, script.KindAnswer, script.KindFinish, script.KindDone:
	}
	if err := r.until(time.Now()); err != nil {
		return false, err
	}
	r.say(s)
	return false, nil
}

// say does a step that writes.
func (r *run) say(s script.Step) {
	switch s.Kind {
	case script.KindStatus:
		header := http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}
		for name, values := range s.Header {
			header[http.CanonicalHeaderKey(name)] = values
		}
		r.headed = true
		r.out.Put(outbox.Head(s.Status, header))
	case script.KindThinking:
		if r.e.cfg.Output == Raw {
			r.put(wire.Chunk{Answer: s.Data})
		} else {
			r.put(wire.Chunk{Thinking: s.Data})
		}
	case script.KindAnswer:
		r.put(wire.Chunk{Answer: s.Data})
	case script.KindFinish:
		r.put(wire.Chunk{Finish: s.Data})
		if r.req.Usage {
			r.write(r.reply.Totals(r.usage(), time.Now()))
		}
	case script.KindDone:
		r.write([]byte(wire.Done))
	case script.KindWrite, script.KindRepeat:
		r.write([]byte(s.Data))
	case script.KindSleep, script.KindHold, script.KindAwaitLeave, script.KindEnd, script.KindCut, script.KindReset:
		// these write nothing
	}
	r.e.mu.Lock()
	r.streaming, r.noticed = true, r.touch()
	if r.rec.FirstToken.IsZero() {
		r.rec.FirstToken = time.Now()
	}
	r.e.event()
	r.e.mu.Unlock()
}

// repeat writes the data of s every s.Wait, on an absolute schedule.
func (r *run) repeat(s script.Step) error {
	begin := time.Now()
	for i := 0; s.Times == 0 || i < s.Times; i++ {
		if err := r.until(begin.Add(time.Duration(i) * s.Wait)); err != nil {
			return err
		}
		r.say(s)
	}
	return nil
}

// await waits for event, or with nil for the end of the run.
func (r *run) await(event <-chan struct{}) error {
	select {
	case <-event:
	case <-r.ctx.Done():
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return nil
}
