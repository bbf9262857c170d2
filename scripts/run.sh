#!/usr/bin/env bash
# Starts bin/oneslot on PORT (8080), in front of ENGINE=URL or of the simulated
# engine on a free port, and says where. Ctrl-C stops both.
. "$(dirname "$0")/env.sh"

port=${PORT:-8080}
# Each proxy has a ledger of its own.
data=${DATA:-data}
[ -n "${DATA:-}" ] || [ "$port" = 8080 ] || data="data/$port"
base="http://127.0.0.1:$port"

# answers succeeds where something listens on the loopback port.
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# get prints what the proxy answers to GET, its status line first.
get() {
	exec 3<>"/dev/tcp/127.0.0.1/$port"
	printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' "$1" >&3
	timeout 5 cat <&3
}

# model prints the name of the first model that the proxy offers.
model() { get /v1/models | grep -o '"id": *"[^"]*"' | head -n 1 | cut -d '"' -f 4; }

# ready succeeds where the engine answers too.
ready() { get /readyz | head -n 1 | grep -q ' 200 '; }

# greet waits until the proxy listens, then says what to do with it.
greet() {
	local name note="" url=""
	for ((tries = 0; tries < 300; tries++)); do
		if answers "$port"; then
			name=$(model 2>/dev/null) || true
			ready 2>/dev/null || { name=MODEL note="The engine at ${ENGINE:-the port above} does not answer yet: requests wait until it does."; }
			[ "$port" = 8080 ] || url="ONESLOT_URL=$base "
			cat <<-END

				oneslot listens. Base URL for any OpenAI client: $base/v1${note:+
				$note}
				Try it:

				  curl -N $base/v1/chat/completions -H 'Content-Type: application/json' \\
				    -d '{"model":"${name:-MODEL}","stream":true,"messages":[{"role":"user","content":"Hello"}]}'

				Watch the line:  ${url}bin/oneslot queue --watch
				What was used:   ${url}bin/oneslot usage     (kept in $data)
				Stop: Ctrl-C

			END
			return
		fi
		kill -0 "$$" 2>/dev/null || return 0
		sleep 0.1
	done
}

# free_port prints a loopback port that nothing listens on.
free_port() {
	local candidate
	for ((tries = 0; tries < 100; tries++)); do
		candidate=$((20000 + RANDOM % 20000))
		answers "$candidate" || { echo "$candidate" && return; }
	done
	die "no free port between 20000 and 39999"
}

[[ $port =~ ^[0-9]+$ ]] || die "PORT=$port is not a number"
if answers "$port"; then
	die "port $port is in use on 127.0.0.1: choose another one, for instance make run PORT=$((port + 1))"
fi

if [ -n "${ENGINE:-}" ]; then
	say "proxy in front of $ENGINE"
	greet &
	exec bin/oneslot serve --data "$data" --listen "127.0.0.1:$port" --engine "$ENGINE"
fi

# The simulated engine and the proxy belong to this script and end with it.
# Each is a process group of its own, since Ctrl-C goes to all of a group: the
# engine would end under the answer, and the proxy be told twice, which ends it at once.
set -m
children=()
stop() {
	trap - EXIT
	# Once more is a second signal for them, and they end at once.
	trap 'kill -TERM "${children[@]}" 2>/dev/null || true' INT TERM HUP
	# One after the other, the proxy first: its running answer still needs the engine.
	for child in "${children[@]}"; do
		kill -TERM "$child" 2>/dev/null || true
		while kill -0 "$child" 2>/dev/null; do wait "$child" 2>/dev/null || true; done
	done
}
trap stop EXIT
trap 'exit 0' INT TERM HUP

engine_port=$(free_port)
say "simulated engine on 127.0.0.1:$engine_port (for a real one: make run ENGINE=http://host:port)"
bin/oneslot sim --listen "127.0.0.1:$engine_port" &
children+=($!)
for ((tries = 0; tries < 100; tries++)); do
	answers "$engine_port" && break
	kill -0 "${children[0]}" 2>/dev/null || die "the simulated engine did not start"
	sleep 0.1
done

greet &
children+=($!)
bin/oneslot serve --data "$data" --listen "127.0.0.1:$port" --engine "http://127.0.0.1:$engine_port" &
proxy=$!
children=("$proxy" "${children[@]}")
wait "$proxy"
