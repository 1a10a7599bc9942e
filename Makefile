# Two commands do everything on a fresh machine: `make demo` and `make test`. Paths are relative, so that a clone
# may lie in a folder whose name has spaces.
PYTHON ?= python3
PYTEST_ARGS ?=

VENV := .venv
RUN := $(VENV)/bin/python
INSTALLED := $(VENV)/installed

# The environment of another project must not leak into ours.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV
export PIP_USER := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo test check bench accuracy runs profiles docs format clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo    set up, then: a topology, what collectives cost on it, and predicted beside measured here'
	@echo 'make test    set up, then run the tests'
	@echo 'make setup   make .venv with .venv/bin/topo in it (PYTHON=... picks the interpreter)'
	@echo 'make check   what CI runs: ruff, mypy and the tests'
	@echo 'make bench   time whole predictions and write docs/performance.md'
	@echo 'make accuracy  score the published runs and write the table of docs/accuracy.md'
	@echo 'make runs    rebuild the published runs that are shipped, from the corpus'
	@echo 'make profiles  fit the shipped profile again to the published runs that come with it'
	@echo 'make docs    write the outputs that README and docs/ show, and the reference, anew'
	@echo 'make format  lay out the code as the check wants it'
	@echo 'make clean   remove .venv, caches and build leftovers'

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@command -v '$(PYTHON)' >/dev/null || { \
	  echo 'make: no $(PYTHON) found: install Python 3.10 or newer, or name one with PYTHON=...' >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "make: $(PYTHON) is $$('$(PYTHON)' --version 2>&1), toposcope needs Python 3.10 or newer: name one with PYTHON=..." >&2; exit 1; }
	@'$(PYTHON)' -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo 'make: $(PYTHON) has no venv module: install it (Debian, Ubuntu: apt-get install python3-venv)' >&2; exit 1; }
	@$(RUN) -m pip --version >/dev/null 2>&1 || '$(PYTHON)' -m venv --clear $(VENV)
	$(RUN) -m pip install --constraint constraints.txt --editable '.[dev,validate]'
	@touch $(INSTALLED)

# $(call show,what it shows,the arguments of topo)
define show
	@printf '\n# %s\n$$ %s\n\n' '$(1)' '$(VENV)/bin/topo $(2)'
	@$(VENV)/bin/topo $(2)
endef

demo: setup
	$(call show,The topology behind an nvidia-smi capture: 8 GPUs on NVSwitch with 10 NICs,discover --from examples/dgx-h100-topo-m.txt)
	$(call show,What an all-reduce costs on such a box by ring and tree and parameter server and more (simulated),simulate dgx-h100 --algorithm all -b 1K -e 1G -f 4)
	$(call show,Predicted beside measured on 4 processes of this machine: schedules and the built-in,validate run --backend gloo --ranks 4 -b 64K -e 16M -f 16)

test: setup
	$(RUN) -m pytest -n auto --maxprocesses 8 --dist worksteal $(PYTEST_ARGS)

check: setup
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	@$(MAKE) --no-print-directory test

bench: setup
	@mkdir -p build
	$(RUN) -m tests.bench.run build/bench.json docs/performance.md

accuracy: setup
	$(RUN) -m tests.bench.accuracy docs/accuracy.md

runs: setup
	$(RUN) -m tests.published_runs

profiles: setup
	OMP_NUM_THREADS=1 $(RUN) -m validate.profiles

docs: setup
	$(RUN) -m tests.reference
	$(RUN) -m tests.documents

format: setup
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

clean:
	rm -rf $(VENV) build dist toposcope.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
