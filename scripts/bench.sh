#!/usr/bin/env bash
# Runs every Go benchmark of the module, BENCH selects by name.
. "$(dirname "$0")/env.sh"

exec go test ${tags:+-tags "$tags"} -run '^$' -bench "${BENCH:-.}" -benchmem ./...
