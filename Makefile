# The daily commands. CONTRIBUTING.md says what each is for.
# They use the environment that is active, else .venv; VENV=elsewhere takes another one. PYTHON is what it is made with.
PYTHON ?= python3
VENV ?= $(or $(VIRTUAL_ENV),.venv)
BIN := $(VENV)/bin
WHAT ?= tests

.PHONY: setup test coverage integration check lint types imports format cli-docs dist sizes clean

setup: $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	$(BIN)/pre-commit install

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

test:
	$(BIN)/python -m pytest -n 2 $(WHAT)

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

dist:
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/python .ci/dist_contents.py dist

sizes:
	$(BIN)/python benchmarks/sizes.py

clean:
	rm -rf dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov
