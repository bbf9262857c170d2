#!/usr/bin/env bash
# Builds libtokenizers.a, the native half of internal/tokenizer, from the Rust source inside its Go module.
# Usage: scripts/build-tokenizers.sh [FOLDER]
#
# Prints the folder that holds the library, by default .cache/tokenizers/VERSION; `-L` of the linker wants it.
# A library that is there already is not built again. Exit code 3: cargo or a C++ compiler is missing, so the
# program can only be built without the tag hftokenizers.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
module=github.com/daulet/tokenizers
# The module names a git branch here; the crate below is its published release with the same functions.
tiktoken='tiktoken-rs = "0.7.0"'

say() { printf -- '-- %s\n' "$*" >&2; }
missing() {
	printf 'error: %s\n' "$*" >&2
	exit 3
}

version=$(go list -m -f '{{.Version}}' "$module")
base="$root/.cache/tokenizers"
dest=${1:-$base/$version}

# link_default lets builds that do not know the version find the library.
link_default() {
	[ "$dest" = "$base/$version" ] || return 0
	ln -sfn "$version/libtokenizers.a" "$base/libtokenizers.a"
}

if [ -f "$dest/libtokenizers.a" ]; then
	link_default
	echo "$dest"
	exit 0
fi

command -v cargo >/dev/null ||
	missing "cargo is missing: install Rust 1.82 or later, or build without the tag hftokenizers"
command -v c++ >/dev/null || command -v g++ >/dev/null ||
	missing "a C++ compiler is missing: install g++, or build without the tag hftokenizers"

go mod download "$module"
source=$(go list -m -f '{{.Dir}}' "$module")

mkdir -p "$dest"
dest=$(cd "$dest" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/oneslot-tokenizers.XXXXXX")
trap 'rm -rf "$work" "$dest/.libtokenizers.a.$$"' EXIT

# Only what cargo reads: the module's tests and vocabularies are large.
mkdir "$work/crates"
cp "$source/Cargo.toml" "$source/Cargo.lock" "$work/"
cp -R "$source/crates/tokenizers" "$work/crates/"
chmod -R u+w "$work"

# edit changes one line of a manifest and fails when the line is not there, since then the module has changed.
edit() {
	local file=$1 from=$2 to=$3
	grep -q "$from" "$file" || {
		printf 'error: %s of %s %s has no line %s: this script does not fit the version\n' "${file##*/}" "$module" "$version" "$from" >&2
		exit 1
	}
	sed "s|.*$from.*|$to|" "$file" >"$file.new"
	mv "$file.new" "$file"
}
edit "$work/crates/tokenizers/Cargo.toml" 'tiktoken-rs = ' "$tiktoken"
edit "$work/Cargo.toml" '"crates/tokenizers-wasm"' ''

lock="$root/internal/tokenizer/tokenizers-$version.lock"
locked=()
if [ -f "$lock" ]; then
	cp "$lock" "$work/Cargo.lock"
	locked=(--locked)
else
	say "no $(basename "$lock") in internal/tokenizer: the crates are not pinned"
fi

say "building libtokenizers.a of $module $version, about two minutes"
(cd "$work" && CARGO_TARGET_DIR="$work/target" cargo build --quiet --release ${locked[@]+"${locked[@]}"} -p tokenizers-ffi) >&2

# Renamed into place, so that a build at the same time sees the whole file or none.
cp "$work/target/release/libtokenizers_ffi.a" "$dest/.libtokenizers.a.$$"
mv "$dest/.libtokenizers.a.$$" "$dest/libtokenizers.a"
link_default
echo "$dest"
