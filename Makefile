# Each target is complete on a fresh machine with Python 3.11 or later and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE ?= 1

.PHONY: demo test lint tests test-gpu test-lowest test-ray fuzz docs dist speed clean

# Real texts for `make speed`: a folder with sst2, goemotions_shortcuts and yelp.
DATA ?= ../shared/data
SPEED_OUT ?= build/speed.json

demo: $(VENV)/.demo
	$(BIN)/shortcut-guardrail demo --out demo-output --overwrite

test: lint tests

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

tests: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

# Offline; a broken link, a missing anchor or a docstring that cannot be read fails it. The pages are in build/site.
docs: $(VENV)/.dev
	rm -rf build/site
	$(BIN)/python -m sphinx --builder html --fail-on-warning --nitpicky --keep-going --quiet docs build/site

# In the environment that is active, or PYTHON's: `constraints.txt` pins a PyTorch without CUDA. The files are named
# because others import what tests alone need; these need pytest and the two packages.
GPU_TESTS := tests/test_gpu.py bench/tests/finetuning/test_gpu.py bench/tests/methods/test_gpu.py
test-gpu:
	$(PYTHON) -m pytest --gpu $(GPU_TESTS)

# Every reader with files that are almost right, until the time is up; `make test` has the short form.
FUZZ_SECONDS ?= 600
FUZZ_SEED ?= 0
fuzz: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m hardening.fuzzing --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)
	PYTHONPATH=tests $(BIN)/python -m hardening.tampering

# The lowest versions that pyproject.toml declares: a part of the tests that covers every dependency.
LOWEST := build/lowest
LOWEST_TESTS := tests/stats tests/strength tests/text tests/data tests/saving tests/attribution tests/models \
	tests/mitigation tests/cli/test_options.py tests/test_config.py tests/test_metrics.py
test-lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip compile --quiet --resolution lowest-direct pyproject.toml --output-file $(LOWEST)/versions.txt
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST) --requirement $(LOWEST)/versions.txt --editable .
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST) --constraint $(LOWEST)/versions.txt \
		hypothesis matplotlib psutil pytest scikit-learn statsmodels
	$(LOWEST)/bin/python -m pytest -W default $(LOWEST_TESTS)

# The example that audits on a Ray cluster, with a cluster of this machine.
RAY := build/ray
test-ray:
	$(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check $$(grep '^torch==' constraints.txt)
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . \
		psutil pytest 'ray>=2.60,<3'
	$(RAY)/bin/python -m pytest tests/audit/test_ray.py

# Wheels and sdists of both distributions, and each wheel alone in an environment of its own.
dist:
	rm -rf dist build/dist
	$(PYTHON) -m venv build/dist
	build/dist/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt build twine
	build/dist/bin/python -m build --outdir dist .
	build/dist/bin/python -m build --outdir dist bench
	build/dist/bin/twine check --strict dist/*
	$(PYTHON) -m venv build/dist/alone
	build/dist/alone/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/shortcut_guardrail-*.whl
	cd build/dist && alone/bin/python -W error -c "import shortcut_guardrail" && alone/bin/shortcut-guardrail --help > help.txt

# Half an hour on two cores, alone on the machine; a run that was cut short goes on where it stopped.
speed: $(VENV)/.dev
	$(BIN)/python -m perf --data-dir $(DATA) --out $(SPEED_OUT)

# PyTorch first and pinned: asked for by a range, it brings gigabytes of CUDA libraries along. Python compiles what it
# imports; to compile all of it here takes most of a minute.
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check
$(VENV)/.torch: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $$(grep -E '^(torch|uv)==' constraints.txt)
	touch $@

# uv settles the versions in seconds, pip in most of a minute. But uv does not read pip's configuration: where it finds
# no packages, pip installs them. It is told to trust the certificates that the system trusts, as pip does.
INSTALL = $(BIN)/uv pip install --quiet --system-certs --python $(VENV) --constraint constraints.txt $(PACKAGES) || \
	$(PIP) --constraint constraints.txt $(PACKAGES)

$(VENV)/.demo: PACKAGES := --editable '.[demo]'
$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(INSTALL)
	touch $@

$(VENV)/.dev: PACKAGES := --editable '.[demo,dev]' --editable ./bench
$(VENV)/.dev: $(VENV)/.torch pyproject.toml bench/pyproject.toml
	$(INSTALL)
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) build dist demo-output .mypy_cache .ruff_cache .pytest_cache
