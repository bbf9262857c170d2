#!/usr/bin/env bash
# Holds the metrics of a running proxy to Prometheus' conventions, and tests the
# alert rules of deploy/ on made-up series. Needs bin/oneslot.
. "$(dirname "$0")/env.sh"

"$promtool" check rules deploy/alerts.yaml
"$promtool" test rules deploy/alerts_test.yaml

port=$((20000 + RANDOM % 20000))
data=$(mktemp -d)
PORT=$port DATA=$data scripts/run.sh >"$data/out" 2>&1 &
proxy=$!
trap 'kill -TERM $proxy 2>/dev/null; wait $proxy || true; rm -rf "$data"' EXIT
for ((tries = 0; tries < 100; tries++)); do
	bin/oneslot healthcheck --url "http://127.0.0.1:$port" 2>/dev/null && break
	kill -0 "$proxy" 2>/dev/null || { cat "$data/out" && die "the proxy did not start"; }
	sleep 0.1
done
# One answer, so that no family is without a sample.
python3 - "http://127.0.0.1:$port" <<'END' | "$promtool" check metrics
import json, sys, urllib.request
ask = {"model": "ripple", "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]}
headers = {"Content-Type": "application/json"}
urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/v1/chat/completions", json.dumps(ask).encode(), headers), timeout=60).read()
sys.stdout.write(urllib.request.urlopen(sys.argv[1] + "/metrics", timeout=60).read().decode())
END
say "the metrics pass promtool check metrics"
