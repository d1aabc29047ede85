# Every target makes its own environment, .venv, from the versions in constraints.txt.
# On a machine with a ready interpreter and no registry: make gpu PYTHON=python3 NOVENV=1

PYTHON ?= python3
ifdef NOVENV
RUN := $(PYTHON) -m
READY := python
else
RUN := .venv/bin/python -m
READY := .venv/ready
endif

export NO_MKDOCS_2_WARNING := 1

.PHONY: python serve site test check gpu clean

serve: $(READY)  ## the site in both languages, rebuilt on every change
	$(RUN) mkdocs serve

site: $(READY)  ## the site as files, in site/
	$(RUN) mkdocs build --strict

test: $(READY)  ## every kernel test and every block of every page
	$(RUN) pytest --codeblocks README.md README.zh.md docs camp_softmax tests -n auto

check: test  ## what CI runs: the tests, then lint, types, a strict build and a real browser
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	$(RUN) mkdocs build --strict
	$(RUN) pytest tests/browser -n auto

gpu: $(READY)  ## the tests and blocks on this machine's GPU, stamped in docs/verified.json
	$(RUN) pytest --codeblocks README.md README.zh.md docs camp_softmax tests -n auto --stamp docs/verified.json

clean:
	rm -rf .venv site .cache

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, and $(PYTHON) is " + sys.version.split()[0])'

.venv/ready: pyproject.toml constraints.txt | python
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
