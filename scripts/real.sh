#!/usr/bin/env bash
# Builds the proxy and runs the acceptance module: real clients through the real
# proxy in front of a real engine. MODEL=tiny (made here) or MODEL=smollm2.
. "$(dirname "$0")/env.sh"

scripts/deps.sh go tokenizers python
model=${MODEL:-tiny}
case $model in
tiny) ;;
smollm2) scripts/deps.sh smollm2 ;;
*) die "MODEL=$model is not known: tiny or smollm2" ;;
esac
scripts/build.sh

export ONESLOT_BIN="$root/bin/oneslot" ONESLOT_PYTHON="$venv/bin/python" ONESLOT_MODEL="$model"
cd acceptance
"$root/scripts/gotest.sh" -count=1 ./...
