# Faultbridge. `make help` lists the goals. Python 3.11 and make are all that must be there already.
SHELL := /bin/sh
.DEFAULT_GOAL := help

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

# Goals follow one another; the parts of a goal that gain by it run at once by themselves (sam build, pytest).
.NOTPARALLEL:

# Python keeps its bytecode in .venv, so that only the first start of a tool is slow.
unexport PYTHONDONTWRITEBYTECODE

# The stamp's name holds a checksum of what was asked for, so a fresh checkout of the same locks does nothing.
WANTED := $(shell cat requirements/uv.txt requirements/dev.txt pyproject.toml | cksum | tr ' ' -)
STAMP := $(VENV)/.setup-$(WANTED)

.PHONY: help
help: ## list the goals
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(STAMP) ## make .venv from the locks (nothing to do when they have not changed)

$(STAMP):
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt \
	  || $(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.setup-*
	@touch $@

include infra/build.mk

# SAM writes nothing outside the project folder and reports to nobody.
export SAM_CLI_TELEMETRY := 0
export __SAM_CLI_APP_DIR := $(CURDIR)/.aws-sam/home

MACHINES := $(patsubst %.yaml,%.json,$(wildcard infra/statemachines/*.asl.yaml))

infra/statemachines/%.asl.json: infra/statemachines/%.asl.yaml infra/build_state_machine.py
	@$(BIN)/python infra/build_state_machine.py

.PHONY: machines
machines: setup $(MACHINES) ## write the state machines as JSON

.PHONY: format
format: setup ## format the code and mend what ruff can mend
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

.PHONY: format-check
format-check: setup ## fail when `make format` would change something
	@$(BIN)/ruff format --check --quiet . || (echo "not formatted: run make format" >&2; exit 1)

.PHONY: lint
lint: setup ## ruff
	@$(BIN)/ruff check --quiet .

.PHONY: types
types: setup ## mypy, strict
	@$(BIN)/mypy

.PHONY: template-lint
template-lint: setup machines ## sam validate --lint
	@$(BIN)/sam validate --lint --region us-east-1

.PHONY: architecture
architecture: setup ## the rules that keep the layout true
	@$(BIN)/pytest -q tests/architecture

.PHONY: test
test: setup machines ## every test but the nightly ones, in three processes; those on a stack mostly wait
	@$(BIN)/pytest -n 3 --no-loadscope-reorder

.PHONY: check
check: format-check lint types template-lint test ## all that must hold before a change is merged; tests last

.PHONY: build
build: setup machines ## build the functions and their layer into .aws-sam/build
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/sam build

.PHONY: up
up: setup ## start the embedded stack
	@$(BIN)/faultbridge up

.PHONY: down
down: setup ## stop the embedded stack
	@$(BIN)/faultbridge down

.PHONY: demo
demo: setup ## a fault, its repair, its page and its timeline, on this machine
	@$(BIN)/faultbridge demo

BENCHES = core calls case cold_start handlers events_import decoders decoders_part_two

.PHONY: bench
bench: build ## what it costs: time, calls, requests and dollars; tables here, JSON in build/bench (docs/benchmarks.md)
	@for part in $(BENCHES); do $(BIN)/python -m tests.bench.$$part || broken="$$broken $$part"; done; \
	  [ -z "$$broken" ] || { echo "a bar is broken in:$$broken" >&2; exit 1; }

.PHONY: mutants
mutants: setup machines ## break the product on purpose, one place at a time, and count who notices (PART=file name)
	@$(BIN)/python -m tests.simulation.mutants $(PART)

.PHONY: fuzz
fuzz: setup ## 200,000 damaged inputs: each decoder ends in observations or in a rejection
	@$(BIN)/python -m tests.decoders.fuzz --inputs 200000

.PHONY: nightly
nightly: setup machines ## the tests that take minutes
	@$(BIN)/pytest -m nightly

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
  --no-emit-index-url --no-emit-find-links $(LOCKFLAGS)

.PHONY: lock
lock: setup ## resolve the requirements again (LOCKFLAGS=--upgrade for newer versions)
	@printf 'pip>=25\nuv>=0.9\n' | $(LOCK) --no-annotate - -o requirements/uv.txt
	@$(LOCK) pyproject.toml --group lambda --group kubernetes --group dev --extra local -o requirements/dev.txt
	@$(LOCK) --group lambda --constraint requirements/dev.txt -o requirements/lambda.txt
	@$(LOCK) --group kubernetes --constraint requirements/dev.txt -o requirements/kubernetes.txt

.PHONY: clean
clean: ## remove what was built and every cache, but not .venv
	@rm -rf .aws-sam build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis infra/statemachines/*.asl.json
	@find src functions tests infra -name __pycache__ -prune -exec rm -rf {} +
