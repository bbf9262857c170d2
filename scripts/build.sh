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

# grpc is there for the types of the telemetry protocol only; its traces would have the
# linker keep every method of every type.
tags="${tags:+$tags,}grpcnotrace"

mkdir -p bin
go build -trimpath -ldflags "$flags" -tags "$tags" -o bin/oneslot ./cmd/oneslot
