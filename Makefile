# lakeidx: every task of a developer or operator. `make` lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
WORK   ?= .work


.DEFAULT_GOAL := help
.PHONY: help install install-dev run ui ui-demo test test-fast bench bench-growth bench-peers profile demo docs dist lint lock clean

help: ## list the tasks
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## create .venv and install pinned versions

$(VENV)/.installed: requirements.lock pyproject.toml deploy/check-prerequisites.sh deploy/install.sh
	@sh deploy/check-prerequisites.sh "$(PYTHON)"
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@sh deploy/install.sh $(VENV) requirements.lock
	@echo "compiling kernels (a minute at most, once)"
	@$(BIN)/lakeidx warm-up
	@touch $@

install-dev: $(VENV)/.installed-dev

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	@sh deploy/install.sh $(VENV) requirements-dev.lock
	@touch $@

run: install ## run the main job on the real flights of 2013, and show what it did
	@sh deploy/check-prerequisites.sh "$(PYTHON)"
	@$(BIN)/python -m dagster_project.flights.run --work $(WORK)

ui: install ## open the Dagster UI on http://127.0.0.1:3000
	@sh deploy/check-prerequisites.sh "$(PYTHON)"
	@$(BIN)/python -m lakeidx.dagster.ui --module dagster_project.definitions --work $(WORK)

ui-demo: install ## the same with jobs that land a new month, a bad file, its repair (in a folder of its own)
	@sh deploy/check-prerequisites.sh "$(PYTHON)"
	@LAKEIDX_DEMO=1 LAKEIDX_ENGINE=$(or $(LAKEIDX_ENGINE),local) \
		$(BIN)/python -m lakeidx.dagster.ui --module dagster_project.definitions --work $(WORK)/demo

test: install-dev ## run every lane of tests
	@sh deploy/check-prerequisites.sh "$(PYTHON)"
	@$(BIN)/python -m tests.lanes

test-fast: install-dev ## run the fast lane only: no JVM, no network
	@$(BIN)/python -m tests.lanes fast

bench: install-dev ## measure lakeidx beside its peers (each result is checked before it is timed; LARGE=1: 60 million rows beside delta-rs and Lance instead, a quarter of an hour, 20 GB of disk)
	@$(BIN)/python -m bench $(if $(LARGE),large --minutes 60)

bench-growth: install-dev ## what a batch of one size costs while its table grows, with slopes and pictures (hours; MOST=0.02: minutes; KEEP=1: for the docs)
	@mkdir -p $(WORK)
	@$(BIN)/python -m bench.bench_growth --most $(or $(MOST),1) $(if $(KEEP),--keep,--picture $(WORK)/growth.png)

bench-peers: install-dev ## one table in lakeidx, Paimon, Iceberg, Delta, Lance and DuckDB: times, memory, a picture (ROWS=200000: minutes)
	@$(BIN)/python -m bench.bench_peers --rows $(or $(ROWS),2000000) $(if $(KEEP),--keep)

profile: install-dev ## a flame graph of a benchmark, all its processes (CASE=upsert, ARGUMENTS="--sizes 100000")
	@mkdir -p $(WORK)
	@$(BIN)/py-spy record --subprocesses --rate 200 --output $(WORK)/profile-$(or $(CASE),upsert).svg -- $(BIN)/python -m bench.bench_$(or $(CASE),upsert) $(ARGUMENTS)

demo: install ## run a tour on real flights and open it: loads, corrections, a bad file, time travel, repair
	@$(BIN)/python -m docs.generate.tour --work $(WORK)

docs: install-dev ## build the documentation site into .work/site (links are checked)
	@$(BIN)/python -m docs.generate
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --site-dir $(WORK)/site
	@echo "open $(WORK)/site/index.html"

dist: install-dev ## build sdist and wheel into dist/
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist

lint: install-dev ## ruff (style, docstrings, security, complexity), formatting and strict mypy, tests and benchmarks included
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

lock: install-dev ## pin the newest versions that requirements*.in allow
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url requirements.in -o requirements.lock
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url -c requirements.lock requirements-dev.in -o requirements-dev.lock

clean: ## remove what the main job and the tests have made (not the installation)
	@rm -rf $(WORK) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
