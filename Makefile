# Everything starts here: `make serve` runs the broker, `make test` proves it, `make help` lists the rest.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
PORT ?= 8787
DATA ?= ./data
JOBS ?= auto
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
COMPILED_SOURCES := $(wildcard _fast/*.pyx _fast/*.pxd _fast/*.h broker/front/skyra_v1/*.proto) setup.py
DEBUG_TREE := build/debug
PEERS := redis-server rabbitmq-server beanstalkd
SAVED ?= docs/benchmarks/result.json
SPREAD = --numprocesses $(JOBS) --dist worksteal

.PHONY: help serve test test-debug check bench bench-full bench-parts bench-peers bench-compare bench-page gates bench-edge bench-board torture wheel \
	edge-wheel arm64 clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Courier needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12"; exit 1; }
	@echo "Creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.dependencies: $(VENV)/.created pyproject.toml
	@echo "Installing dependencies ..."
	@$(PIP) install --group dev
	@touch $@

$(VENV)/.built: $(VENV)/.dependencies $(COMPILED_SOURCES)
	@echo "Building the compiled modules and installing courier into $(VENV) ..."
	@$(PIP) install --no-build-isolation --editable . || { echo "The build needs a C compiler: apt-get install gcc"; exit 1; }
	@touch $@

$(DEBUG_TREE)/.built: $(VENV)/.dependencies $(COMPILED_SOURCES)
	@echo "Building the compiled modules with every check on, in $(DEBUG_TREE) ..."
	@mkdir -p $(DEBUG_TREE)/_fast
	@ln -sfn $(addprefix $(CURDIR)/,broker edge bench tests docs pyproject.toml README.md CHANGELOG.md CONTRIBUTING.md LICENSE MANIFEST.in Makefile .ci \
		courier.example.yaml) $(DEBUG_TREE)/
	@cp _fast/*.py _fast/*.pyi _fast/*.pyx _fast/*.pxd _fast/py.typed $(DEBUG_TREE)/_fast/
	@cp _fast/*.h $(DEBUG_TREE)/_fast/
	@cp setup.py $(DEBUG_TREE)/
	@cd $(DEBUG_TREE) && COURIER_DEBUG_BUILD=1 $(CURDIR)/$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

serve: $(VENV)/.built ## Run the broker on 127.0.0.1:$(PORT), its journal in $(DATA)
	@exec $(BIN)/courier serve --port $(PORT) --data $(DATA)

test: $(VENV)/.built ## Run the tests, in a process for each core (JOBS=0 for none but this one)
	@$(BIN)/pytest $(SPREAD) $(ARGS)

test-debug: $(VENV)/.built $(DEBUG_TREE)/.built ## Run the same tests on compiled modules with every check on
	@cd $(DEBUG_TREE) && $(CURDIR)/$(BIN)/python -m pytest $(SPREAD) $(ARGS)

check: $(VENV)/.built ## Lint, type-check, check the layers and the tidiness of the tree
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest --quiet tests/tidy

bench: $(VENV)/.built ## Run the benchmarks, in three minutes; ARGS='ws-1 http' for some of them
	@$(BIN)/python -m bench $(ARGS)

bench-full: $(VENV)/.built ## All of the benchmarks, with every size
	@$(BIN)/python -m bench --full $(ARGS)

bench-parts: $(VENV)/.built ## Measure the compiled structures and the journal by themselves
	@$(BIN)/pytest bench --benchmark-only --benchmark-columns=median,ops,rounds $(ARGS)

bench-peers: $(VENV)/.built ## Install what the benchmarks put beside Courier (Debian packages need root)
	@$(PIP) install --group bench
	@apt-get install -y --no-install-recommends $(PEERS)

bench-compare: $(VENV)/.built ## Compare build/bench/result.json with a saved run; SAVED=another.json
	@$(BIN)/python -m bench.compare $(SAVED) build/bench/result.json $(ARGS)

bench-page: $(VENV)/.built ## Write docs/benchmarks.md and its plots from build/bench/result.json
	@$(BIN)/python -m bench.page build/bench/result.json $(ARGS)

gates: $(VENV)/.built ## Check the ratios that the benchmarks promise
	@$(BIN)/pytest bench $(ARGS)

bench-edge: $(VENV)/.built ## Measure the edge: ARGS=puts, drain or fleet
	@$(BIN)/python -m bench.edge $(ARGS)

bench-board: $(VENV)/.built ## Measure what a small board asks about: memory, start-up, what journal.lingerMs gives on a slow disk
	@$(BIN)/python -m bench.board $(ARGS)

torture: $(VENV)/.built ## Crash, power-cut and property tests, for much longer
	@COURIER_WORKLOAD=torture HYPOTHESIS_PROFILE=torture $(BIN)/pytest tests/adversity tests/journal tests/fast --timeout 0 $(ARGS)

wheel: $(VENV)/.dependencies ## Build the sdist and the wheel into dist/
	@$(BIN)/python -m build

edge-wheel: $(VENV)/.dependencies ## Build the wheel of the edge alone, in plain Python for any Pi, into dist/
	@rm -rf build/edge && mkdir -p build && cp -r edge build/edge
	@$(BIN)/python -m build --wheel --outdir dist build/edge

arm64: $(VENV)/.built ## Build the wheel for arm64, install it in a clean Debian for arm64 under emulation, and run it there (root)
	@$(BIN)/python -m tests.packaging.arm64

clean: ## Remove everything that was built (never $(DATA))
	rm -rf $(VENV) build dist *.egg-info _fast/*.so _fast/*.c broker/front/skyra_v1/skyra_pb2*
