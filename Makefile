# Each target first makes .venv in this directory, or refreshes it where pyproject.toml or constraints.txt changed; `demo`
# installs the package alone, every other target what the tests need as well.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	if command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))'; \
	then echo $$p; break; fi; done)
BIN := .venv/bin
STAMP := .venv/.stamp
CORE := .venv/.core
PROSE := $(wildcard docs README.md)
EXAMPLES := $(wildcard examples)
# A quarter of mypy's time is the test files, which nobody imports: `make lint`, which commits and CI run, and `make test-deep`
# check them too.
TYPED := src bench $(EXAMPLES) $(wildcard tests/*.py)
# One more than the cores: a sixth of the time of two is waits for servers, other processes and clocks.
WORKERS ?= 3
# A worker that dies ends the run, with the name of its test: pytest-xdist 3.8 waits forever for some of those that replace one.
# Files are handed out in the order that tests/conftest.py gives them: those that take long come first.
SPREAD := -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# docs/engines.md needs a PostgreSQL server: tests/ask/engines/test_postgres.py runs it against a real one.
# tests/docs/test_tours.py runs docs/tour, on Adult.
DOCTESTS := --doctest-modules --doctest-glob="*.md" --ignore=docs/engines.md --ignore=docs/tour --ignore=examples/schedule/airflow_dag.py

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where it is set, each command that a test starts would compile the package again: half a second, a hundred times.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-deep attacks mutants lint bench speed docs notebooks coverage release clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       set up, then ask questions of a generated census"
	@echo "make test       set up, then lint, type check and run every test but the deep ones"
	@echo "make test-deep  set up, then run the deep statistical and crash tests"
	@echo "make attacks    set up, then try every known attack on what this makes, and say which held"
	@echo "make mutants    set up, then plant bugs in a copy of the source, one by one, and see a test kill each"
	@echo "make lint       set up, then ruff and mypy only"
	@echo "make speed      set up, then each question beside plain DuckDB, a million rows"
	@echo "make bench      set up, then measure, with ratios to plain DuckDB"
	@echo "make docs       set up, then build the site into build/site, with its links checked"
	@echo "make notebooks  set up, then build the tours as notebooks, with their outputs, into build/notebooks"
	@echo "make coverage   set up, then run every test but the deep ones and record what share of the lines they ran"
	@echo "make release    set up, then build wheel and sdist into dist, and check them in a fresh environment"
	@echo "make clean      remove .venv and what tools leave behind"

# The demo needs the package alone, which installs in half a minute; the tests need all that is tested against, too.
$(CORE): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Sordino needs Python 3.11 or newer on the path" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq -c constraints.txt -e .
	@touch $(CORE)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Sordino needs Python 3.11 or newer on the path" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq -c constraints.txt -e ".[test]"
	@touch $(CORE) $(STAMP)

demo: $(CORE)
	$(BIN)/sordino demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# mypy takes most of a minute on one core, so it runs beside the tests, and what it says comes after theirs.
# $(call test_and_check,WHAT MYPY READS,THE OPTIONS OF PYTEST)
define test_and_check
@types=$$(mktemp); $(BIN)/mypy $(1) >"$$types" 2>&1 & checking=$$!; \
trap 'kill $$checking 2>/dev/null; rm -f "$$types"' EXIT; trap 'exit 130' INT TERM; \
$(BIN)/pytest $(SPREAD) $(2); tested=$$?; \
wait $$checking; checked=$$?; \
echo "mypy:"; cat "$$types"; \
test $$tested -eq 0 && test $$checked -eq 0
endef

test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(call test_and_check,$(TYPED),-m "not deep" --durations=10 $(DOCTESTS) src tests $(EXAMPLES) $(PROSE))

test-deep: $(STAMP)
	$(call test_and_check,,-m deep tests)

attacks: $(STAMP)
	$(BIN)/pytest $(SPREAD) -m attack $$($(BIN)/python scripts/list_attacks.py --files)

mutants: $(STAMP)
	$(BIN)/python tests/mutants.py --write

bench: $(STAMP)
	$(BIN)/python bench/run.py

speed: $(STAMP)
	$(BIN)/python bench/speed.py $(if $(PAGE),--page $(PAGE))

docs: $(STAMP)
	$(BIN)/python -m pip install -qq -c constraints.txt -e ".[docs,plots,serve,remote,mcp]"
	$(BIN)/python scripts/build_site.py

notebooks: $(STAMP)
	$(BIN)/python scripts/build_notebooks.py

coverage: $(STAMP)
	$(BIN)/python -m pip install -qq -c constraints.txt pytest-cov
	$(BIN)/pytest $(SPREAD) -m "not deep" --cov=sordino --cov-report=html:build/coverage --cov-report=json:build/coverage.json --cov-report=term:skip-covered src tests
	$(BIN)/python scripts/record_coverage.py build/coverage.json

release: $(STAMP)
	$(BIN)/python -m pip install -qq -c constraints.txt build
	rm -rf dist
	$(BIN)/python scripts/build_changelog.py
	$(BIN)/python -m build --outdir dist
	$(BIN)/python scripts/check_release.py dist

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
