# Every target makes its own environment, .venv, from the versions in constraints.txt.
# On a machine with a ready interpreter and no registry: make gpu PYTHON=python3 NOVENV=1

PYTHON ?= python3
ifdef NOVENV
RUN := $(PYTHON) -m
BIN :=
READY := python
else
RUN := .venv/bin/python -m
BIN := .venv/bin/
READY := .venv/ready
endif

export NO_MKDOCS_2_WARNING := 1
export NBCONVERT_DISABLE_CONFIG_EXPORTERS := 1 # to be imported, it would make one of each of its exporters, twice
unexport PYTHONDONTWRITEBYTECODE # .venv is not compiled when it is installed: what one process compiles, the next must find

.PHONY: python serve site publish offline test check mutants gpu agreement bench clean

serve: $(READY)  ## the site in both languages, rebuilt on every change
	$(RUN) mkdocs serve

site: $(READY)  ## the site as files, in site/
	$(RUN) mkdocs build --strict

publish: $(READY)  ## the same, refused while a block's stamp is stale or missing; dated by the commit
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) FRESH=true $(RUN) mkdocs build --strict

BUILD := build
offline: $(READY)  ## the site as build/softmax-camp.zip, to be unpacked and opened without a server
	OFFLINE=true SITE_URL= $(RUN) mkdocs build --strict --site-dir $(abspath $(BUILD))/softmax-camp

test: $(READY)  ## every kernel test and every block of every page
	$(RUN) pytest --codeblocks README.md README.zh.md docs camp_softmax tests -n auto

check: test  ## what CI runs: the tests, then lint, types, a strict build and a real browser
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	$(RUN) check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)zizmor --offline --quiet .github
	$(RUN) mkdocs build --strict
	$(RUN) pytest tests/browser -n auto

mutants: $(READY)  ## changes the package in one place after the other: which change does no test see? takes an hour or two
	$(RUN) tests.mutation

gpu: $(READY)  ## the tests and blocks on this machine's GPU, stamped in docs/verified.json
	$(RUN) pytest --codeblocks README.md README.zh.md docs camp_softmax tests -n auto --stamp docs/verified.json

agreement: $(READY)  ## the checker beside compute-sanitizer, on this machine's GPU, recorded in docs/results/agreement.json
	PYTHONPATH=tests:$$PYTHONPATH $(RUN) agreement --record docs/results/agreement.json

bench: $(READY)  ## the kernels and their peers, timed on this machine's GPU, recorded in docs/results/<device>.json
	$(RUN) camp_softmax.bench --record

clean:
	rm -rf .venv site build .cache

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, and $(PYTHON) is " + sys.version.split()[0])'

# --no-compile: Python compiles what is imported, a tenth of what is installed.
.venv/ready: pyproject.toml constraints.txt | python
	@echo 'installing into .venv, which takes some minutes'
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'
	touch $@
