# Everything that a clone can do; `make` alone prints the list.

PYTHON ?= python3
BIN := .venv/bin
SUPPORTED := import sys; (3, 11) <= sys.version_info < (3, 14) or sys.exit( \
	"inverseq needs Python 3.11 to 3.13 and $(PYTHON) is " + sys.version.split()[0] \
	+ ". Name another one: make PYTHON=python3.11")

.DEFAULT_GOAL := help
.PHONY: help venv demo test quick check docs bench reproduce clean

help: ## print this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1	\2/p' $(MAKEFILE_LIST) | expand -t 12

venv: .venv/ready ## make .venv with the package and all that develops it

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c '$(SUPPORTED)'
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[all]" --group dev
	@touch $@

demo: venv ## a small world, from demonstrations to a report
	$(BIN)/inverseq demo

test: venv ## all tests, and all examples in docstrings
	$(BIN)/python -m pytest -n auto --dist loadscope

quick: venv ## the tests without the slow ones
	$(BIN)/python -m pytest -n auto --dist loadscope -m "not slow"

check: venv ## formatting, lint, types, and the documentation
	$(BIN)/ruff format --check && $(BIN)/ruff check && $(BIN)/mypy --strict
	@$(MAKE) --no-print-directory docs

docs: venv ## build the documentation, running the code of its pages
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: venv ## time the algorithms side by side, one of them against PyTorch
	$(BIN)/python -m pip install -q -c constraints.txt --group bench
	$(BIN)/python -m benchmarks

reproduce: venv ## the paper's Objectworld experiments, with a report
	$(BIN)/inverseq reproduce objectworld

clean: ## remove what was built, except .venv
	rm -rf build dist docs/_build docs/api .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
