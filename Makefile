# Faultbridge. `make help` lists the targets. Requires only make and Python 3.11, 3.12 or 3.13.
SHELL := /bin/sh
.DEFAULT_GOAL := help

# The newest Python that runs: a version manager may offer a name that does not.
PYTHON ?= $(or $(shell for python in python3.13 python3.12 python3.11; do \
  $$python -c '' 2>/dev/null && echo $$python && break; done),$(error no python3.13, python3.12 or python3.11 found; \
  install one, or run make PYTHON=/path/to/python))
VENV := .venv
BIN := $(VENV)/bin

# Targets run one after the other. Tools that benefit from parallel work do it themselves (sam build, pytest).
.NOTPARALLEL:

# Python stores its bytecode in .venv, so only the first start of a tool is slow.
unexport PYTHONDONTWRITEBYTECODE

# The name of the stamp contains a checksum of the locks, so setup does nothing while they are unchanged.
WANTED := $(shell cat requirements/uv.txt requirements/dev.txt pyproject.toml | cksum | tr ' ' -)
STAMP := $(VENV)/.setup-$(WANTED)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-17s%s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(STAMP) ## create .venv from the lock files; does nothing if they have not changed

$(STAMP):
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt \
	  || $(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.setup-*
	@touch $@

include infra/build.mk

# SAM writes only into the project folder and sends no telemetry.
export SAM_CLI_TELEMETRY := 0
export __SAM_CLI_APP_DIR := $(CURDIR)/.aws-sam/home

MACHINES := $(patsubst %.yaml,%.json,$(wildcard infra/statemachines/*.asl.yaml))

infra/statemachines/%.asl.json: infra/statemachines/%.asl.yaml infra/build_state_machine.py
	@$(BIN)/python infra/build_state_machine.py

.PHONY: machines
machines: setup $(MACHINES) ## generate the state machines as JSON

.PHONY: format
format: setup ## format the code and apply the automatic fixes of ruff
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

.PHONY: format-check
format-check: setup ## fail if `make format` would change a file
	@$(BIN)/ruff format --check --quiet . || (echo "not formatted: run make format" >&2; exit 1)

.PHONY: lint
lint: setup ## check the code with ruff
	@$(BIN)/ruff check --quiet .

.PHONY: types
types: setup ## check the types with mypy (strict)
	@$(BIN)/mypy

.PHONY: template-lint
template-lint: setup machines ## check the SAM template (sam validate --lint) and its resources in other regions
	@$(BIN)/sam validate --lint --region us-east-1
	@$(BIN)/cfn-lint --template infra/template.yaml --regions us-west-2 eu-central-1 ap-northeast-1 cn-north-1

# The scanner has a virtual environment of its own; the stamp's name holds a checksum of its lock.
SCAN := $(VENV)/scan
SCAN_STAMP = $(SCAN)/.setup-$(shell cksum < requirements/scan.txt | tr ' ' -)

$(SCAN_STAMP): $(STAMP)
	@test -x $(SCAN)/bin/python || $(PYTHON) -m venv $(SCAN)
	@$(BIN)/uv pip install --quiet --python $(SCAN)/bin/python --require-hashes -r requirements/scan.txt \
	  || $(SCAN)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/scan.txt
	@rm -f $(SCAN)/.setup-*
	@touch $@

.PHONY: scan
scan: setup $(SCAN_STAMP) ## scan the template with checkov; infra/waivers.yaml lists the accepted findings
	@$(BIN)/python -m infra.scan $(SCAN)/bin/checkov

.PHONY: size
size: setup ## print the lines of each room of the package against its budget
	@$(BIN)/python -m infra.size

.PHONY: architecture
architecture: setup ## run the architecture tests: layers, sizes, permissions, documents
	@$(BIN)/pytest -q tests/architecture

.PHONY: test
test: setup machines ## run the tests of a merge in three processes, because those on a stack mostly wait (8 minutes on two cores)
	@$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder

.PHONY: test-fast
test-fast: setup machines ## run the fast tests: no embedded stack, scenarios or simulated histories
	@$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not (nightly or servers or embedded or slow)" \
	  --ignore=tests/scenarios --ignore=tests/simulation

.PHONY: servers
servers: setup machines ## run the tests with a real Slurm, Alertmanager, Prometheus and Chromium, where these are installed
	@$(BIN)/pytest -n 2 --dist loadfile -m "servers and not nightly"

# In this order two at a time, because the first two take most of the time and one core each.
STATIC = types scan template-lint lint format-check layer-wheels chart

.PHONY: check
check: setup ## run every check that a merge requires; the tests run last
	@printf '%s\n' $(STATIC) | xargs -n 1 -P 2 $(MAKE) --no-print-directory
	@$(MAKE) --no-print-directory test

.PHONY: build
build: setup machines runtime ## build the functions and their layers for AWS into .aws-sam/build
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/sam build

.PHONY: archives
archives: setup machines ## package the template, the functions and their layers into the package, for `faultbridge deploy`
	@$(BIN)/python -m infra.archives

.PHONY: dist
dist: setup machines ## build the archives, then wheel and sdist into dist, install the wheel in a clean environment, and run its offline commands
	@rm -rf dist
	@$(BIN)/python -m infra.dist dist

.PHONY: up
up: setup ## start the embedded stack
	@$(BIN)/faultbridge up

.PHONY: down
down: setup ## stop the embedded stack and delete its data (asks on a terminal)
	@$(BIN)/faultbridge down

.PHONY: demo
demo: setup ## show a fault, its repair, its page and its timeline on this machine
	@$(BIN)/faultbridge demo

.PHONY: aws-smoke
aws-smoke: setup ## print the plan of the smoke test on AWS; FAULTBRIDGE_SMOKE=run runs it (HOURS=24 adds a day with 40 nodes, CLEANUP=NAME removes a broken run)
	@$(if $(CLEANUP),:,[ "$$FAULTBRIDGE_SMOKE" != run ] || $(MAKE) --no-print-directory $(if $(HOURS),dist,archives))
	@$(BIN)/python -m infra.smoke $(if $(CLEANUP),--cleanup $(CLEANUP)) $(if $(HOURS),--hours $(HOURS))

BENCHES = core calls living_fleet case cold_start handlers events_import decoders counter_samples gray_fleet explain_logs

# The benchmarks run the built functions on this machine.
bench: export ARCHITECTURE := $(if $(filter arm64 aarch64,$(shell uname -m)),arm64,x86_64)
bench: export PYTHON_VERSION = $(MINOR)

.PHONY: bench
bench: build ## measure time, calls, requests and cost; prints tables, writes build/bench/*.json (docs/benchmarks.md)
	@for part in $(BENCHES); do $(BIN)/python -m tests.bench.$$part || broken="$$broken $$part"; done; \
	  [ -z "$$broken" ] || { echo "limits broken in:$$broken" >&2; exit 1; }

.PHONY: seed
seed: setup machines ## run one seed of the simulation (SEED=7 STEPS=40 STORY=1 prints each step)
	@$(BIN)/python -m tests.sim --seed $(or $(SEED),1) --steps $(or $(STEPS),40) $(if $(STORY),--story)

.PHONY: seeds
seeds: setup machines ## run fresh seeds of the simulation, or continue (FIRST=30000 COUNT=1000 PROCESSES=2, or LIST=file)
	@$(BIN)/python -m tests.simulation.long_runs --processes $(or $(PROCESSES),2) \
	  $(if $(LIST),list $(LIST),seeds $(or $(FIRST),30000) $(or $(COUNT),1000))

.PHONY: orders
orders: setup machines ## run all orderings of two faults or operator orders, or continue (POINTS=12 PROCESSES=2)
	@$(BIN)/python -m tests.simulation.long_runs --processes $(or $(PROCESSES),2) orders $(or $(POINTS),12)

.PHONY: fuzz
fuzz: setup ## decode 200,000 damaged inputs; each decoder must return observations or reject the input
	@$(BIN)/python -m tests.decoders.fuzz --inputs 200000

# The tests of permissions compare the roles with the calls of all tests on the stack, so all of these run.
.PHONY: nightly-tests
nightly-tests: setup machines
	@$(BIN)/pytest -m "nightly or embedded"

NIGHTLY = laws nightly-tests fuzz mutants

.PHONY: nightly
nightly: setup machines ## run the tests that take minutes, searches for counterexamples, and mutants
	@for part in $(NIGHTLY); do $(MAKE) --no-print-directory $$part || broken="$$broken $$part"; done; \
	  [ -z "$$broken" ] || { echo "failed; repeat:$$broken (make NAME)" >&2; exit 1; }

.PHONY: mutants
mutants: setup machines ## change the code in 300 places and list the changes that no test notices (SEED=day COUNT=300 MINUTES=60)
	@$(BIN)/python -m infra.mutants $(if $(SEED),--seed $(SEED)) --count $(or $(COUNT),300) --minutes $(or $(MINUTES),60)

.PHONY: laws
laws: setup machines ## search for counterexamples of the property tests with new random inputs, twenty times as many (SEED=time)
	@$(BIN)/pytest -n 2 -m "hypothesis and not (nightly or servers)" --hypothesis-profile=search \
	  --hypothesis-seed=$(or $(SEED),$(shell date +%s))

# The site's packages have a virtual environment of their own; the stamp's name holds a checksum of their lock.
DOCS := $(VENV)/docs
DOCS_STAMP = $(DOCS)/.setup-$(shell cksum < requirements/docs.txt | tr ' ' -)

$(DOCS_STAMP): $(STAMP)
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	@$(BIN)/uv pip install --quiet --python $(DOCS)/bin/python --require-hashes -r requirements/docs.txt \
	  || $(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@rm -f $(DOCS)/.setup-*
	@touch $@

# What a release is made with has a virtual environment of its own too.
RELEASE := $(VENV)/release
RELEASE_STAMP = $(RELEASE)/.setup-$(shell cksum < requirements/release.txt | tr ' ' -)

$(RELEASE_STAMP): $(STAMP)
	@test -x $(RELEASE)/bin/python || $(PYTHON) -m venv $(RELEASE)
	@$(BIN)/uv pip install --quiet --python $(RELEASE)/bin/python --require-hashes -r requirements/release.txt \
	  || $(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/release.txt
	@rm -f $(RELEASE)/.setup-*
	@touch $@

.PHONY: release
release: setup machines $(RELEASE_STAMP) $(DOCS_STAMP) ## build all files of a release into build/release, with checksums (TWICE=1 compares two builds)
	@$(BIN)/python -m infra.release build/release $(if $(TWICE),--twice)

.PHONY: chart
chart: setup $(RELEASE_STAMP) ## render and lint the Helm chart, and validate the result with the schemas of Kubernetes
	@$(RELEASE)/bin/python -m infra.chart check

.PHONY: chart-manifest
chart-manifest: setup $(RELEASE_STAMP) ## write infra/kubernetes/faultbridge.yaml, which the chart renders with example values
	@$(RELEASE)/bin/python -m infra.chart write

.PHONY: schemas
schemas: setup ## write the models of events for consumers and the schemas, from model/event_data.py
	@$(BIN)/python -m infra.event_models
	@$(BIN)/python -m infra.schemas

.PHONY: docs-reference
docs-reference: setup ## write the generated reference pages into docs/reference
	@$(BIN)/python -m infra.docs.generate

.PHONY: docs
docs: setup $(DOCS_STAMP) ## build the documentation site into build/site
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict
	@echo build/site/index.html

.PHONY: docs-version
docs-version: setup $(DOCS_STAMP) ## build the documentation of one version into build/versions (VERSION=1.0)
	@test -n "$(VERSION)" || (echo "no version: make docs-version VERSION=1.0" >&2; exit 2)
	@DOCS_VERSION=$(VERSION) NO_MKDOCS_2_WARNING=1 \
	  $(DOCS)/bin/mkdocs build --quiet --strict --site-dir build/versions/$(VERSION)
	@$(BIN)/python -m infra.docs_versions build/versions

.PHONY: docs-check
docs-check: docs machines ## build strictly, check links, and run the commands of the tutorial and how-to pages
	@$(MAKE) --no-print-directory docs-version VERSION=dev
	@$(BIN)/python -m infra.docs.generate --check
	@$(BIN)/pytest -q -m "" tests/docs

.PHONY: screenshots
screenshots: setup ## write the screenshots of the README into docs/assets (needs chromium and chromedriver)
	@$(BIN)/python -m tests.console.screenshots | grep -v '^{'

.PHONY: lab
lab: setup ## compare policies on a simulated fleet (ARGS='fleet --trace FILE --nodes 60 --compare', or 'tune ...')
	@$(BIN)/python -m tests.lab $(ARGS)

.PHONY: policy-plots
policy-plots: setup ## compare policies on held-back parts of a trace, and write the charts into docs/assets (TRACE=file)
	@test -n "$(TRACE)" || (echo "no trace: make policy-plots TRACE=fault_trace.json" >&2; exit 2)
	@$(BIN)/python -m tests.lab fleet --trace $(TRACE) --trace-servers 400 --nodes 60 --pool 6 --seeds 20 --compare \
	  --part 2/4 --part 3/4 --part 4/4 --policy packaged --policy docs/assets/every-action.yaml \
	  --precursors 0 --precursors 30 --precursors 60 --plots docs/assets

.PHONY: docstring-sample
docstring-sample: setup ## print 120 docstrings of the package, drawn by SEED=number
	@$(BIN)/python -m tests.architecture.docstrings --seed $(or $(SEED),1)

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
  --no-emit-index-url --no-emit-find-links $(LOCKFLAGS)

.PHONY: lock
lock: setup ## update the lock files (LOCKFLAGS=--upgrade for newer versions)
	@printf 'pip>=25\nuv>=0.9\n' | $(LOCK) --no-annotate - -o requirements/uv.txt
	@$(LOCK) pyproject.toml --group lambda --group kubernetes --group console --group dev --extra local --extra top --extra exporter --extra mcp -o requirements/dev.txt
	@$(LOCK) --group lambda --constraint requirements/dev.txt -o requirements/lambda.txt
	@$(LOCK) --group kubernetes --constraint requirements/dev.txt -o requirements/kubernetes.txt
	@$(LOCK) --group console --constraint requirements/dev.txt -o requirements/console.txt
	@$(LOCK) --group docs -o requirements/docs.txt
	@$(LOCK) --group scan -o requirements/scan.txt
	@$(LOCK) --group release -o requirements/release.txt
	@$(LOCK) pyproject.toml --extra eks --constraint requirements/dev.txt -o requirements/image.txt

.PHONY: clean
clean: ## remove build outputs and caches, but not .venv
	@rm -rf .aws-sam build dist mutants src/faultbridge/install/packaged .mypy_cache .pytest_cache .ruff_cache .hypothesis infra/statemachines/*.asl.json
	@find src functions tests infra -name __pycache__ -prune -exec rm -rf {} +
