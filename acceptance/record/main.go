// Command record stands between a client that is tried by hand and the proxy, and
// writes what they say to each other to standard output when it is interrupted:
//
//	go run ./record 127.0.0.1:8081 http://127.0.0.1:8080 > transcript.md
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"oneslot/acceptance/transcript"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("it takes the address to listen on and the proxy's URL, not %q", args)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	recorder, err := transcript.Listen(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	<-ctx.Done()
	_, err = fmt.Print(transcript.Write(recorder.Exchanges()))
	if err != nil {
		return err
	}
	return recorder.Close()
}
