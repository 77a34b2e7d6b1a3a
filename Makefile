# Two commands do everything on a fresh machine with Python 3.11, make and gcc:
#   make demo   sets up .venv and runs the main job
#   make test   sets up .venv and passes all tests

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types bench study experiments clean

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	touch $@

.venv/test-ready: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

.venv/lint-ready: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[lint]'
	touch $@

.venv/bench-ready: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	touch $@

demo: .venv/ready            ## simulate the village, fit naive and corrected, print, save, draw
	$(BIN)/selfselect demo

test: .venv/test-ready       ## all tests but the slow studies
	$(BIN)/python -m pytest -n 2 -q

lint: .venv/lint-ready       ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/lint-ready      ## static types
	$(BIN)/mypy

bench: .venv/bench-ready     ## table of cost ratios; R is used where Rscript is installed
	$(BIN)/python -m benchmarks

study: .venv/test-ready      ## Monte-Carlo studies, tens of minutes; tables go to docs/studies
	$(BIN)/python -m pytest -q -m slow
	$(BIN)/python experiments/coverage_known_index.py
	$(BIN)/python experiments/coverage_restrictions.py

experiments: .venv/test-ready   ## studies of the unknown index, hours; tables go to docs/studies
	$(BIN)/python experiments/efficiency_unknown_index.py
	$(BIN)/python experiments/ladder_unknown_index.py
	$(BIN)/python experiments/recovery_unknown_index.py

clean:
	rm -rf .venv demo dist build .pytest_cache .mypy_cache .ruff_cache
