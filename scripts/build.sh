#!/usr/bin/env bash
# Builds bin/oneslot, with the native tokenizer where its library is there.
# STATIC=yes links it to nothing outside, for an image that holds nothing else.
. "$(dirname "$0")/env.sh"

flags="-s -w -X main.version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}"
if [ "${STATIC:-}" = yes ] && [ -n "$tags" ]; then
	tags="$tags,netgo,osusergo"
	flags="$flags -linkmode external -extldflags -static"
elif [ "${STATIC:-}" = yes ]; then
	export CGO_ENABLED=0
fi

mkdir -p bin
go build -trimpath -ldflags "$flags" ${tags:+-tags "$tags"} -o bin/oneslot ./cmd/oneslot
