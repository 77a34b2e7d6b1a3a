# Two commands do everything on a fresh machine with Python 3.11, make and gcc:
#   make demo   sets up .venv and runs the main job
#   make test   sets up .venv and passes all tests

PYTHON ?= python3
BIN := .venv/bin

NATIVE := $(wildcard src/selfselect/kernels/native/*)

.PHONY: demo test test-lowest test-pandas2 test-pythons wheels fuzz compose mutants soak cluster-faults sanitize lint types house bench bench-more study experiments docs screenshots clean

# Compiles the kernels; the other targets find them up to date.
.venv/ready: pyproject.toml setup.py $(NATIVE)
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

.venv/docs-ready: .venv/test-ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

demo: .venv/ready            ## simulate the village, fit naive and corrected, print, save, draw
	$(BIN)/selfselect demo

test: .venv/test-ready       ## all tests but the slow studies
	$(BIN)/python -m pytest -n 2 -q

SANITIZE := -g -fsanitize=address,undefined -fno-sanitize-recover=all
SANITIZED := build/sanitize/selfselect/kernels/_native.abi3.so

sanitize: .venv/test-ready   ## tests of the compiled kernels under address and undefined sanitizers
	rm -rf build/sanitize
	CFLAGS='$(SANITIZE)' CXXFLAGS='$(SANITIZE)' LDFLAGS='-fsanitize=address,undefined' \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/sanitize .
	nm -D $(SANITIZED) | grep -q __asan_report || { echo '$(SANITIZED) lacks the address sanitizer'; exit 1; }
	nm -D $(SANITIZED) | grep -q __ubsan_handle || { echo '$(SANITIZED) lacks the undefined sanitizer'; exit 1; }
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=build/sanitize \
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/kernels -k 'not torch'

test-lowest:                 ## a subset of the tests, with the lowest versions that are declared
	$(PYTHON) tools/versions.py lowest

test-pandas2:                ## the same with pandas 2 and the newest of everything else
	$(PYTHON) tools/versions.py pandas2

test-pythons:                ## the same with every Python from 3.11 on that is installed
	$(PYTHON) tools/versions.py pythons

wheels:                      ## source distribution and wheel in dist/, checked; every extra tried alone
	$(PYTHON) tools/wheels.py $(EXTRAS)

MINUTES ?= 10
SEED ?= 0
fuzz: .venv/test-ready       ## random models beside the oracle: MINUTES=30 SEED=7 ONLY='noise=types panel=people'
	cd tests && ../$(BIN)/python -W ignore -m oracle.fuzz --minutes $(MINUTES) --seed $(SEED) $(addprefix --only ,$(ONLY))

compose: .venv/test-ready    ## which options compose and which are refused together; the table and the set of the suite
	cd tests && ../$(BIN)/python -W ignore -m oracle.compose --write && ../$(BIN)/python -W ignore -m oracle.fuzz --write-cover

mutants: .venv/test-ready    ## tests of the tests, about an hour; the table goes to docs/studies
	$(BIN)/python tools/mutants.py $(ROOMS)

soak: .venv/test-ready       ## load and faults for ten minutes; the counts go to docs/studies
	$(BIN)/python tools/soak.py --minutes 10 --output docs/studies/soak.md

cluster-faults: .venv/test-ready   ## twenty faults of a Dask cluster, the same bits after each
	$(BIN)/python -W ignore tools/cluster_faults.py --times 20

lint: .venv/lint-ready       ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/lint-ready      ## static types
	$(BIN)/mypy

house: .venv/test-ready      ## counts of mechanisms, lines, flags, passes, memory; LOWER=1 lowers the record
	$(BIN)/python tools/house.py $(if $(LOWER),--lower)

bench: .venv/bench-ready     ## costs beside their limits, minutes; the table goes to docs/studies/speed.md
	MPLBACKEND=Agg $(BIN)/python -m benchmarks --write docs/studies/speed.md

bench-more: .venv/bench-ready   ## further costs, tens of minutes; R is used where Rscript is installed
	$(BIN)/python -m benchmarks.costs
	$(BIN)/python -m benchmarks.convex_rules
	$(BIN)/python -m benchmarks.engines_dask

study: .venv/test-ready      ## Monte-Carlo studies, tens of minutes; tables go to docs/studies
	$(BIN)/python -m pytest -q -m slow
	$(BIN)/python experiments/coverage_known_index.py
	$(BIN)/python experiments/coverage_effects.py
	$(BIN)/python experiments/coverage_selection.py
	$(BIN)/python experiments/tests_of_noise.py
	$(BIN)/python experiments/many_sums.py --samples 120
	$(BIN)/python experiments/departures.py
	$(BIN)/python experiments/advice.py
	$(BIN)/python experiments/coverage_shapes.py
	$(BIN)/python experiments/coverage_shapes.py --index unknown --replications 200
	$(BIN)/python experiments/noise_by_bic.py
	$(BIN)/python experiments/coverage_spreads.py
	$(BIN)/python experiments/coverage_types.py
	$(BIN)/python experiments/coverage_clusters_weights.py
	$(BIN)/python experiments/coverage_unequal_clusters.py
	$(BIN)/python experiments/roy_restriction_size.py
	$(BIN)/python experiments/coverage_joint.py
	$(BIN)/python experiments/coverage_restrictions.py

experiments: .venv/test-ready   ## studies of unknown index and convex rules, hours; tables in docs/studies
	$(BIN)/python experiments/efficiency_unknown_index.py
	$(BIN)/python experiments/ladder_unknown_index.py
	$(BIN)/python experiments/recovery_unknown_index.py
	$(BIN)/python experiments/unknown_index_intervals.py
	$(BIN)/python experiments/theorem1.py
	$(BIN)/python experiments/algorithm2.py
	$(BIN)/python experiments/peeling.py
	$(BIN)/python experiments/one_pass.py
	$(BIN)/python experiments/hidden_box.py
	$(BIN)/python experiments/coverage_convex.py

docs: .venv/docs-ready       ## the site, in docs/_build/html; fails on a broken link or example
	MPLBACKEND=Agg $(BIN)/python -m pytest -q --doctest-glob='*.md' docs/tutorial.md
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/_site/check_links.py docs/_build/html

screenshots: .venv/test-ready   ## pictures of report, explore and badges for the documentation; needs chromium
	$(BIN)/python docs/screenshots.py
	$(BIN)/python docs/badges.py

clean:
	rm -rf .venv .envs demo dist build docs/_build docs/_pages docs/gallery docs/reference .pytest_cache .mypy_cache .ruff_cache
