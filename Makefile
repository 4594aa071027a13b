# Every target sets up what it needs: `make demo` and `make test` work from a fresh clone.
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# What running needs, without tools of tests and documentation.
RUNS := $(VENV)/.ready-run
# PYTHON=/path/to/python3.12 overrides the search.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null && { echo "$$p"; break; }; done)
PIP = $(PY) -m pip install --disable-pip-version-check --progress-bar off
ARGS ?=
# Byte code is kept, also where the environment says otherwise: or each of many processes would compile everything anew.
export PYTHONDONTWRITEBYTECODE :=
# durable_rules calls a function that CPython 3.13 removed; its replacement takes the same arguments (docs/decisions/0003).
export CPPFLAGS += -DPyEval_CallObject=PyObject_CallObject
# What writes charts/kubenode/crds, docs/reference and the lists of what images hold. The last two read tables and cases that
# may lie beside the repository:
# where they are missing, both say so or keep what was measured last.
GENERATORS := images.closure devtools.crds devtools.api_reference devtools.schemas devtools.rules_reference \
	devtools.small_clusters devtools.defender_openapi devtools.stream_schema devtools.job_states devtools.machine_states devtools.component_set_states devtools.grafana devtools.slo devtools.metrics_reference devtools.logs_reference devtools.cli_reference devtools.component_library devtools.rule_coverage devtools.rules_report

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(RUNS): requirements.lock pyproject.toml images/run.txt images/pins.awk
	@test -n "$(PYTHON)" || { echo "KubeNode needs CPython 3.11 to 3.14." \
		"Install one, or name it: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "KubeNode needs a C compiler (cc) to build durable_rules. Install gcc or clang." >&2; exit 1; }
	@echo "1/3 create $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "2/3 install $$(wc -l <images/run.txt) packages and compile durable_rules: about a minute"
	@awk -f images/pins.awk images/run.txt requirements.lock >$(VENV)/run.lock
	@$(PIP) --require-hashes -r $(VENV)/run.lock
	@echo "3/3 install kubenode"
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(READY): $(RUNS) requirements.lock
	@echo "install the tools of tests and documentation: about a minute"
	@$(PIP) --require-hashes -r requirements.lock
	@touch $@

venv: $(READY) ## build .venv from the lock file
	@echo "$(PY) is ready"

demo: $(RUNS) ## run the whole system on an embedded API server (ARGS="--for 60s --json")
	@$(VENV)/bin/kubenode demo $(ARGS)

test: $(READY) ## every test that this machine can run; in CI (CI=true) a missing component fails
	@$(PY) tests/run.py $(ARGS)

test-unit: $(READY) ## unit tests: no network, no sleep
	$(PY) -m pytest -n auto tests/unit -m "not exhaustive" $(ARGS)

check: $(READY) ## format, lint, types, import contracts, vocabulary, generated files up to date
	$(PY) -m ruff format --check .
	$(PY) -m ruff check --no-cache .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) -m devtools.vocabulary --check
	@for generator in $(GENERATORS); do $(PY) -m $$generator --check || bad=1; done; exit $${bad:-0}

docs: $(READY) ## write what is generated: CRDs and docs/reference
	@set -e; for generator in $(GENERATORS); do $(PY) -m $$generator; done

# Without --quiet, which hides warnings from --strict: a dead link would pass.
docs-site: $(READY) ## the documentation as a site, into dist/site; nothing is fetched
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict $(ARGS)

picture: $(READY) ## take the pictures of the dashboard, of Insight and of Captain (chromium)
	PYTHONPATH=tests $(PY) -m support.dashboard_picture
	PYTHONPATH=tests $(PY) -m support.insight_picture
	PYTHONPATH=tests $(PY) -m support.captain_picture

rules-test: $(READY) ## the library's own tests: timelines and what must come of them
	$(VENV)/bin/kubenode rules test rules/library $(ARGS)

rules-report: $(READY) ## score the library on labelled cases: docs/reference/rules-report.md
	$(PY) -m devtools.rules_report $(ARGS)

packages: $(READY) ## the agent as deb, rpm and tar.gz, into dist/ (ARGS="--arch arm64"; Debian packages mmdebstrap, patchelf, rpm)
	@$(PY) -m agent.packages dist $(ARGS)

e2e: $(READY) ## hosts with systemd, real control plane (root)
	$(PY) -m pytest tests/e2e $(ARGS)

bench: $(READY) ## benchmarks, JSON on standard output (ARGS="--nodes 1000")
	@PYTHONPATH=tests $(PY) -m bench.run $(ARGS)

chaos: $(READY) ## everything killed and stalled at random on a real control plane (ARGS="--for 30m --seed 7")
	@PYTHONPATH=tests $(PY) -m chaos.run $(ARGS)

chaos-day: $(READY) ## the same by simulated time (ARGS="--for 24h --faults 10100 --seed 7")
	@PYTHONHASHSEED=0 PYTHONPATH=tests $(PY) -m chaos.simulated $(ARGS)

bench-compare: $(READY) ## fails if a figure of NEW="b.json" is worse than of OLD="a.json" by more than its noise
	@PYTHONPATH=tests $(PY) -m bench.compare --old $(OLD) --new $(NEW)

deflake: $(READY) ## unit tests in random order until one fails
	while $(PY) -m pytest -q tests/unit; do :; done

lock: $(READY) ## renew requirements.lock from pyproject.toml
	$(PY) -m pip install --quiet uv
	$(VENV)/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--no-annotate --quiet --upgrade pyproject.toml --group dev --all-extras -o requirements.lock

wheel: $(READY) ## build dist/*.whl: kubenode, and kubenode-simulation, which no image holds
	$(PY) -m pip wheel --quiet --no-deps --no-build-isolation -w dist . ./simulation

images: ## build the images into dist/images as OCI archives (root; Debian packages buildah, mmdebstrap; no registry)
	@sh images/build.sh dist/images $(ARGS)

sbom: $(READY) ## what each image holds, as CycloneDX, into dist/
	@$(PY) -m images.sbom dist

release: $(READY) ## the files of a release, into dist/release: wheels, chart, recipe of images, SBOM, checksums; uploads nothing
	@$(PY) -m devtools.release dist/release

audit: $(READY) ## licences of what images hold (ARGS="--alive": what had no release for a year, too)
	@$(PY) -m images.audit $(ARGS)

.PHONY: help venv demo test test-unit check docs docs-site images packages picture rules-test rules-report e2e bench chaos chaos-day bench-compare deflake lock wheel sbom release audit
