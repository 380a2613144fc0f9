# Faultbridge. `make help` lists the goals. Python 3.11 and make are all that must be there already.
SHELL := /bin/sh
.DEFAULT_GOAL := help

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

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
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r requirements/dev.txt \
	  || $(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.setup-*
	@touch $@
