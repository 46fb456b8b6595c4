# Every target does its own set-up: a machine needs Python 3.11 or newer, and make.
#
#   make demo    train on handwritten digits and draw the loss curve
#   make tiny    a little of everything, in a few seconds: before every commit
#   make quick   the tests that are not slow, in some minutes
#   make test    all tests, on two processes
#   make examples   quick runs of all examples
#   make lint    style and types
#   make docs    the site, in build/docs
#   make links   whether what the site links to elsewhere is there; needs a network
#   make bench   compare with the other frameworks that can be installed
#   make clean   remove everything these targets made
#
# Another interpreter: `make test PYTHON=python3.14`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check
TORCH  := torch==2.13.0
PARALLEL := -n 2 --dist worksteal

.PHONY: help demo tiny quick test examples lint format docs links bench clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^#   //p' Makefile

# --- the environment: one stamp file per set of extras ------------------------------------------

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "livegrad needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "this Python cannot create environments: install its venv package" >&2; exit 1; }
	@touch $@

$(VENV)/.base: pyproject.toml $(VENV)/.python
	@echo "installing livegrad"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.test $(VENV)/.dev $(VENV)/.docs: $(VENV)/.%: pyproject.toml $(VENV)/.python
	@echo "installing livegrad[$*]"
	@$(PIP) install --editable ".[$*]"
	@touch $@

# The benchmarks run without torch too, so a failed installation is no error.
$(VENV)/.torch: $(VENV)/.base
	@echo "installing $(TORCH) to compare with"
	@if $(PIP) install "$(TORCH)" >/dev/null 2>&1; then touch $@; \
	  else echo "torch could not be installed: comparing without it"; fi

# --- what to do with it -------------------------------------------------------------------------

demo: $(VENV)/.base
	$(BIN)/livegrad demo

# Hot functions stay Python's: translating them takes as long as these tests.
tiny: $(VENV)/.test
	LIVEGRAD_NATIVE=off $(BIN)/python -m pytest -q tests/test_tiny.py

quick: $(VENV)/.test
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow" --ignore=tests/conformance

test: $(VENV)/.test
	$(BIN)/python -m pytest $(PARALLEL) --ignore=tests/conformance --ignore=tests/examples

examples: $(VENV)/.test
	$(BIN)/python -m pytest $(PARALLEL) tests/examples

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Every warning is an error: a link inside the site that leads nowhere, a page that nothing links to.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs build/docs
	@echo "open build/docs/index.html"

links: $(VENV)/.docs
	$(BIN)/python -m sphinx -b linkcheck --quiet docs build/links

bench: $(VENV)/.torch
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.recording

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
