# Two commands do everything on a machine with only Python, pip, make and git: `make check` and `make test`.
# PYTHON chooses the interpreter, VENV the folder of its environment, WORKERS the processes of pytest, SHARD a part of
# `make slow`, such as 1/4.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= auto

# Images set this for what runs once; here hundreds of processes import the same modules.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
# One environment per Python version: with another PYTHON the stamp is missing, and the environment is made anew.
PRINT_VERSION := import sys; print("%d.%d" % sys.version_info[:2])
VERSION := $(shell $(PYTHON) -c '$(PRINT_VERSION)' 2>/dev/null)
STAMP := $(VENV)/.installed-$(VERSION)
# Tests of one file, and cases of one pair and case, share compiled programs: --dist loadgroup keeps them on one worker.
# What takes longest starts first (harness/tests/support/scheduling.py). Each worker holds a jax of its own (about 1 GB),
# hence the cap.
PYTEST := $(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --dist loadgroup
SHARD ?=
PART := $(if $(SHARD),--shard $(SHARD))

LIBRARIES := examples/libraries
LIBRARIES_VENV ?= .venv-libraries
LIBRARIES_STAMP := $(LIBRARIES_VENV)/.installed-$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help install check test slow shake emulate libraries dist docs lint format compile claims sizes known kernels pictures bench clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

install: $(STAMP)  ## the environment in .venv, with the versions of constraints.txt

check: $(STAMP)  ## install, then hold every pair against its contracts
	$(BIN)/samebits check

test: check  ## check, then every test but the slow ones; the points of check are not run twice
	$(PYTEST) -m "not slow and not swept"

# The slow tests plant every fault, so that `samebits audit faults` is not run besides.
slow: $(STAMP)  ## every pair's whole product, all goldens, all planted faults, the slow tests; SHARD=1/4 is a quarter
	$(BIN)/samebits check --full $(PART)
	$(BIN)/samebits golden check $(PART)
	$(PYTEST) -v -m slow $(PART)

shake: $(STAMP)  ## check, and again under every compiler option that moves rounding; takes half an hour
	$(BIN)/samebits check --shake

emulate: $(STAMP)  ## a few pairs on three emulated processors; needs qemu (apt-get install qemu-user)
	set -e; for processor in IvyBridge Haswell EPYC; do \
	  env -u OPENBLAS_CORETYPE -u NPY_ENABLE_CPU_FEATURES SAMEBITS_PROCESSOR="$$processor, emulated" \
	  qemu-x86_64 -cpu $$processor $(BIN)/python -m samebits check grouped_matmul optimizer_state --direction forward \
	  --dtype float32 --mode auto --in-process; done

# The whole tree needs Python 3.12 (MaxText); on an older one, and without a package, its pairs are left out by name.
libraries: $(LIBRARIES_STAMP)  ## pairs over real libraries, with planted faults, in .venv-libraries; page in docs/findings/
	mkdir -p build/libraries
	pairs=$$($(LIBRARIES_VENV)/bin/python $(LIBRARIES)/installed.py) && \
	  $(LIBRARIES_VENV)/bin/samebits check $$pairs --root $(LIBRARIES) --json build/libraries/check.json && \
	  $(LIBRARIES_VENV)/bin/samebits audit faults $$pairs --root $(LIBRARIES) --json build/libraries/faults.json
	$(LIBRARIES_VENV)/bin/python $(LIBRARIES)/findings.py build/libraries/check.json build/libraries/faults.json \
	  > build/libraries/libraries.md
	cp build/libraries/libraries.md docs/findings/libraries.md

dist: $(STAMP)  ## wheel and sdist in dist/, checked as an index checks them
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/twine check --strict dist/*

# Not --quiet: mkdocs counts no warnings then, and --strict fails on none.
docs: $(STAMP)  ## the documentation site in build/site; a warning fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(STAMP)  ## formatting, linters and type checker
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	{ unused=$$($(BIN)/vulture) || test $$? = 3; } && ! printf '%s\n' "$$unused" | grep ^harness/samebits/ # 3: found some
	$(BIN)/mypy --num-workers auto

format: $(STAMP)  ## rewrite the files as `make lint` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What people wrote above the heading of the command stays.
written = touch $(1) && sed -i '/^\#\#\# samebits /,$$d' $(1) && cat build/written.md >> $(1)

compile: $(STAMP)  ## both sides of every pair through the compilers of CPU and TPU; tables in docs/findings/
	mkdir -p build && $(BIN)/samebits compile --whole --markdown build/written.md
	version=$$($(BIN)/python -c 'import jax; print(jax.__version__)') && \
	  $(call written,docs/findings/compiled_jax_$$version.md)

claims: $(STAMP)  ## every claim of the design documents, and memory inside scans; tables in docs/findings/
	mkdir -p build && $(BIN)/samebits audit claims --whole --markdown build/written.md
	$(call written,docs/findings/claims.md)
	$(BIN)/samebits compile scanned_stack --whole --markdown build/written.md
	$(call written,docs/findings/memory_in_scans.md)

sizes: $(STAMP)  ## every pair put to proof for all sizes; the table in docs/findings/
	$(BIN)/python docs/make_all_sizes.py

known: $(STAMP)  ## what is known of faults of the installed compilers, compiled and run; the table in docs/findings/
	$(BIN)/python docs/make_known_faults.py

kernels: $(STAMP)  ## public Pallas kernels put to proof, with planted faults; the table in docs/findings/
	$(BIN)/python docs/make_kernels.py

pictures: $(STAMP)  ## the pictures of README and docs, from a check made now; needs Chromium (apt-get install chromium)
	$(BIN)/python docs/make_pictures.py

bench: $(STAMP)  ## the numbers of docs/performance.md: the engine, the sweep, proofs and training against the plain way
	$(BIN)/python benchmarks/simulation.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/sweep.py
	$(BIN)/python benchmarks/proofs.py
	$(BIN)/python benchmarks/all_sizes.py
	$(BIN)/python benchmarks/bits.py
	$(BIN)/python benchmarks/sizes.py
	$(BIN)/python benchmarks/compiled.py
	$(BIN)/python benchmarks/pods.py
	$(BIN)/python benchmarks/dependence.py
	$(BIN)/python benchmarks/kernel_gate.py
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/whole_step.py
	$(BIN)/python benchmarks/report.py

clean:  ## remove the environment and all caches
	rm -rf $(VENV) $(LIBRARIES_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# VENV belongs to make: an environment of another Python version is removed. Debian's python3 may come without ensurepip;
# then its own pip fills the environment.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "samebits needs Python 3.11 or newer; '$(PYTHON)' is $(or $(VERSION),not there). Pass another one:" \
	    "make $(or $(firstword $(MAKECMDGOALS)),check) PYTHON=python3.12" >&2; exit 1; }
	@echo "installing the pinned dependencies into $(VENV) (Python $(VERSION)); this takes a minute or two"
	@test "$$($(BIN)/python -c '$(PRINT_VERSION)' 2>/dev/null)" = "$(VERSION)" || rm -rf "$(VENV)"
	@test -d "$(VENV)" || $(PYTHON) -m venv "$(VENV)" >/dev/null 2>&1 || { rm -rf "$(VENV)"; \
	  $(PYTHON) -m venv --without-pip "$(VENV)" && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]' \
	  --constraint constraints.txt
# pip compiles on one processor. Some packages carry files that are no Python of this version, which is no error. What no
# process here imports is left out: tests of packages, and most of Ray.
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests/|/ray/(rllib|data|serve|tune|train|llm)/' $(VENV)/lib >/dev/null || true
	@rm -f $(VENV)/.installed-* && touch $@

# MaxText comes without its own requirements.
$(LIBRARIES_STAMP): pyproject.toml constraints.txt $(wildcard $(LIBRARIES)/requirements*.txt)
	@echo "installing the libraries of $(LIBRARIES) into $(LIBRARIES_VENV) (Python $(VERSION)); this takes some minutes"
	@rm -rf $(LIBRARIES_VENV) && $(PYTHON) -m venv $(LIBRARIES_VENV)
	@$(LIBRARIES_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable . \
	  --requirement $(LIBRARIES)/requirements.txt --constraint constraints.txt
	@$(LIBRARIES_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  --requirement $(LIBRARIES)/requirements_maxtext.txt
	@touch $@
