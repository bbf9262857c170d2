#!/usr/bin/env bash
# Runs every fuzz test of the module for FUZZTIME (30s) each, and counts.
. "$(dirname "$0")/env.sh"

fuzztime=${FUZZTIME:-30s}
passed=0 failed=0
while IFS=: read -r file target; do
	package=$(dirname "$file")
	log=$(mktemp)
	if go test ${tags:+-tags "$tags"} -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package" >"$log" 2>&1; then
		printf 'ok   %s %s (%s)\n' "$package" "$target" "$(grep -o 'execs: [0-9]*' "$log" | tail -n 1)"
		passed=$((passed + 1))
	else
		printf 'FAIL %s %s\n' "$package" "$target"
		cat "$log"
		failed=$((failed + 1))
	fi
	rm -f "$log"
done < <(go_files '*_test.go' | xargs -r grep -oHE '^func Fuzz[A-Za-z0-9_]*' | sed 's/:func /:/' | sort)

[ -z "${TALLY:-}" ] || echo "$passed $failed" >>"$TALLY"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
