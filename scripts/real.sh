#!/usr/bin/env bash
# Builds the proxy and runs the acceptance module: real clients through the real
# proxy in front of a real engine. MODEL=tiny (made here) or MODEL=smollm2.
. "$(dirname "$0")/env.sh"

model=${MODEL:-tiny}
case $model in
tiny) only=. ;;
# The model of people has no tool token, and shares no count of tokens with a made one.
smollm2) only='^Test(Chat|Cut|TwoAtOnce|Gone|Cancel|PythonClient)$' ;;
*) die "MODEL=$model is not known: tiny or smollm2" ;;
esac
scripts/deps.sh go tokenizers python api langchain node
[ "$model" = tiny ] || scripts/deps.sh "$model"
. scripts/env.sh
scripts/build.sh

export ONESLOT_BIN="$root/bin/oneslot" ONESLOT_PYTHON="$venv/bin/python" ONESLOT_API_PYTHON="$api_venv/bin/python" ONESLOT_LANGCHAIN_PYTHON="$langchain_venv/bin/python" ONESLOT_MODEL="$model"
if [ -n "$tags" ]; then export ONESLOT_TOKENIZER=yes; fi
"$root/scripts/gotest.sh" -C acceptance -count=1 -run "$only" ./...
