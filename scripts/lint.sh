#!/usr/bin/env bash
# Runs the linters of .golangci.yml over both modules; --format formats in place,
# --format-check only says which files are not formatted.
. "$(dirname "$0")/env.sh"

case ${1:-} in
--format) run=(fmt) ;;
--format-check) run=(fmt --diff) ;;
"") run=(run --allow-parallel-runners ${tags:+--build-tags "$tags"}) ;;
*) die "unknown option $1" ;;
esac

status=0
for module in . acceptance; do
	(cd "$module" && "$golangci" "${run[@]}" --config "$root/.golangci.yml" ./...) || status=1
done
exit $status
