# Every target works as the first command in a fresh clone.
.DEFAULT_GOAL := help
# A target that failed halfway does not count as built.
.DELETE_ON_ERROR:
.PHONY: help run test test-verify lint format api test-node test-documented check-ecosystem torture mutants mutants-fixed bench bench-guard bench-right evidence evidence-check seed screenshots build clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Install, build, and start a server with --dev, which prints a curl command to paste
	@node dist/server.js --dev

test: node_modules/.package-lock.json ## Install, build, check the types, run the tests, and require 95 % coverage
	npm test

test-verify: node_modules/.package-lock.json ## Check that verify fails only the broken rule of each wrong server
	npm run --silent build-tests
	node --test --test-reporter=spec --test-concurrency=4 --test-timeout=840000 test-dist/conformance/all-rules/*.test.js

lint: node_modules/.package-lock.json ## Check src and test by the rules and the format of biome.jsonc
	node_modules/.bin/biome ci --error-on-warnings

format: node_modules/.package-lock.json ## Write src and test in the format that `make lint` expects
	node_modules/.bin/biome format --write

api: build ## Write the public types into docs/api.d.ts, which a test compares
	node --import tsx test/api.ts

# The grep fails if the package did not bring that version of Node.
test-node: node_modules/.package-lock.json ## Run the tests that depend on the version of Node on another one, such as NODE=24
	npm run --silent build-tests
	npx --yes --package=node@$(or $(NODE),$(error Say which: make test-node NODE=24)) -- sh -c 'node --version | grep -E "^v$(NODE)(\.|$$)" && node test-dist/tried-node.js'

test-documented: node_modules/.package-lock.json ## Run the HTTP tests on the documented interface of Node alone (C79), with named exceptions
	npm run --silent build-tests
	node --import tsx test/documented.ts

check-ecosystem: build test/ecosystem/node_modules/.package-lock.json ## Test the package, and clients and frameworks of others; CLIENTS="package prism" selects
	node --import tsx test/ecosystem/generate.ts
	node_modules/.bin/tsc --project test/ecosystem
	node --import tsx --test --test-timeout=300000 $(patsubst %,test/ecosystem/%.check.ts,$(or $(CLIENTS),*))

torture: build ## Provoke the faults of docs/evidence.md, for sixteen minutes or BUDGET_S=300 seconds; some need root
	node --import tsx test/torture/run.ts $(ROWS)

mutants: build ## Change src at COUNT=400 random places, and check that a test fails for each; an hour; SEED=1 repeats a choice
	node --import tsx test/mutants/run.ts

mutants-fixed: build ## Make each fault of test/mutants/*-faults.ts, and check that its test fails; four minutes; ONLY=C29
	node --import tsx test/mutants/run-fixed.ts

bench: build test/bench/peers/node_modules/.package-lock.json ## Compare the speed with other servers, for twenty minutes; PARTS="speed start" selects, ROUNDS=7, SHORT=1
	node --import tsx test/bench/bench.ts $(PARTS)

bench-guard: build ## Fail if an operation has become much slower than bare node:http; half a minute
	node --import tsx test/bench/guard.ts

bench-right: build test/bench/peers/node_modules/.package-lock.json ## Run `petstore verify` on this petstore, other servers and two mocks; one to two minutes
	@node --import tsx test/bench/right.ts

evidence: build test/bench/peers/node_modules/.package-lock.json ## Measure the outdated figures of the documents, or PARTS="speed-20 torture-24"; two hours for all; SHORT=1 tries it on a copy
	node --import tsx test/bench/evidence.ts

evidence-check: node_modules/.package-lock.json ## Fail if the figures of the documents are older than the last change of src
	node --import tsx test/bench/evidence.ts check

# The storage's line of a pet is the line of data/animals.jsonl with an id before its members.
seed: build ## Add the 301 pets of data/animals.jsonl to data/pets.jsonl, once; no server may use the file
	@if tail -n 1 data/animals.jsonl | cut -c 2- | grep -qsFf - data/pets.jsonl; \
	then echo 'data/pets.jsonl has the pets of data/animals.jsonl'; \
	else node dist/server.js import data/animals.jsonl --storage file:data/pets.jsonl; fi

screenshots: build ## Take the pictures of the page for the README, with Chromium; TO=coverage writes them elsewhere
	node --import tsx test/plugins/screenshots.ts $(TO)

build: dist/server.js ## Install and build into dist

# Folders are among its sources, so that a file that is gone counts, too.
dist/server.js: node_modules/.package-lock.json build.js package.json tsconfig.json $(shell find src)
	npm run --silent build

clean: ## Remove the installed packages, the builds and the measurements
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
