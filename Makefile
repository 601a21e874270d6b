# `make demo` and `make test` do all the set-up themselves; a second run installs nothing.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --require-virtualenv --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow lint docs bench clean setup setup-all setup-slow setup-bench
.DEFAULT_GOAL := demo

demo: setup                 ## install the core and run the main job on embedded defaults
	$(BIN)/pairframe demo

test: lint                  ## all extras, lint, types, the quick tests
	$(BIN)/python -m pytest -n auto --dist loadscope

test-slow: setup-slow       ## the long ones: wheel, chaos, gallery, docs, and a real napari if there is Xvfb
	$(BIN)/python -m pytest -m slow

lint: setup-all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup-all             ## the site, into docs/_build; warnings are errors, nothing is fetched
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html docs docs/_build

bench: setup-bench          ## against the peers, 35 minutes: docs/benchmarks.md, docs/scaling.md and figures; then DOTmark where its data are
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/dotmark.py

clean:
	rm -rf $(VENV) dist build docs/_build docs/generated pairframe-demo benchmarks/out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

setup: $(VENV)/.core
setup-all: $(VENV)/.all
setup-slow: $(VENV)/.slow
setup-bench: $(VENV)/.bench

# A stamp, written last: an interrupted or pip-less .venv has a bin/python too, and is completed here.
$(VENV)/.made:
	@command -v $(firstword $(PYTHON)) >/dev/null || \
	  { echo "pairframe needs Python >= 3.11; there is no program '$(PYTHON)'. Try: make PYTHON=python3.11 ..."; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pairframe needs Python >= 3.11; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11 ..."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.core: pyproject.toml constraints.txt $(VENV)/.made
	@echo "installing pairframe into $(VENV) ..."
	$(PIP) -e .
	@touch $@

$(VENV)/.all: pyproject.toml constraints.txt $(VENV)/.made
	@echo "installing pairframe with all extras into $(VENV) ..."
	$(PIP) -e '.[all,dev]'
	@touch $@ $(VENV)/.core

$(VENV)/.slow: $(VENV)/.all
	@echo "installing napari with Qt for the slow tests into $(VENV) (480 MB) ..."
	$(PIP) -e '.[all,dev,napari]'
	@touch $@

$(VENV)/.bench: $(VENV)/.all
	@echo "installing the peers that the benchmarks run against into $(VENV) ..."
	$(PIP) -e '.[all,dev,bench]'
	@touch $@
