# Two commands do everything: `make run` and `make test`. Both set up `.venv` in this folder and install nothing outside it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check
HOT := $(shell grep -oE 'src/ariane/[a-z_0-9/]+\.py' setup.py)
PARALLEL ?= -n 3 --dist loadfile --no-loadscope-reorder  # for two cores: tests wait as much as they compute
export PIP_NO_WARN_SCRIPT_LOCATION := 1

.DEFAULT_GOAL := help
.PHONY: help setup setup-test run test test-again quick deep test-plain lint check bench simulate model-ha fuzz dledger-chaos dledger-tables dledger-history dledger-power timer-chaos ha-chaos ha-power guarantee-chaos docs docs-serve release lock format clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Ariane needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "Making $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "This Python cannot make virtual environments; on Debian: apt-get install python3-venv"; exit 1; }
	@$(PIP) install -q --upgrade pip

# The hot modules are compiled, so a change to one of them builds them again; all others run from src/.
$(VENV)/.setup: $(BIN)/python pyproject.toml setup.py $(HOT)
	@echo "Installing Ariane into $(VENV); compiling its hot path takes a minute or two ..."
	@$(PIP) install -q -e '.[broker]'
	@touch $@

# Not compiled: quick to install, and does the same for more CPU.
$(VENV)/.plain: $(BIN)/python pyproject.toml setup.py
	@echo "Installing Ariane into $(VENV) ('make setup' also compiles its hot path, which takes a minute or two) ..."
	@ARIANE_PURE=1 $(PIP) install -q -e '.[broker]'
	@touch $@

# The versions of the lock, each checked by its hash; then what it lacks, in the newest version that pyproject.toml allows.
$(VENV)/.setup-test: $(VENV)/.setup pyproject.toml requirements.lock
	@echo "Installing what the tests need; Spark's archive is large, so this takes some minutes the first time ..."
	@$(PIP) install -q --require-hashes -r requirements.lock || \
		echo "The locked versions cannot be installed here; taking the newest that pyproject.toml allows ..."
	@$(BIN)/python scripts/requirements.py > $(VENV)/requirements.txt
	@$(PIP) install -q -r $(VENV)/requirements.txt --group test
	@touch $@

setup: $(VENV)/.setup  ## install the command .venv/bin/ariane, with its hot path compiled

setup-test: $(VENV)/.setup-test  ## install what `make test` needs, Spark among it

run: $(if $(wildcard $(VENV)/.setup),$(VENV)/.setup,$(VENV)/.plain)  ## start name server and broker here, show one message, stay up until Ctrl-C
	@$(BIN)/ariane up $(ARGS)

test: setup-test  ## run all tests, in three processes
	@$(BIN)/pytest $(PARALLEL) $(ARGS)

test-again: setup-test  ## run the tests that failed in the last run once more, alone; for 5 failures at most
	@$(BIN)/pytest --again $(ARGS)

quick: setup-test  ## run the tests for everyday work: no JVM, Spark or database, no programs started
	@$(BIN)/pytest -q --quick $(PARALLEL) $(ARGS)

deep: setup-test  ## run all tests with every kill where `make test` takes a sample; for a night
	@$(BIN)/pytest $(PARALLEL) --deep $(ARGS)

# The same sources without their compiled forms, put before the installed ones; of the client what is compiled.
PLAIN_CLIENT := $(addprefix tests/client/test_,decoding.py process_queue.py back_pressure.py blocking.py send.py consume.py)
test-plain: setup-test  ## run the quick part of the tests without the compiled modules
	@rm -rf .cache/plain && mkdir -p .cache && cp -r src .cache/plain && find .cache/plain -name '*.so' -delete
	@PYTHONPATH=.cache/plain $(BIN)/pytest -q $(PARALLEL) $(ARGS) tests/protocol tests/remoting tests/broker tests/raft $(PLAIN_CLIENT)

lint: setup-test  ## ruff, format, mypy strict, and the layers of the design
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

check: lint test test-plain  ## what CI runs; there, `make test-again` gives a few failed tests a second run

bench: setup-test  ## measure beside Apache's broker: ratios, a table, JSON and a plot
	@$(BIN)/python -m bench $(ARGS)

SEEDS ?= 100000
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
simulate: setup-test  ## run SEEDS=100000 seeds of the raft simulator in JOBS processes; SEED=17 replays one and shows it
	@PYTHONPATH=src $(BIN)/python -m tests.raft.simulator $(if $(SEED),--seed $(SEED),$(SEEDS) --jobs $(JOBS)) $(ARGS)

model-ha: setup-test  ## run the model test of replication deeply: EXAMPLES=2000 histories of 60 steps
	@HA_MODEL_EXAMPLES=$(or $(EXAMPLES),2000) HA_MODEL_STEPS=60 $(BIN)/pytest -q tests/ha/test_model.py --timeout 0 $(ARGS)

fuzz: setup-test  ## feed COUNT=1000000 mutated inputs to every decoder and FRAMES=100000 to a live broker
	@PYTHONPATH=src $(BIN)/python -m tests.fuzz --count $(or $(COUNT),1000000) --frames $(or $(FRAMES),100000) --jobs $(JOBS) $(ARGS)

dledger-chaos: setup-test  ## kill, pause and cut off the leader of a group of three processes ROUNDS=100 times under load
	@PYTHONPATH=src:. $(BIN)/python -m tests.dledger.chaos --rounds $(or $(ROUNDS),100) $(ARGS)

dledger-tables: setup-test  ## kill leaders ROUNDS=100 times right after they acknowledged topics, groups and offsets
	@PYTHONPATH=src:. $(BIN)/python -m tests.dledger.tables --rounds $(or $(ROUNDS),100) $(ARGS)

dledger-history: setup-test  ## check a history of ROUNDS=30 faults of a group with porcupine: is it linearizable? (Go)
	@PYTHONPATH=src:. $(BIN)/python -m tests.dledger.linearizability.recorder --rounds $(or $(ROUNDS),30) $(ARGS)

dledger-power: setup-test  ## cut the power of a group of three file systems CUTS=50 times under load (root, loop devices)
	@PYTHONPATH=src:. $(BIN)/python -m tests.dledger.power --cuts $(or $(CUTS),50) $(ARGS)

timer-chaos: setup-test  ## COUNT=100000 messages with a delivery time across KILLS=20 kills, a quarter of them failovers
	@PYTHONPATH=src:. $(BIN)/python -m tests.broker.timers.chaos --count $(or $(COUNT),100000) --kills $(or $(KILLS),20) $(ARGS)

ha-chaos: setup-test  ## kill the master of a pair KILLS=100 times under load, wiping its disk every third time
	@PYTHONPATH=src $(BIN)/python -m tests.ha.chaos --kills $(or $(KILLS),100) $(ARGS)

ha-power: setup-test  ## cut the power of a master's and its slave's file systems CUTS=20 times under load (root, loop devices)
	@PYTHONPATH=src:. $(BIN)/python -m tests.ha.power --cuts $(or $(CUTS),20) $(ARGS)

guarantee-chaos: setup-test  ## 20,000 money transfers on each database while everything fails
	@$(BIN)/python -m tests.guarantee.money --database postgresql $(ARGS)
	@$(BIN)/python -m tests.guarantee.money --database mariadb $(ARGS)

docs: setup-test  ## build the documentation site into dist/site; a warning is an error
	@PYTHONPATH=src:. $(BIN)/python -m scripts.reference
	@PYTHONPATH=src:. $(BIN)/python -m scripts.site

docs-serve: setup-test  ## the same, served on 127.0.0.1:8000 and built again when a page changes
	@PYTHONPATH=src:. $(BIN)/python -m scripts.site --serve

$(VENV)/.setup-release: $(VENV)/.setup-test
	@$(PIP) install -q --group release
	@touch $@

release: $(VENV)/.setup-release  ## build sdist, pure and platform wheel into dist/, check them, date the changelog
	@$(BIN)/python -m scripts.release $(ARGS)

lock: $(VENV)/.setup-release  ## write requirements.lock, the versions and hashes of the development environment
	@$(BIN)/python scripts/requirements.py > $(VENV)/requirements.txt
	@$(BIN)/uv pip compile -q $(VENV)/requirements.txt --group pyproject.toml:test --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --upgrade -o requirements.lock

format: setup-test  ## put the code into shape
	@$(BIN)/ruff check --fix -q .
	@$(BIN)/ruff format -q .

clean:  ## remove everything that was made here
	@rm -rf $(VENV) .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find src -name '*.so' -delete
