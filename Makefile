# Every target does its own set-up. `make` alone lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# One stamp per set of extras; newer metadata or pins make it stale.
SERVER_READY := $(VENV)/.ready-server
SPARK_READY := $(VENV)/.ready-spark
DEV_READY := $(VENV)/.ready-dev
# Without bytecode files every process compiles all of our modules again: a third of a broker's start.
unexport PYTHONDONTWRITEBYTECODE

define SPARK_PINS
import json, sys
packages = [item["metadata"] for item in json.load(open(sys.argv[1]))["install"]]
pins = [f"{package['name']}=={package['version']}" for package in packages]
print(*sorted((pin for pin in pins if not pin.startswith("queenmq=")), key=str.lower), sep="\n")
endef
export SPARK_PINS

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test jobs lint audit fuzz types dashboard bench bench-check demo pipelines constraints clean

help:
	@echo "Targets (pass extra arguments as ARGS='...'):"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r target text; do printf '%-14s%s\n' "$$target" "$$text"; done

setup: $(DEV_READY) ## make .venv with the pinned broker, Spark and development tools

run: $(SERVER_READY) ## start a broker: make run ARGS='--port 6632'
	@$(BIN)/queen serve $(ARGS)

test: lint types dashboard ## run lint, types, import contracts and the tests: make test ARGS='-k pop'
	@echo "test: running pytest, four files at a time; the longest tests of Spark are left to make jobs"
	@$(BIN)/python -m pytest --numprocesses 4 --dist loadfile -m 'not jobs' $(ARGS)

jobs: $(DEV_READY) ## run all tests of Spark, some ten minutes of them: make jobs ARGS='-k audit'
	@echo "jobs: running all tests of Spark"
	@$(BIN)/python -m pytest tests/spark $(ARGS)

lint: $(DEV_READY) ## check style, formatting and import contracts
	@echo "lint: checking style, formatting and import contracts"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory audit

audit: build/.audited ## look the pinned dependencies up in the database of known vulnerabilities

# Once per change of the pins. Without a way to the database it is skipped, and tried again next time.
build/.audited: constraints.txt constraints-spark.txt
	@mkdir -p build
	@test -x build/audit/bin/pip-audit || { $(PYTHON) -m venv build/audit && \
		timeout 120 build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1; } \
		>build/audit.log 2>&1 || true
	@cat constraints.txt constraints-spark.txt > build/pinned.txt
	@if timeout 120 build/audit/bin/pip-audit --no-deps --disable-pip --progress-spinner off -f columns \
		-r build/pinned.txt >build/audit.out 2>build/audit.log; then \
		echo "audit: no known vulnerability in the pinned dependencies"; touch $@; \
	elif grep -q "^Found .* known vulnerabilit" build/audit.log; then cat build/audit.out build/audit.log; exit 1; \
	else echo "audit: skipped, because the database of vulnerabilities cannot be reached"; fi

fuzz: $(DEV_READY) ## send hostile requests: make fuzz ARGS='--count 100000 --seed 1'
	@$(BIN)/python -m tests.support.fuzz_figures $(ARGS)
	@test -x build/fuzz/bin/schemathesis || { $(PYTHON) -m venv build/fuzz && \
		build/fuzz/bin/python -m pip install --quiet --disable-pip-version-check schemathesis==4.32.5; }
	@$(BIN)/python -m tests.support.schema_fuzz build/fuzz/bin/schemathesis

types: $(DEV_READY) ## type-check src, the public surface, the examples and the benchmarks
	@echo "types: checking src, tests/typing, examples and benchmarks with mypy"
	@$(BIN)/mypy

# npm and tsc are tools for development: nothing that runs or is shipped needs them.
TSC := $(firstword $(wildcard node_modules/.bin/tsc) $(shell command -v tsc 2>/dev/null))
dashboard: ## type-check the dashboard's JavaScript, where tsc is installed
ifeq ($(TSC),)
	@echo "dashboard: SKIPPED, tsc is not installed; get it with: npm install --no-save typescript"
else
	@echo "dashboard: checking its JavaScript with $$($(TSC) --version)"
	@$(TSC) --project jsconfig.json
endif

# Experiments of Spark need more than a broker.
bench: $(if $(findstring spark,$(ARGS)),$(DEV_READY),$(SERVER_READY)) ## run benchmark scenarios and experiments: make bench ARGS='push-10 latency'
	@$(BIN)/python benchmarks/run.py $(ARGS)

bench-check: $(SERVER_READY) ## compare CPU per message with benchmarks/results/cpu.md, fail beyond 15 %
	@$(BIN)/python benchmarks/check.py $(ARGS)

demo: $(SPARK_READY) ## the whole story: broker, traffic, Spark stream, archive, report
	@$(BIN)/queen demo $(ARGS)

pipelines: $(SPARK_READY) ## run examples/declarative with spark-pipelines over the broker of make run
	@$(BIN)/python examples/declarative/run.py "$$($(BIN)/queen db url)" $(ARGS)

constraints: ## pin the newest dependencies that fit pyproject.toml
	@echo "constraints: resolving in a fresh environment; the spark extra downloads about 500 MB"
	@rm -rf build/pins && $(PYTHON) -m venv build/pins
	@build/pins/bin/python -m pip install --quiet -e '.[server,dev]'
	@{ echo "# Every dependency of queenmq[server,dev], direct and transitive. Made by: make constraints"; \
		build/pins/bin/python -m pip freeze --exclude queenmq; } > build/constraints.txt
	@build/pins/bin/python -m pip install --quiet --dry-run --report build/spark.json '.[server,dev,spark-connect]'
	@{ echo "# What queenmq[spark-connect] needs beyond constraints.txt. Made by: make constraints"; \
		build/pins/bin/python -c "$$SPARK_PINS" build/spark.json; } > build/constraints-spark.txt
	@mv build/constraints.txt build/constraints-spark.txt .

clean: ## remove .venv, caches and build output; data directories stay
	@echo "clean: removing $(VENV), caches and build output"
	@rm -rf $(VENV) build dist src/*.egg-info
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@for python in $(PYTHON) python3.13 python3.12 python3.11; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "setup: making $(VENV) with $$($$python --version)"; \
			exec $$python -m venv $(VENV); \
		fi; \
	done; \
	echo "Queen needs Python 3.11 or newer: install one, or name it with make PYTHON=/path/to/python." >&2; \
	exit 1

$(SERVER_READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "setup: installing the pinned broker into $(VENV)"
	@$(PIP_INSTALL) -c constraints.txt -e '.[server]'
	@touch $@

$(SPARK_READY): pyproject.toml constraints.txt constraints-spark.txt | $(BIN)/python
	@echo "setup: installing the pinned broker and Spark into $(VENV); once about 500 MB"
	@$(PIP_INSTALL) -c constraints.txt -c constraints-spark.txt -e '.[server,spark-connect]'
	@touch $@ $(SERVER_READY)

$(DEV_READY): pyproject.toml constraints.txt constraints-spark.txt | $(BIN)/python
	@echo "setup: installing the pinned broker, Spark and development tools into $(VENV); once about 500 MB"
	@$(PIP_INSTALL) -c constraints.txt -c constraints-spark.txt -e '.[server,spark-connect,dev]'
	@touch $@ $(SERVER_READY) $(SPARK_READY)
