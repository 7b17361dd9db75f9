# Every target works as the first command on a fresh clone.
.DEFAULT_GOAL := help
# What failed half-way is not taken for built.
.DELETE_ON_ERROR:
.PHONY: help run test lint format api test-node test-documented check-ecosystem torture mutants bench bench-guard bench-right evidence evidence-check seed screenshots build clean

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Install, build, start with --dev: a key of this machine and a curl line to paste
	@node dist/server.js --dev

test: node_modules/.package-lock.json ## Install, build, check the types of the tests, run every one, hold coverage at 95 %
	npm test

lint: node_modules/.package-lock.json ## Hold the source against biome.jsonc: few rules, and the form that `make format` gives
	node_modules/.bin/biome ci --error-on-warnings

format: node_modules/.package-lock.json ## Write src and test in the form that `make lint` expects
	node_modules/.bin/biome format --write

api: build ## Write the public types anew into docs/api.d.ts, which a test compares
	node --import tsx test/api.ts

# Without the grep, a package that brought no Node would leave us on our own.
test-node: node_modules/.package-lock.json ## Run what depends on the Node on another one, such as NODE=24, which the package `node` brings
	npm run --silent build-tests
	npx --yes --package=node@$(or $(NODE),$(error Say which: make test-node NODE=24)) -- sh -c 'node --version | grep "^v$(NODE)\." && node --test --test-reporter=spec --test-concurrency=8 --test-timeout=480000 test-dist/http/*.test.js test-dist/plugins/*.test.js test-dist/standalone/*.test.js test-dist/storage/*.test.js'

test-documented: node_modules/.package-lock.json ## Run the tests of HTTP on the documented interface of Node alone (C79), but for named exceptions
	npm run --silent build-tests
	node --import tsx test/documented.ts

check-ecosystem: build test/ecosystem/node_modules/.package-lock.json ## Try the package and the clients and frameworks of others; CLIENTS="package prism" chooses
	node --import tsx test/ecosystem/generate.ts
	node_modules/.bin/tsc --project test/ecosystem
	node --import tsx --test --test-timeout=300000 $(patsubst %,test/ecosystem/%.check.ts,$(or $(CLIENTS),*))

torture: build ## Try every fault of docs/evidence.md's Reliability table; BUDGET_S=300 bounds it in seconds (all: fourteen minutes; some need root)
	node --import tsx test/torture/run.ts $(ROWS)

mutants: build ## Change src at COUNT=400 places, one after the other, and see that tests fail, forty minutes; SEED=1 repeats a choice
	node --import tsx test/mutants/run.ts

bench: build test/bench/peers/node_modules/.package-lock.json ## Measure ours against the peers, some twenty minutes; PARTS="speed start" chooses, ROUNDS=7 goes on, SHORT=1 only tries it
	node --import tsx test/bench/bench.ts $(PARTS)

bench-guard: build ## Half a minute of it: fail if an operation has lost a factor against bare node:http
	node --import tsx test/bench/guard.ts

bench-right: build test/bench/peers/node_modules/.package-lock.json ## Say which petstores answer right, ours, the peers and two mocks: the table of docs/evidence.md
	@node --import tsx test/bench/right.ts

evidence: build test/bench/peers/node_modules/.package-lock.json ## Measure all that docs claim, on each Node, and write it there, more than an hour; SHORT=1 tries it on a copy
	node --import tsx test/bench/evidence.ts

evidence-check: node_modules/.package-lock.json ## Fail where the figures of docs are older than the last change of src
	node --import tsx test/bench/evidence.ts check

# The storage's line of an animal is that of data/animals.jsonl, with an id in front.
seed: build ## Add the 301 pets of data/animals.jsonl to data/pets.jsonl, once; the server must not be running
	@if tail -n 1 data/animals.jsonl | cut -c 2- | grep -qsFf - data/pets.jsonl; \
	then echo 'data/pets.jsonl has the pets of data/animals.jsonl'; \
	else node dist/server.js import data/animals.jsonl --storage file:data/pets.jsonl; fi

screenshots: build ## Take the README's picture of the page anew, with Chromium; TO=coverage/page.png puts it elsewhere
	node --import tsx test/plugins/screenshots.ts $(TO)

build: dist/server.js ## Install and build into dist

# Folders are among its sources, so that a file that is gone counts, too.
dist/server.js: node_modules/.package-lock.json package.json tsconfig.json $(shell find src)
	npm run --silent build

clean: ## Remove what was installed, built and measured
	rm -rf node_modules dist test-dist coverage test/bench/peers/node_modules test/ecosystem/node_modules test/ecosystem/generated

# npm writes this file last, so it is there only after a whole install.
node_modules/.package-lock.json: package.json package-lock.json
	npm ci --include=dev --no-fund --no-audit --loglevel=error
	@touch $@

test/bench/peers/node_modules/.package-lock.json: test/bench/peers/package.json test/bench/peers/package-lock.json
	npm ci --prefix test/bench/peers --no-fund --no-audit
	@touch $@

test/ecosystem/node_modules/.package-lock.json: test/ecosystem/package.json test/ecosystem/package-lock.json
	npm ci --prefix test/ecosystem --no-fund --no-audit
	@touch $@
