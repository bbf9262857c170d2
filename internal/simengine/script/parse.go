package script

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/tools/txtar"
)

// Parse reads a script file, in the form of the package comment. All faults are
// reported at once, each with the section it is in.
func Parse(text string) ([]Script, error) {
	archive := txtar.Parse([]byte(text))
	if len(archive.Files) == 0 {
		return nil, errors.New("script: no section such as \"-- write --\" found")
	}
	scripts := []Script{nil}
	var faults []error
	for i, section := range archive.Files {
		if section.Name == "next" {
			scripts = append(scripts, nil)
			continue
		}
		step, err := parseStep(section.Name, string(section.Data))
		if err != nil {
			faults = append(faults, fmt.Errorf("script: section %d, %q: %w", i+1, section.Name, err))
			continue
		}
		last := &scripts[len(scripts)-1]
		*last = append(*last, step)
	}
	return scripts, errors.Join(faults...)
}

// plain are the steps without argument and body.
func plain(name string) (Step, bool) {
	switch name {
	case "done":
		return Done(), true
	case "hold":
		return Hold(), true
	case "await-leave":
		return AwaitLeave(), true
	case "end":
		return End(), true
	case "cut":
		return Cut(), true
	case "reset":
		return Reset(), true
	}
	return Step{}, false
}

func parseStep(section, body string) (Step, error) {
	words := strings.Fields(section)
	name, args := words[0], words[1:]
	if step, ok := plain(name); ok {
		if len(args) > 0 || body != "" {
			return Step{}, errors.New("takes no argument and no body")
		}
		return step, nil
	}
	cut := strings.TrimSuffix(body, "\n")
	switch name {
	case "status":
		return parseStatus(args, body)
	case "write":
		return Write(body), wantArgs(args, 0)
	case "write-cut":
		return Write(cut), wantArgs(args, 0)
	case "hex":
		data, err := hex.DecodeString(strings.Map(dropSpace, body))
		return Write(string(data)), errors.Join(err, wantArgs(args, 0))
	case "repeat":
		return parseRepeat(args, body)
	case "sleep":
		if err := wantArgs(args, 1); err != nil {
			return Step{}, err
		}
		d, err := time.ParseDuration(args[0])
		return Sleep(d), err
	case "thinking":
		return Thinking(cut), wantArgs(args, 0)
	case "answer":
		return Answer(cut), wantArgs(args, 0)
	case "finish":
		if err := wantArgs(args, 1); err != nil {
			return Step{}, err
		}
		return Finish(args[0]), nil
	}
	return Step{}, errors.New("no such step")
}

func wantArgs(args []string, n int) error {
	if len(args) != n {
		return fmt.Errorf("takes %d arguments, has %d", n, len(args))
	}
	return nil
}

func parseStatus(args []string, body string) (Step, error) {
	if err := wantArgs(args, 1); err != nil {
		return Step{}, err
	}
	code, err := strconv.Atoi(args[0])
	if err != nil || code < 200 || code > 599 {
		return Step{}, fmt.Errorf("status %q is not a number from 200 to 599", args[0])
	}
	header := http.Header{}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return Step{}, fmt.Errorf("header line %q has no colon", line)
		}
		header.Add(textproto.TrimString(name), textproto.TrimString(value))
	}
	return Status(code, header), nil
}

func parseRepeat(args []string, body string) (Step, error) {
	if err := wantArgs(args, 2); err != nil {
		return Step{}, err
	}
	times, err := strconv.Atoi(args[0])
	if err != nil || times < 0 {
		return Step{}, fmt.Errorf("%q is not a number of times", args[0])
	}
	wait, err := time.ParseDuration(args[1])
	return Repeat(body, times, wait), err
}

func dropSpace(r rune) rune {
	if unicode.IsSpace(r) {
		return -1
	}
	return r
}
