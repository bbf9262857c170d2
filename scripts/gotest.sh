#!/usr/bin/env bash
# Runs go test with the build this machine can do, and counts.
# Usage: scripts/gotest.sh [go test flags] PACKAGES; TALLY=FILE collects the counts.
. "$(dirname "$0")/env.sh"

# -C must come first.
module=()
[ "${1:-}" != -C ] || { module=(-C "$2") && shift 2; }

go test ${module[@]+"${module[@]}"} -json ${tags:+-tags "$tags"} -timeout "${TIMEOUT:-10m}" "$@" 2>&1 |
	python3 "$root/scripts/tally.py" ${TALLY:+--into "$TALLY"}
