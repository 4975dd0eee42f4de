# make train | test | check | bench: each makes .venv on first use, and installs again only when pyproject.toml changed.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export HF_HUB_OFFLINE ?= 1
export HF_HUB_DISABLE_TELEMETRY ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: train test check bench clean
.DEFAULT_GOAL := test

# torch is pinned to one CPU-friendly release first, so that the ranges in pyproject.toml (torch>=2.13,
# open for users with a GPU) are already satisfied and no other build is downloaded.
TORCH ?= torch==2.13.0

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[train,dev]"
	@touch $@

# Waiting threads sleep: engine, trainer and sandboxes share few cores, and spinning ones take them away.
train: export OMP_WAIT_POLICY ?= PASSIVE
train: $(STAMP)
	$(BIN)/python examples/train_swe.py $(ARGS)

# One thread for each of the two test processes: torch with two under xdist is far slower.
test: export OMP_NUM_THREADS ?= 1
test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/unit/test_docs.py

bench: $(STAMP)
	for name in engine batching tests_runner reset episodes; do $(BIN)/python benchmarks/$$name.py || exit 1; done
	$(BIN)/python benchmarks/schedules.py --quick
	$(BIN)/python benchmarks/paper_tables.py --quick
	for name in attention_rows credit selection; do $(BIN)/python benchmarks/$$name.py --quick || exit 1; done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache
