package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"oneslot/queue/line"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fairness:", err)
		os.Exit(1)
	}
}

// run simulates the day that args describe, prints the table to out and draws the
// plot if a file is named for it.
func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("fairness", flag.ContinueOnError)
	flags.SetOutput(out)
	day := flags.Duration("day", 24*time.Hour, "how long the day is")
	seed := flags.Uint64("seed", 1, "of the random numbers")
	file := flags.String("svg", "", "write the plot to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var days []result
	for _, p := range policies() {
		days = append(days, simulate(p, crowd(), *day, *seed))
	}
	if err := table(out, days); err != nil {
		return err
	}
	if err := foretold(out, days); err != nil {
		return err
	}
	if err := guessed(out, *seed); err != nil {
		return err
	}
	if *file == "" {
		return nil
	}
	return os.WriteFile(*file, []byte(plot(days)), 0o644)
}

// policies are the rules that are compared.
func policies() []policy {
	return []policy{
		{name: "first come", starve: 2 * time.Hour},
		{name: "fair share", keys: true, starve: 2 * time.Hour},
		{name: "fair share, starving after 10 min", keys: true, starve: 10 * time.Minute},
		{name: "classes, starving after 10 min", keys: true, classes: true, starve: 10 * time.Minute},
	}
}

// crowd is who shares the slot.
func crowd() []user {
	return []user{
		{name: "person-1", class: line.Interactive, loops: 1, think: 4 * time.Minute, long: 1},
		{name: "person-2", class: line.Interactive, loops: 1, think: 8 * time.Minute, long: 1},
		{name: "person-3", class: line.Interactive, loops: 1, think: 16 * time.Minute, long: 1.5},
		{name: "agent-1", loops: 1, think: 20 * time.Second, long: 0.5},
		{name: "agent-2", loops: 4, think: 2 * time.Minute, long: 1},
		{name: "batch", class: line.Batch, loops: 16, think: time.Second, long: 0.8},
	}
}

// table prints a row for each key and rule.
func table(out io.Writer, days []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "key\trule\tjobs\tslot time\twait p50\tp90\tp99\t")
	for i, u := range days[0].users {
		for _, d := range days {
			t := d.users[i]
			fmt.Fprintf(w, "%s\t%s\t%d\t%v\t%v\t%v\t%v\t\n", u.name, d.policy, len(t.waits), t.slot.Round(time.Second), t.wait(0.5), t.wait(0.9), t.wait(0.99))
		}
	}
	return w.Flush()
}
