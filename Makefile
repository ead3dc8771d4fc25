# `make demo` and `make test` do all set-up themselves and can be repeated.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP = $(shell cat pyproject.toml constraints.txt setup.py twofold/native/*.[ch] | cksum | cut -d' ' -f1)

.PHONY: demo test test-browser check format native sanitize faults scale fuzz dist licences lock learn docs bench clean

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The stamps hold a checksum of what is installed, so a changed pyproject, constraints or C engine installs anew.
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

test-browser: dev     ## the page of the lab in a real Chromium; skipped where there is none
	$(BIN)/python -m pytest tests/lab -m browser

check: dev            ## format, lint, types
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy

format: dev
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

native: | $(VENV)/bin/python  ## build the C engine where it stands, after a change of it
	$(BIN)/pip install -q 'setuptools>=69' && $(BIN)/python setup.py -q build_ext --inplace --force

SANITIZERS = -fsanitize=address,undefined -fno-sanitize-recover=undefined
sanitize: dev         ## the tests of the C engine with AddressSanitizer and UBSan in it; needs gcc
	CFLAGS="$(SANITIZERS) -O1 -g -DPLAIN" $(BIN)/python setup.py -q build_ext --inplace --force
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
	  CFLAGS="$(SANITIZERS) -g" $(BIN)/python -m pytest tests/native tests/learners/test_native.py -p no:cacheprovider; \
	  code=$$?; $(MAKE) --no-print-directory native && exit $$code

faults: dev           ## the long form of the fault tests
	$(BIN)/python -m pytest tests/faults -m 'slow or not slow'

scale: dev            ## jobs on Ray and SLURM in their long form: nodes killed, jobs preempted
	$(BIN)/pip install -q -c constraints.txt -e '.[ray,slurm,sweep]'
	$(BIN)/python -m pytest $(SCALE) -m 'scale or not slow'

SCALE = tests/jobs tests/rows/test_ray_worker.py tests/lab/sweep tests/crystal/test_relax_on_ray.py \
  tests/crystal/test_relax_batch.py tests/team/test_partners_by_jobs.py tests/recsys/test_parts.py

learn: dev            ## learning tests: minutes to hours
	$(BIN)/python -m pytest tests/learning -m slow

PAGES = tests/docs tests/examples tests/lab/test_guide.py tests/team/test_pages.py tests/test_guide.py tests/test_extending.py
docs: dev             ## the site into site/, links checked; then every command and snippet of the pages
	$(BIN)/pip install -q -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build -q
	$(BIN)/python -m pytest $(PAGES) -m 'docs or not docs'

# Each script also runs alone and writes benchmarks/results/DOMAIN/NAME.{json,md}; the first makes a venv of its own for peers.
bench: dev            ## all speeds: TD3 against peers, items, teams, the fast walker
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/neighbour.py
	$(BIN)/python benchmarks/recsys_speed.py
	$(BIN)/python benchmarks/team_updates.py
	$(BIN)/python benchmarks/team_speed.py
	$(BIN)/python benchmarks/walker.py

fuzz: dev             ## hostile files and command lines: make fuzz MINUTES=30 SEED=1 TARGETS="policy config"
	$(BIN)/python tests/fuzz/run.py --minutes=$(or $(MINUTES),5) --seed=$(or $(SEED),0) $(TARGETS)

dist: dev             ## a release: wheel (built twice, the same bytes), sources, bill of materials, checksums; then tried
	rm -rf dist && $(BIN)/python release/dist.py && $(BIN)/python release/clean.py dist/*.whl

licences: dev         ## docs/licences.md from what is installed
	$(BIN)/python release/sbom.py licences > docs/licences.md

# Your own pip or uv settings say where packages come from; torch as its CPU build.
lock: core            ## requirements.lock: every package that developers install, with the hashes of its files
	$(BIN)/pip install -q 'uv==0.13.7'
	$(BIN)/uv pip compile pyproject.toml --extra dev -c constraints.txt --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --python-version 3.11 --index-strategy unsafe-best-match -o requirements.lock

clean:
	rm -rf $(VENV) .venv-peers
