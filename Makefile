# Each target makes its own environment in .venv; nothing else needs to be installed before.
PYTHON ?= python3
BIN := .venv/bin
DEMO_CASES ?= 30000

DEMO_SECONDS ?= 180
SOAK_SECONDS ?= 3600

.PHONY: demo stream-demo soak test test-logs test-ci test-slow test-engines test-engines-ci test-docs docs mutants golden lint \
  bench bench-scale board schema oldest lock check-wheel release clean

# `tracecloak/` is installed as it lies here, so a file that comes or goes needs nothing.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
CORE := .venv/core

# Where the dependencies are installed already, nothing is downloaded but setuptools. The extra
# measures is what `tracecloak evaluate` needs in the demo.
$(CORE): setup.py pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) '.[measures]'
	touch $@

.venv/pubsub: setup.py | $(CORE)
	$(INSTALL) '.[pubsub]'
	touch $@

.venv/dev: setup.py | $(CORE)
	$(INSTALL) '.[dev]'
	touch $@

# A synthetic hospital log; what a release would do; a graph and a log of it that protect every case,
# what they cost, and how far they are from the hospital. What is known of every hospital of its kind
# is given and costs nothing: its activities, so many events of a stay, and its dates.
DEMO_GRAPH := --method private-dfg --epsilon 1 --vocabulary demo/activities.txt
DEMO_LOG := --method private-log --epsilon 1 --vocabulary demo/activities.txt \
  --max_trace_length 40 --first_date 2021-01-01 --last_date 2024-03-31
demo: export TRACECLOAK_KEY_STORE := demo/key-store
demo: $(CORE)
	rm -rf demo && mkdir demo
	$(BIN)/tracecloak sample --cases $(DEMO_CASES) --output demo/hospital.xes.gz \
	  --vocabulary demo/activities.txt
	$(BIN)/tracecloak plan --log demo/hospital.xes.gz --output demo/releases $(DEMO_GRAPH) \
	  --release_id graph --expected_cases $(DEMO_CASES)
	$(BIN)/tracecloak release --log demo/hospital.xes.gz --output demo/releases $(DEMO_GRAPH) \
	  --release_id graph --new_ledger
	$(BIN)/tracecloak release --log demo/hospital.xes.gz --output demo/releases $(DEMO_LOG) \
	  --release_id log
	$(BIN)/tracecloak ledger show
	$(BIN)/tracecloak evaluate demo/releases/run_id=graph \
	  --log demo/hospital.xes.gz --output demo/evaluation-graph.json
	$(BIN)/tracecloak evaluate demo/releases/run_id=log \
	  --log demo/hospital.xes.gz --output demo/evaluation-log.json
	@echo "Open this first, in a browser: file://$(CURDIR)/demo/releases/run_id%3Dlog/report.html"

# The same hospital in fast motion: its events go to a topic, the graph of all cases so far is
# published step by step, and a page on this machine shows it. The Pub/Sub server is Google's test
# server where Go can build it, and the double of tests/support elsewhere.
stream-demo: .venv/pubsub $(CORE)
	rm -rf build/stream-demo
	PYTHON=$(CURDIR)/$(BIN)/python tests/with_pubsub.sh any $(BIN)/python -m tests.benchmarks.stream_demo \
	  --seconds $(DEMO_SECONDS) --output build/stream-demo

# The stream at a steady rate for an hour; fails if its memory grows. Google's test server keeps all
# messages that it ever had, so the double serves.
soak: export SOAK_SECONDS := $(SOAK_SECONDS)
soak: .venv/pubsub $(CORE)
	rm -rf build/soak && mkdir -p build
	PYTHON=$(CURDIR)/$(BIN)/python tests/with_pubsub.sh double $(BIN)/python -m tests.benchmarks.soak

# CONTRIBUTING.md says what each tier of tests runs, when, and how long. Each process imports
# everything, from bytecode even where the caller's Python writes none; and as there is a process for
# each core, none has threads of its own to multiply matrices with. There is one more than cores,
# since many tests wait for a server, a browser or a process of their own.
WORKERS := $(shell python3 -c 'import os; print((os.cpu_count() or 1) + 1)')
PYTEST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test: .venv/dev $(CORE)
	$(PYTEST) -m "not slow and not engines and not logs"

test-logs: .venv/dev $(CORE)
	$(PYTEST) -m "logs and not slow"

# All that is fast, with the logs, and of the slow tests those that tests/support/tiers.py names; in
# one run, since to import all tests takes a minute of each process.
test-ci: .venv/dev $(CORE)
	$(PYTEST) -m "not engines and (not slow or ci)"

# Under fresh keys (tests/support/fresh_keys.py), which a bound that few of them fulfil does not pass.
# All tests together reach every raise of the product that tests/raises.toml does not list.
test-slow: export TRACECLOAK_RAISES := $(CURDIR)/build/raises
test-slow: .venv/dev $(CORE)
	$(BIN)/python -m tests.support.raises begin
	$(PYTEST) -m "slow and not engines" --fresh-keys
	$(PYTEST) -m "not slow and not engines" --fresh-keys --hypothesis-profile night
	$(BIN)/python -m tests.support.raises

# One process: an engine takes most of a machine by itself.
test-engines: .venv/dev $(CORE)
	$(BIN)/python -m pytest -n 0 -m engines

# One method with several rounds, on Flink in one process and on Prism.
test-engines-ci: .venv/dev $(CORE)
	$(BIN)/python -m pytest -n 0 tests/engines/test_releases.py -k 'flink-amun-first or prism-amun-first'

test-docs: .venv/dev $(CORE)
	$(PYTEST) tests/docs tests/test_notebooks.py tests/test_packaging.py

# The documentation site, in build/site: every link and anchor is checked, and nothing is fetched.
docs: export NO_MKDOCS_2_WARNING := 1
docs: .venv/dev $(CORE)
	$(BIN)/python -m mkdocs build

# Small mistakes in the noise, its accounting and the contract, and whether tests notice them.
mutants: .venv/dev $(CORE)
	$(BIN)/python -m tests.mutants.run

# Records the digests of every kind of release anew (tests/golden/); the commit says which changed on
# purpose, and why.
golden: .venv/dev $(CORE)
	$(BIN)/python -m tests.golden.releases

# mypy finds no folders as an import does (tracecloak/_folders.py): without links it reads a copy.
lint: .venv/dev $(CORE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	if [ -d tracecloak/schemas ]; then $(BIN)/mypy; else rm -rf build/typed && \
	  $(BIN)/python setup.py -q build_py --build-lib build/typed && cd build/typed && \
	  "$(CURDIR)/$(BIN)/mypy" --config-file "$(CURDIR)/pyproject.toml"; fi

# Ratios measured side by side in one run, beside those of docs/results/speed.json, and fails if
# one is worse by more than 30 %; an hour. For a new record, on a machine that does nothing else: make
# bench BENCH_JSON=docs/results/speed.json. PipelineDP is compared in an environment of its own.
BENCH_JSON ?= build/bench.json
bench: export PEERS_PYTHON := $(CURDIR)/.venv/peers/bin/python
bench: .venv/dev $(CORE)
	test -x $(PEERS_PYTHON) || $(PYTHON) -m venv .venv/peers
	$(PEERS_PYTHON) -m pip install --quiet --disable-pip-version-check pipeline-dp pyarrow || true
	$(BIN)/python -m tests.benchmarks.run --json $(BENCH_JSON)

# Time and memory of releases of 3, 10, 30 and 100 million events, about an hour; of some alone:
# make bench-scale SCALE="10,30 private-dfg,amun"
bench-scale: .venv/dev $(CORE)
	$(BIN)/python -m tests.benchmarks.scale $(SCALE) --json $(BENCH_JSON)

# The board: methods and peers at the same true epsilon on every log of the folder that
# TRACECLOAK_LOGS names, in XES or Parquet; public research logs are not part of the project. It writes
# build/board/board.html, and docs/results/comparison.json, of which the site's pages of results are
# made. A log has BOARD_MINUTES; the same command goes on where it was, until nothing is missing. Of
# one log alone, whose releases later runs find: make board BOARD_LOGS=sepsis.xes.gz. Private-PGM is
# compared where its library is: .venv/bin/pip install mbi, then make board
# BOARD_PEERS=travas,private-pgm,palsyn. Mined models take seconds a release: BOARD_MORE='--mine 1'.
BOARD_LOGS ?= $(shell cd "$(TRACECLOAK_LOGS)" && ls | grep -E '\.(xes|xes\.gz|parquet)$$' | paste -sd, -)
BOARD_PEERS ?= travas,palsyn
BOARD_EPSILONS ?= 0.1,0.5,1,2,4
BOARD_REPETITIONS ?= 10
BOARD_MINUTES ?= 10
BOARD_RESULTS ?= docs/results/comparison.json
board: .venv/dev $(CORE)
	test -n "$(TRACECLOAK_LOGS)"  # names the folder of the logs
	mkdir -p build/board
	cd "$(TRACECLOAK_LOGS)" && "$(CURDIR)/$(BIN)/tracecloak" compare \
	  --log $(BOARD_LOGS) \
	  --epsilons $(BOARD_EPSILONS) --delta 1e-6 --repetitions $(BOARD_REPETITIONS) \
	  --peers $(BOARD_PEERS) --max_minutes $(BOARD_MINUTES) $(BOARD_MORE) \
	  --output "$(CURDIR)/build/board/board.html"
	$(if $(filter file,$(origin BOARD_LOGS)),cp build/board/board.json $(BOARD_RESULTS))

# The sdist and the wheel, in build/dist, and the wheel used where nothing else is.
check-wheel: .venv/dev $(CORE)
	$(BIN)/python -m deploy.check_wheel

# deploy/oldest.txt: the lower bounds of setup.py as constraints; a test tells when it is out of date.
oldest: .venv/dev $(CORE)
	$(BIN)/python -m deploy.oldest

# deploy/**/*.lock: versions and hashes of all that images install, the newest that fit.
lock: .venv/dev $(CORE)
	$(BIN)/python -m deploy.lock

# A version: checked, tested, built and tagged, never pushed; DRY_RUN=1 only checks and tells.
release: .venv/dev $(CORE)
	test -n "$(VERSION)"  # such as VERSION=1.2.0
	$(BIN)/python -m deploy.release $(VERSION) $(if $(DRY_RUN),--dry_run)

clean:
	rm -rf .venv demo build *.egg-info

# What others read of the configuration: JSON Schemas for editors, and the stubs of the public modules,
# made of them, for type checkers. Tests tell when they are out of date.
schema: .venv/dev $(CORE)
	$(BIN)/python -c "import json; from tracecloak.pipelines.configuration.config import json_schema as made; \
	  open('schemas/files/release.schema.json', 'w').write(json.dumps(made(), indent=2) + '\n')"
	$(BIN)/python -c "import json; \
	  from tracecloak.pipelines.stream.config import stream_json_schema as made; \
	  open('schemas/files/stream.schema.json', 'w').write(json.dumps(made(), indent=2) + '\n')"
	$(BIN)/python -m deploy.stubs
	$(BIN)/python -m deploy.package_table
	$(BIN)/python -m tests.support.raises messages
