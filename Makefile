# Everything a newcomer needs; `make help` lists it.
PYTHON ?= python3
FLEET_ENV := .venv
TEST_ENV := .venv-test
TEST_STAMP := $(TEST_ENV)/.ready
FLEET_STAMP := $(FLEET_ENV)/.ready
ARGS ?=
FILES ?=

# The tests start some hundred processes: Python keeps what it compiled, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE

PART ?= core
CHECK_ENV := .venv-check-$(PART)
CHECK_STAMP := $(CHECK_ENV)/.ready
CHECK_core := check-core
CHECK_learning := check,edge
CHECK_edge := check,edge,updates,wyoming,assist
CHECK_cloud := check,cloud-base,postgres
CHECK_export := check,export
CHECK_fleet := check,fleet

.PHONY: help fleet check test slow nightly arm64 boards first-boot mutants sbom dist dist-arm64 bench bench-step clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(FLEET_STAMP): pyproject.toml
	$(PYTHON) -m venv $(FLEET_ENV)
	lock=fleet/requirements/$$(uname -m)-cp$$($(FLEET_ENV)/bin/python -c 'import sys; print("%d%d" % sys.version_info[:2])').txt; \
	if [ "$$(uname -s)" = Linux ] && [ -f $$lock ]; then \
	  $(FLEET_ENV)/bin/pip install -q --disable-pip-version-check --require-hashes --only-binary=:all: -r $$lock && \
	  $(FLEET_ENV)/bin/pip install -q --disable-pip-version-check --require-hashes --only-binary=:all: -r deploy/requirements/build.txt && \
	  $(FLEET_ENV)/bin/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	else $(FLEET_ENV)/bin/pip install -q --disable-pip-version-check -e '.[fleet]'; fi
	@touch $@

$(TEST_STAMP): pyproject.toml
	$(PYTHON) -m venv $(TEST_ENV)
	$(TEST_ENV)/bin/pip install -q --disable-pip-version-check --no-compile -e '.[dev,export]'
	@touch $@

fleet: $(FLEET_STAMP) ## Federate synthetic speech on 20 emulated devices; options in ARGS="..."
	$(FLEET_ENV)/bin/auricle fleet run $(if $(filter --engine% --resume% --config%,$(ARGS)),,--engine live) $(ARGS)

$(CHECK_STAMP): pyproject.toml
	$(if $(CHECK_$(PART)),,$(error PART is core, learning, edge, cloud, export or fleet, not "$(PART)"))
	$(PYTHON) -m venv $(CHECK_ENV)
	$(CHECK_ENV)/bin/pip install -q --disable-pip-version-check --no-compile -e '.[$(CHECK_$(PART))]'
	$(CHECK_ENV)/bin/pip uninstall -q -y setuptools pip
	@touch $@

check: $(CHECK_STAMP) ## One part, PART=core, learning, edge, cloud, export or fleet: lint, types and its unit tests in a minute
	$(CHECK_ENV)/bin/python tools/check_part.py $(PART) $(ARGS)

test: $(TEST_STAMP) ## Lint, types, import rules and the fast tests: before every commit
	$(TEST_ENV)/bin/python tools/gate.py fast

slow: $(TEST_STAMP) ## With real brokers, databases, browsers and kills, one of each kind: before a change lands
	$(TEST_ENV)/bin/python tools/gate.py slow

nightly: $(TEST_STAMP) ## Everything else; PART=cloud is one part of it (see CONTRIBUTING.md)
	$(TEST_ENV)/bin/python tools/gate.py $(if $(filter command line,$(origin PART)),$(PART),nightly)

arm64: $(TEST_STAMP) ## The edge part on an emulated arm64 board (needs root; see docs/arm64.md)
	$(TEST_ENV)/bin/python tools/gate.py arm64

boards: $(TEST_STAMP) ## Bundles of two boards, or ARGS=--all, in Debian and Ubuntu roots (needs root; see docs/first-boot.md)
	$(TEST_ENV)/bin/python tools/gate.py boards --pytest "$(ARGS)"

first-boot: $(TEST_STAMP) ## Cards booted in an emulated machine (needs root; see docs/first-boot.md)
	$(TEST_ENV)/bin/pytest -m firstboot tests/firstboot $(ARGS)

mutants: $(TEST_STAMP) ## Changes of FILES="..." that no test sees; see docs/testing.md
	$(TEST_ENV)/bin/python tools/mutants.py $(FILES) $(ARGS)

sbom: $(TEST_STAMP) ## Bills of materials (CycloneDX) of every way to install, in out/sbom
	$(TEST_ENV)/bin/python tools/sbom.py $(ARGS)

dist: $(TEST_STAMP) ## Build wheel and sdist in dist/ and try them in clean environments; see docs/releasing.md
	$(TEST_ENV)/bin/python tools/dist.py $(ARGS)

dist-arm64: $(TEST_STAMP) ## The wheel of dist/ on an emulated arm64 board (needs root, and make dist before it)
	$(TEST_ENV)/bin/python -m tests.arm64.try_wheel dist/auricle-*.whl

bench: $(TEST_STAMP) ## Measure the overhead of a round
	$(TEST_ENV)/bin/python bench/round_overhead.py $(ARGS)

bench-step: $(TEST_STAMP) ## Time a training step beside PyTorch and onnxruntime-training
	$(TEST_ENV)/bin/python bench/step.py $(ARGS)

clean: ## Remove environments and caches
	rm -rf $(FLEET_ENV) $(TEST_ENV) .venv-check-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
