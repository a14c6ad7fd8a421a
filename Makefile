# Two commands do everything, the virtual environment included: `make demo` and `make test`.
# Only dpbt is installed; experiments and figures run from this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PAPERS := nock_henecka_2020 asadi_2022 bun_2020 bojarski_2014

.PHONY: demo test test-experiments test-all mutants check lock docs notebooks figures gallery results reproduction audits clean

demo: $(READY)
	$(BIN)/python -m experiments demo

# pytest rewrites and compiles all files of tests, unless it may keep them.
test test-experiments test-all: export PYTHONDONTWRITEBYTECODE =

test: $(READY)
	$(BIN)/python -m pytest --ignore=tests/experiments

# Of experiments, figures, README and docs.
test-experiments: $(READY)
	$(BIN)/python -m pytest tests/experiments

test-all: $(READY)
	JAX_DISABLE_MOST_OPTIMIZATIONS=0 $(BIN)/python -m pytest -m ""

mutants: $(READY)
	$(BIN)/python -m tests.support.run_mutants

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# Needs uv. One file of pins serves every Python from 3.11 on; UPGRADE= keeps those that still do.
lock: UPGRADE ?= --upgrade
lock:
	uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --no-header --no-annotate \
	  --extra figures --extra sklearn --extra experiments --group docs --group test --group dev \
	  --output-file requirements.lock pyproject.toml

# A site in build/docs, which needs no network, neither to be built nor to be read.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(READY)
	$(BIN)/python docs/command_line.py
	$(BIN)/mkdocs build --strict

notebooks: $(READY)
	$(BIN)/python docs/notebooks/rerun.py

# From the aggregated results in reproduction/; no data set is needed.
figures: $(READY)
	$(BIN)/python -m paper_figures $(PAPERS)

gallery: $(READY)
	$(BIN)/python -m paper_figures $(PAPERS) --gallery docs

reproduction: $(READY)
	$(BIN)/python -m experiments reproduction page

audits: $(READY)
	$(BIN)/python -m experiments audits

# At most four hours on two cores; the rest with: make results RESULTS=--all
results: $(READY)
	$(BIN)/python -m experiments reproduction results $(RESULTS)

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "dpbt needs Python 3.11 or newer; try: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo 'installing (a minute or two)'
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	@# With a plain path the package is found from the folder above the checkout, too.
	$(BIN)/python -m pip install --quiet --no-deps --config-settings editable_mode=compat --editable .
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .cache results figures
