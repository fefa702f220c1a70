# The daily commands. CONTRIBUTING.md says what each is for.
# They use the environment that is active, else .venv; VENV=elsewhere takes another one. PYTHON is what it is made with.
PYTHON ?= python3
VENV ?= $(or $(VIRTUAL_ENV),.venv)
BIN := $(VENV)/bin
WHAT ?= tests

.PHONY: setup test slowest coverage integration check lint types imports format cli-docs site dist sbom sizes after-weights clean

setup: $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	$(BIN)/pre-commit install

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

test:
	$(BIN)/python -m pytest -n 2 $(WHAT)

# The twenty slowest tests.
slowest:
	$(BIN)/python -m pytest -n 2 -q --durations=20 $(WHAT)

coverage:
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term:skip-covered --cov-fail-under=90 $(WHAT)

integration:
	$(BIN)/python -m pip install --quiet -e '.[integration]'
	$(BIN)/python -m pytest -m integration $(WHAT)

check: lint types imports

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

imports:
	$(BIN)/lint-imports

format:
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

cli-docs:
	$(BIN)/python -m typer turnwise.cli.app utils docs --name turnwise --title "Commands and options" --output docs/cli.md

site:
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	$(BIN)/python -m documentation --build

dist:
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz
	$(BIN)/python .ci/dist_contents.py dist

# What installing the wheel brings, as CycloneDX: dist/turnwise.cdx.json.
sbom: dist
	$(BIN)/python .ci/release.py sbom dist

sizes:
	$(BIN)/python benchmarks/sizes.py

# What hangs on the weights of `local`, once new ones lie in their place; docs and tests that show figures come after.
# DATA is the data folder, CACHE one that keeps scores, LOOKS how often the test split was looked at, this time included.
after-weights:
	$(BIN)/python benchmarks/guard_models.py --data $(DATA) --calibrate --write
	$(BIN)/python -m training.orders --data $(DATA)
	$(BIN)/python benchmarks/screen.py --data $(DATA) --cache $(CACHE) --rates src/turnwise/study/prevalence/detector_rates.json
	$(BIN)/python benchmarks/people.py --data $(DATA) --cache $(CACHE) --write
	$(BIN)/python benchmarks/observer.py --data $(DATA) --write --looks $(LOOKS)
	$(BIN)/python benchmarks/judged.py --data $(DATA) --write docs
	$(BIN)/python benchmarks/people_labels.py --data $(DATA) --cache $(CACHE) --write docs
	$(BIN)/python benchmarks/outcomes.py --data $(DATA) --cache $(CACHE) --write docs

clean:
	rm -rf dist build .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov
