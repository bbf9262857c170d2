package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"oneslot/configs"
)

// floor is how much of the heap counts as alive at least, in bytes. A proxy keeps a
// megabyte or two, so that under load the collector would come twenty times a second to
// look at the same little.
const floor = 8 << 20

func main() {
	unused := make([]byte, floor) // never touched, so that it takes addresses and no memory
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the second one ends the process at once.
	context.AfterFunc(ctx, stop)
	// net/http prints what an engine sends out of turn, which may be an answer.
	log.SetOutput(io.Discard)
	err := run(ctx, os.Args[1:], world{environ: os.Environ(), out: os.Stdout, errs: os.Stderr})
	stop()
	runtime.KeepAlive(unused)
	if err != nil {
		fmt.Fprintln(os.Stderr, "oneslot:", err)
	}
	os.Exit(status(err))
}

// status is the exit status for an error: 2 for what the user can put right on
// the command line or in the file, 1 for the rest.
func status(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, configs.ErrConfig), errors.Is(err, errUsage):
		return 2
	default:
		return 1
	}
}

// errUsage is the class of faults of the command line.
var errUsage = errors.New("usage")

// world is what the program reads of its surroundings, so that a test can run
// it whole.
type world struct {
	environ   []string
	out, errs io.Writer
	// listen and dial are the network. Zero means TCP.
	listen func(network, address string) (net.Listener, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// run is the program without its globals.
func run(ctx context.Context, args []string, w world) error {
	if w.listen == nil {
		w.listen = net.Listen
	}
	root := rootCommand(&w)
	root.SetArgs(args)
	root.SetOut(w.out)
	root.SetErr(w.errs)
	return root.ExecuteContext(ctx)
}
