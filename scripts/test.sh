#!/usr/bin/env bash
# Every gate and every test, with what they need installed first. All steps run,
# also after one has failed; the last line is "N passed, N failed", where a gate
# that is not met counts as one failed test.
#
# The fuzz tests run their seeds here and what they once found, and nothing that is
# drawn at random: one commit has one verdict. `make fuzz` looks for more.
#
# --quick: the gates and the Go tests without the race detector and engines.
. "$(dirname "$0")/env.sh"

quick=""
[ "${1:-}" = --quick ] && quick=yes

TALLY=$(mktemp)
export TALLY
trap 'rm -f "$TALLY"' EXIT
broken=()

# gate runs one step that is met or not, and counts only when it is not.
gate() {
	local name=$1
	shift
	printf '\n== %s\n' "$name"
	"$@" && return
	broken+=("$name")
	echo "0 1" >>"$TALLY"
}

# tests runs one step that counts its own tests.
tests() {
	local name=$1 before after
	shift
	printf '\n== %s\n' "$name"
	before=$(wc -l <"$TALLY")
	"$@" && return
	broken+=("$name")
	after=$(wc -l <"$TALLY")
	[ "$before" != "$after" ] || echo "0 1" >>"$TALLY"
}

unformatted() {
	local files
	files=$(go_files '*.go' | xargs -r gofmt -l)
	[ -z "$files" ] || { printf 'not formatted, run make fmt:\n%s\n' "$files" && return 1; }
}

vet() {
	go vet ${tags:+-tags "$tags"} ./...
	[ -z "$tags" ] || CGO_ENABLED=0 go vet ./...
	(cd acceptance && go vet ./...)
}

if [ -n "$quick" ]; then
	scripts/deps.sh go tokenizers lint redis
else
	scripts/deps.sh
fi
export DEPS=done
# Once more, since the tokenizer library may be new.
. scripts/env.sh

gate "formatting" unformatted
gate "vet" vet
gate "lint" scripts/lint.sh
gate "build without cgo" env CGO_ENABLED=0 go build ./...
if [ -n "$quick" ]; then
	tests "tests" scripts/gotest.sh ./...
else
	gate "build" scripts/build.sh
	gate "metrics and alerts" scripts/promtool.sh
	# Here every mutant of the line's scripts has to die, more schedules are run, and every
	# fault is tried on real servers.
	tests "tests under the race detector" env LINE_MUTANTS=all LINE_SCHEDULES=300 FAULTS=all scripts/gotest.sh -race ./...
	tests "real clients and a real engine" scripts/real.sh
fi

printf '\n'
[ ${#broken[@]} = 0 ] || printf 'failed: %s\n' "${broken[@]}"
awk '{passed += $1; failed += $2} END {printf "%d passed, %d failed\n", passed, failed; exit failed > 0}' "$TALLY"
