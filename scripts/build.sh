#!/usr/bin/env bash
# Builds bin/oneslot, with the native tokenizer where its library is there.
. "$(dirname "$0")/env.sh"

mkdir -p bin
go build -trimpath ${tags:+-tags "$tags"} -o bin/oneslot ./cmd/oneslot
