# Sourced by every script: where things are, and which build this machine can do.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# One cache may serve several worktrees by a link. Its real path is used, since the
# linker flags below are a part of what Go's build cache goes by.
mkdir -p "$root/.cache"
cache=$(cd "$root/.cache" && pwd -P)
venv="$cache/venv"
api_venv="$cache/venv-api"
langchain_venv="$cache/venv-langchain"
golangci_version=2.15.0
valkey_version=9.1.2.post2
golangci="$cache/bin/golangci-lint"
promtool_version=0.316.0
promtool="$cache/bin/promtool"

# say prints one line of progress; die ends the script with a reason.
say() { printf -- '-- %s\n' "$*"; }
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# go_files lists the sources whose name matches, those of both modules.
go_files() { find . -name '.?*' -prune -o -name "$1" -print; }

# native_tokenizer succeeds where the static tokenizer library has been built.
native_tokenizer() { [ -f "$cache/tokenizers/libtokenizers.a" ]; }

# The build tag and linker path follow from the library alone, so that every
# script builds the same program.
tags=""
if native_tokenizer && [ "${CGO_ENABLED:-1}" != 0 ]; then
	tags=hftokenizers
	export CGO_LDFLAGS="-L$cache/tokenizers ${CGO_LDFLAGS:-}"
fi
