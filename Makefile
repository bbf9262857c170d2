# oneslot: `make run` starts it, `make test` tests it. Everything else is a part of those two.
# The recipes are scripts, so that CI, the image and a person run the same steps.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# What a person may set: make run PORT=9000 ENGINE=http://127.0.0.1:30000, make fuzz FUZZTIME=5m, make real MODEL=smollm2
export PORT ENGINE FUZZTIME MODEL IMAGE

.PHONY: help run test check fmt lint race redis fuzz bench real build image deps

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' Makefile

run: ## build and start the proxy on PORT (8080), in front of ENGINE=URL or of the simulated engine
	@scripts/deps.sh go tokenizers && scripts/build.sh && exec scripts/run.sh

test: ## install what is missing and pass every test
	@scripts/test.sh

check: ## formatting, linters, vet and the quick tests, for every commit
	@scripts/test.sh --quick

fmt: ## format every Go file in place
	@scripts/deps.sh lint && scripts/lint.sh --format

lint: ## run the linters of .golangci.yml
	@scripts/deps.sh lint tokenizers && scripts/lint.sh

race: ## every Go test of the module under the race detector
	@scripts/deps.sh go tokenizers redis && scripts/gotest.sh -race ./...

redis: ## the queue tests, Lua scripts included, on throw-away Redis servers
	@scripts/deps.sh go redis && scripts/gotest.sh -race -count=1 ./queue/...

fuzz: ## every fuzz test for FUZZTIME (30s) each
	@scripts/deps.sh go tokenizers && scripts/fuzz.sh

bench: ## every Go benchmark, with allocations
	@scripts/deps.sh go tokenizers && scripts/bench.sh

real: ## only the tests against a real engine, MODEL=tiny or MODEL=smollm2
	@scripts/real.sh

build: ## build bin/oneslot
	@scripts/deps.sh go tokenizers && scripts/build.sh

image: ## build the container image IMAGE (oneslot)
	@docker build --tag "$${IMAGE:-oneslot}" .

deps: ## install everything that run and test need
	@scripts/deps.sh
