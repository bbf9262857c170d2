package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/tmaxmax/go-sse"
)

// maxFeedEvent bounds one event of the feed, in bytes: a snapshot of many.
const maxFeedEvent = 64 << 20

// Plain writes the line as it is, and then a line of text for each event,
// until the feed ends.
func Plain(feed io.Reader, out io.Writer) error {
	for e, err := range sse.Read(feed, &sse.ReadConfig{MaxEventSize: maxFeedEvent}) {
		if err != nil {
			return err
		}
		text := Line(time.Now(), e.Type, []byte(e.Data)) + "\n"
		if e.Type == "snapshot" {
			var s Screen
			var b bytes.Buffer
			if err := errors.Join(s.Apply(e.Type, []byte(e.Data)), s.Table(&b, 0)); err != nil {
				return err
			}
			text = b.String()
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	return nil
}

// liveRows is how many of those who wait are shown in a terminal.
const liveRows = 20

// Live keeps a table up to date, every second and with every event, until
// ctx or the feed ends. It closes the feed, which ends the goroutine that reads it,
// and waits for that.
func Live(ctx context.Context, feed io.ReadCloser, out io.Writer) error {
	events, failed := make(chan sse.Event), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() { failed <- read(ctx, feed, events) })
	defer func() {
		cancel()         // it may have an event that nobody takes,
		_ = feed.Close() // or wait for one
		reader.Wait()
	}()
	var s Screen
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case e := <-events:
			if err := s.Apply(e.Type, []byte(e.Data)); err != nil {
				return err
			}
		case <-tick.C:
		}
		b := bytes.NewBufferString("\x1b[H") // to the top, over what is there
		_ = s.Table(b, liveRows)             // a buffer takes everything
		text := append(bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte("\x1b[K\n")), "\x1b[J"...)
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
}

// read passes the events of a feed on until it or ctx ends.
func read(ctx context.Context, feed io.Reader, events chan<- sse.Event) error {
	for e, err := range sse.Read(feed, &sse.ReadConfig{MaxEventSize: maxFeedEvent}) {
		if err != nil {
			return err
		}
		select {
		case events <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
