# make demo and make test work from a fresh clone, with Python 3.11+ and pip, and are safe to run twice.
PYTHON ?= python3
VENV ?= .venv
BENCH ?=
PYTEST ?=
RUN = $(VENV)/bin/python

.PHONY: help setup demo bench-gpu test lint clean

help:
	@echo "make demo   environment, demo pair, benchmark (options for it: make demo BENCH='--concurrency 1,4')"
	@echo "make bench-gpu  the same on a GPU: stock DFlash beside ours, MTP at k=1,2,3; into benchmarks/results/gpu"
	@echo "make test   environment, ruff, mypy, pytest (options for it: make test PYTEST='-k name')"
	@echo "make lint   ruff and mypy"
	@echo "make clean  remove caches and build output (not $(VENV))"

setup:
	@$(PYTHON) scripts/setup_env.py --venv $(VENV)

demo: setup
	@echo "demo: preparing the pair"
	@$(RUN) -m vllm_dflash.cli demo
	@echo "demo: benchmark"
	@$(RUN) benchmarks/throughput.py $(BENCH)

bench-gpu: setup
	@$(RUN) -m vllm_dflash.cli demo
	@$(RUN) benchmarks/throughput.py --stock --mtp-k 1,2,3 --dflash-k 7 --save benchmarks/results/gpu $(BENCH)

lint: setup
	@echo "lint: ruff"
	@$(RUN) -m ruff check .
	@echo "lint: mypy"
	@$(RUN) -m mypy

test: lint
	@echo "test: pytest"
	@$(RUN) scripts/run_tests.py $(PYTEST)

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
