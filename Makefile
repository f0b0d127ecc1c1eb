# SPDX-License-Identifier: GPL-2.0-only
# Needs Python 3.11 to 3.14 with pip and venv. Everything else is installed into $(VENV).

PYTHON ?= python3
VENV ?= .venv
LITE_VENV ?= .venv-lite
# More options for JupyterLab, Voilà and pytest, e.g. `make lab LAB_FLAGS=--no-browser`.
LAB_FLAGS ?=
VOILA_FLAGS ?=
PYTEST_FLAGS ?= -n auto

BIN := $(VENV)/bin
STAMP := $(VENV)/.groupcpus-installed
LITE_STAMP := $(LITE_VENV)/.groupcpus-installed
CHECKED := groupcpus tests tools notebooks dashboard lite $(wildcard benchmarks)

# `make NEWEST=1 …` takes the newest versions that pyproject.toml allows instead of the lock's.
ifdef NEWEST
INSTALL = $(BIN)/python -m pip install --quiet --upgrade --editable '.[batch,dashboard,lab,site,sweep,test]'
else
INSTALL = $(BIN)/python -m pip install --quiet --requirement requirements.lock && \
	$(BIN)/python -m pip install --quiet --no-deps --editable .
endif
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help lab test notebooks site dashboard lite test-lite lint test-kernel bench fuzz lock clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 18

lab: $(STAMP)  ## open JupyterLab on the first notebook
	JUPYTER_CONFIG_PATH="$(CURDIR)/lab" $(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks/00-start-here.ipynb $(LAB_FLAGS)

test: lint  ## lint, run all tests, execute every notebook and compare its outputs
	PYTHONWARNDEFAULTENCODING=1 $(BIN)/python -m pytest $(PYTEST_FLAGS)

notebooks: $(STAMP)  ## execute every notebook and store its outputs
	$(BIN)/python tools/notebooks.py --links --write

site: $(STAMP)  ## build a site of the stored notebooks in _site, to be read without a network
	$(BIN)/python -m tools.website

dashboard: $(STAMP)  ## open the explorer as a page of its own, without code
	$(BIN)/python -m tools.dashboard $(VOILA_FLAGS)

lite: $(LITE_STAMP)  ## build in _lite a JupyterLab that runs in the reader's browser
	$(LITE_VENV)/bin/python tools/lite.py

test-lite: lite $(STAMP)  ## run that one in Chromium without a network (needs npm; a minute or two)
	GROUPCPUS_BROWSER=required GROUPCPUS_LITE=_lite $(BIN)/python -m pytest tests/test_lite.py

lint: $(STAMP)  ## check formatting, style, types and who imports whom
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test-kernel: $(STAMP)  ## hold a kernel's own C against the vectors: TREE=linux [PATCH=mail] [REVISION=…]
	$(BIN)/python tools/kernel_vectors.py $(if $(TREE),--tree $(TREE)) $(if $(PATCH),--patch $(PATCH)) \
		$(if $(REVISION),--revision $(REVISION))

bench: $(STAMP)  ## measure a command, a sweep and the compiled batch
	$(BIN)/python -m pytest benchmarks

fuzz: $(STAMP)  ## feed every parser with 20,000 damaged and made-up inputs
	$(BIN)/python tests/fuzz.py --inputs 20000

# The lock names no registry and holds for every supported Python and system.
lock: $(STAMP)  ## renew the locks from pyproject.toml
	$(BIN)/python -m pip install --quiet 'uv<1'
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11 --no-header \
		--extra batch --extra dashboard --extra lab --extra site --extra sweep --extra test pyproject.toml \
		--output-file requirements.lock
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11 --no-header \
		--extra lite --constraint requirements.lock pyproject.toml \
		--output-file requirements-lite.lock

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) $(LITE_VENV) _site _lite dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || \
		{ echo "groupcpus needs Python 3.11 to 3.14; name one: make PYTHON=python3.12 …" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@echo "Installing 1 GB into $(VENV), once: two minutes, on a busy machine up to ten …"
	@$(INSTALL)
	@touch $@

# Apart, since JupyterLab in $(VENV) would load what belongs to the one in the browser.
$(LITE_STAMP): pyproject.toml requirements-lite.lock
	@test -x $(LITE_VENV)/bin/pip || $(PYTHON) -m venv $(LITE_VENV)
	@$(LITE_VENV)/bin/python -m pip install --quiet --requirement requirements-lite.lock
	@touch $@
