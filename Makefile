# `make demo` and `make test` do all set-up themselves and can be repeated.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP = $(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)

.PHONY: demo test check format faults learn docs bench clean

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The stamps hold a checksum of what is installed, so a changed pyproject or constraints installs anew.
$(VENV)/.core-%: | $(VENV)/bin/python
	$(BIN)/pip install -q -c constraints.txt -e .
	@rm -f $(VENV)/.core-* && touch $@

$(VENV)/.dev-%: | $(VENV)/bin/python
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	@rm -f $(VENV)/.dev-* $(VENV)/.core-* && touch $@ $(VENV)/.core-$*

core: ; @$(MAKE) --no-print-directory $(if $(wildcard $(VENV)/.core-$(STAMP)),,$(VENV)/.core-$(STAMP)) -s noop
dev: ; @$(MAKE) --no-print-directory $(if $(wildcard $(VENV)/.dev-$(STAMP)),,$(VENV)/.dev-$(STAMP)) -s noop
noop: ;
.PHONY: core dev noop

demo: core            ## train TD3 on Pendulum, show it against the untrained policy, write a curve and a video
	@$(BIN)/python -m twofold demo

test: dev             ## all tests that gate a change
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: dev            ## format, lint, types
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy

format: dev
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

faults: dev           ## the long form of the fault tests
	$(BIN)/python -m pytest tests/faults -m 'slow or not slow'

learn: dev            ## learning tests: minutes to hours
	$(BIN)/python -m pytest tests/learning -m slow

docs: dev             ## the site into site/, links checked; then every command and snippet of the pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build -q
	$(BIN)/python -m pytest tests/docs tests/examples -m 'docs or not docs'

# Each script also runs alone and writes benchmarks/results/NAME.{json,md}; the first makes a venv of its own for peers.
bench: dev            ## all speeds: TD3 against peers, items, teams, the fast walker
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/recsys_speed.py
	$(BIN)/python benchmarks/team_updates.py
	$(BIN)/python benchmarks/team_speed.py
	$(BIN)/python benchmarks/walker.py

clean:
	rm -rf $(VENV) .venv-peers
