# Every target sets up what it needs: a virtual environment from locked packages, and the local cluster's binaries.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PLUGIN := build/kind-plugin
PYTEST_ARGS ?=
# What is chosen by -k may all be in one of several runs: pytest ends with 5 where it finds nothing.
OR_NONE := $(if $(PYTEST_ARGS),|| test $$? = 5)
# Compiling the tests takes a quarter of the unit suite's time: it is done once.
unexport PYTHONDONTWRITEBYTECODE
# Each suite installs the chart and points its webhooks at a manager of its own, so each has a cluster of its own too.
# Those that take the control plane down have targets of their own: they take minutes of waiting for it.
BAD_DAYS := test/integration/bad_days/
CHAOS := test/integration/chaos/
# Suites of which hypothesis runs 20,000 examples at night.
STORIES := test/unit/stories/test_machine.py test/unit/stories/test_mutations.py test/unit/stories/test_cuts.py test/unit/stories/disaggregated test/unit/lws/disaggregatedset/rollout test/unit/fuzz
# These tests compile Kueue first.
NEIGHBOURS := test/integration/neighbours/
SUITES := $(filter-out $(BAD_DAYS) $(CHAOS) $(NEIGHBOURS),$(sort $(dir $(wildcard test/integration/*/conftest.py))))
# ALSO: more targets beside the suites of `make test`.
# Suites run in parallel if each has its own cluster. They mostly wait: three use one and a half processors.
LANES := $(if $(filter existing kind,$(CLUSTER)),1,3)
# Another cluster brings its own control plane; what is missing of kubectl and helm is built when it is called.
BUILD := $(if $(filter existing kind,$(CLUSTER)),true,$(BIN)/python -m tools.localcluster --build-only)

.PHONY: on-linux known-node known-demo known-version test-versions demo test bench bench-guard test-unit test-integration artifacts test-bad-days test-chaos test-neighbours test-night test-e2e conformance docs docs-serve lint format size generate generate-api lock cluster image test-image test-node bench-node release clean help

help: ## Show the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(READY): requirements/dev.txt pyproject.toml api/pyproject.toml
	@test -n "$(PYTHON)" || { echo "lws needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python3"; exit 1; }
	@echo "setting up $(VENV) from locked packages"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e api -e .
	@touch $@

# Said first: what comes then takes minutes.
on-linux:
	@$(if $(filter existing kind,$(CLUSTER)),true,test "$$(uname -s)" = Linux || { echo "the local control plane runs on Linux only, and this is $$(uname -s):" \
		"use a Linux machine, virtual machine or container, or CLUSTER=existing for integration tests on a cluster of yours"; exit 1; })

# Said before anything is set up: a demo of something else would run for minutes.
known-node:
	@$(if $(filter-out real,$(NODE)),echo "NODE=$(NODE): leave it out for simulated nodes or say NODE=real" >&2; exit 2,true)

known-demo: known-node
	@$(if $(and $(filter real,$(NODE)),$(DEMO)),echo "DEMO=$(DEMO): NODE=real shows one tour only: leave out one of them" >&2; exit 2,true)

demo: known-demo on-linux $(READY) ## A LeaderWorkerSet comes up, is updated, loses a pod and recovers, live (ONCE=1 ends after it; DEMO=NAME shows that example; NODE=real has pods be processes, as root).
	@$(if $(filter real,$(NODE)),$(BIN)/python -m tools.realnode --product $(BIN)/python -m tools.nodedemo $(if $(ONCE),--once),$(BIN)/python -m tools.demo $(if $(ONCE),--once) $(if $(DEMO),--example $(DEMO)))

# Fails early if the version is unknown; later targets check it themselves.
known-version: $(READY)
	@$(BIN)/python -m tools.localcluster --known-versions > /dev/null

test: on-linux known-version lint test-unit ## Everything: lint, unit, integration and end-to-end tests (K8S=1.32 for another version of Kubernetes).
	@$(BUILD)
	@$(MAKE) --no-print-directory --output-sync=target -j$(LANES) $(ALSO) $(addprefix suite/,$(SUITES) files plugin test/e2e/)

test-unit: $(READY) ## Unit tests, no cluster.
	@$(MAKE) --no-print-directory --output-sync=target -j2 unit/sets unit/others unit/lws

# Processes that collect their own part only are a third faster than workers that collect all; the longest is first.
# No test of lws/ uses hypothesis, whose plugin does something in every test.
unit/sets:
	@$(BIN)/python -m pytest test/unit/stories/disaggregated $(PYTEST_ARGS) $(OR_NONE)

unit/others:
	@$(BIN)/python -m pytest test/unit --ignore=test/unit/lws --ignore=test/unit/stories/disaggregated $(PYTEST_ARGS) $(OR_NONE)

unit/lws:
	@$(BIN)/python -m pytest -p no:hypothesispytest test/unit/lws $(PYTEST_ARGS) $(OR_NONE)

test-integration: on-linux $(READY) ## Tests against a real control plane (CLUSTER=existing or kind for another one).
	@$(BUILD)
	@$(MAKE) --no-print-directory --output-sync=target -j$(LANES) $(addprefix suite/,$(SUITES) files)

suite/files:
	@$(BIN)/python -m pytest $(wildcard test/integration/test_*.py) $(PYTEST_ARGS)

# Not into .venv: the licence of the plugin is the GPL, and nothing that developers run by default needs it.
$(PLUGIN)/.ready: requirements/kind.txt | $(READY)
	@rm -rf $(PLUGIN)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --target $(PLUGIN) -r requirements/kind.txt
	@touch $@

suite/plugin: $(PLUGIN)/.ready
	@PYTHONPATH=$(PLUGIN) $(BIN)/python -m pytest test/unit/harness/test_kind.py -k itself $(PYTEST_ARGS)

suite/%:
	@$(BIN)/python -m pytest $* $(PYTEST_ARGS)

test-bad-days: on-linux $(READY) ## What the product does when the API server, the network or other managers fail.
	@$(BUILD)
	@$(BIN)/python -m pytest $(BAD_DAYS) $(PYTEST_ARGS)

test-chaos: on-linux $(READY) ## Whether promises hold while everything fails at odd instants (CHAOS_SEED=N for others, random for new ones).
	@$(BUILD)
	@$(BIN)/python -m pytest $(CHAOS) $(PYTEST_ARGS)

test-neighbours: on-linux $(READY) ## Sets beside a real Kueue, which is compiled for it.
	@$(BUILD)
	@$(BIN)/python -m pytest $(NEIGHBOURS) $(PYTEST_ARGS)

test-e2e: on-linux $(READY) ## The chart and the examples on a cluster, through helm and kubectl.
	@$(BUILD)
	@$(BIN)/python -m pytest test/e2e $(PYTEST_ARGS)

test-versions: on-linux $(READY) ## Integration and end-to-end tests on each version of Kubernetes in turn: for the night (VERSIONS="1.30 1.32" for some).
	@failed=; for version in $(or $(VERSIONS),$$($(BIN)/python -m tools.localcluster --known-versions)); do \
		echo "Kubernetes $$version"; \
		$(MAKE) --no-print-directory K8S=$$version test-integration test-e2e || failed="$$failed $$version"; \
	done; \
	test -z "$$failed" || { echo "failed on Kubernetes$$failed"; exit 1; }

# Each is run, whatever became of those before.
test-night: on-linux $(READY) ## What takes too long for every change: longer chaos, a real Kueue, the real node, earlier versions of Kubernetes, many more stories.
	@failed=; \
	CHAOS_KILLS=50 $(MAKE) --no-print-directory test-chaos || failed="$$failed test-chaos"; \
	for target in test-neighbours test-node test-versions; do $(MAKE) --no-print-directory $$target || failed="$$failed $$target"; done; \
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest $(STORIES) $(PYTEST_ARGS) || failed="$$failed stories"; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

bench: known-node on-linux $(READY) ## Measure against the floor (SHAPES="1x400x4 ds100x2x2x2 …", AGAINST=<command>, RESUME=1, PROFILE=1, FOREIGN=5000; SHAPES=serving NODE=real, as root); writes test/bench/results and the figures of docs/operations/performance.md.
	@$(BUILD)
	@$(BIN)/python -m test.bench $(SHAPES) $(if $(AGAINST),--against="$(AGAINST)") $(if $(RESUME),--resume) \
		$(if $(PROFILE),--profile) $(if $(FOREIGN),--foreign=$(FOREIGN)) $(if $(filter real,$(NODE)),--real-node)

bench-guard: on-linux $(READY) ## Check that the product stays within its budget of writes, passes and lists.
	@$(BUILD)
	@$(BIN)/python -m test.bench.guard

conformance: on-linux $(READY) ## Run the tests that prove each part of the API.
	@$(BUILD)
	@$(BIN)/python -m tools.conformance

docs: $(READY) ## Build the site of docs/ into build/site; a dead link or anchor is an error.
	@$(BIN)/python -m tools.site

docs-serve: docs ## Build the site and serve it at http://127.0.0.1:8000, until Ctrl-C.
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

size: $(READY) ## How large the project is: files, lines, import closures, words. Fails nothing.
	@$(BIN)/python -m tools.size

lint: $(READY) ## ruff, mypy --strict, import contracts.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY) ## Let ruff put the code in order.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

generate: $(READY) ## Write what is generated: all of generate-api, tables of pod fields, metrics, licences, pictures, plots.
	@$(BIN)/python -m tools.podtypes
	@$(BIN)/python -m tools.series
	@$(BIN)/python -m tools.release.licences
	@$(MAKE) --no-print-directory generate-api
	@$(BIN)/python -m tools.pictures
	@$(BIN)/python -m test.bench --page-only

generate-api: $(READY) ## Write what follows from the models and test/conformance.yaml: CRDs, chart values, and the pages of API, configuration and compatibility.
	@$(BIN)/python -m tools.crdgen
	@$(BIN)/python -m tools.apipage
	@$(BIN)/python -m tools.chartvalues
	@$(BIN)/python -m tools.conformance --page-only

lock: $(READY) ## Resolve the locked requirements anew.
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile pyproject.toml --no-emit-package lws-api --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-header --no-annotate --upgrade --quiet -o requirements/runtime.txt
	@$(BIN)/uv pip compile pyproject.toml --no-emit-package lws-api --group dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate --upgrade --quiet -o requirements/dev.txt
	@$(BIN)/uv pip compile --group build --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-header --no-annotate --upgrade --quiet -o requirements/build.txt
	@$(BIN)/uv pip compile --group kind -c requirements/dev.txt --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate --upgrade --quiet -o requirements/kind.txt
	@$(BIN)/uv pip compile --group engines --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-header --no-annotate --upgrade --quiet -o requirements/engines.txt

cluster: known-node on-linux $(READY) ## A local control plane to play with, until Ctrl-C (NODE=real: with a real node, as root).
	@$(BIN)/python -m $(if $(filter real,$(NODE)),tools.realnode --product,tools.localcluster)

image: on-linux $(READY) ## The container image, into build/image, by docker, podman or buildah (BUILDER=…, BASE=…, PLATFORMS=linux/amd64, IMAGE=name:tag).
	@BUILDER="$(BUILDER)" BASE="$(BASE)" PLATFORMS="$(PLATFORMS)" IMAGE="$(IMAGE)" $(BIN)/python -m tools.image

test-image: on-linux $(READY) ## Build the image for real, and look at it: needs root and what `make image` needs.
	@$(BIN)/python -m pytest test/node/test_image.py test/node/test_image_build.py $(PYTEST_ARGS)

# The first takes the image apart that the others run, and the second counts from outside what a node leaves behind;
# the others run inside of the node's namespaces.
test-node: on-linux $(READY) ## The image and the chart on a real node, as users install them: needs root and what `make image` needs.
	@$(BIN)/python -m pytest test/node/test_image.py test/node/test_leftovers.py $(PYTEST_ARGS) $(OR_NONE)
	@$(BIN)/python -m tools.realnode --product --engines --or-skip $(BIN)/python -m pytest test/node \
		$(addprefix --ignore=test/node/test_,image.py image_build.py leftovers.py) $(PYTEST_ARGS) $(OR_NONE)

bench-node: on-linux $(READY) ## How long a group takes to be made again on a real node after a worker's process was killed, as root.
	@$(BIN)/python -m tools.realnode --product $(BIN)/python -m test.node.recreation

# In one after the other: both write into build/.
artifacts: $(READY)
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory release WITHOUT_IMAGE=1

release: on-linux $(READY) ## Every artifact of a release, into dist/ (IMAGE_REPOSITORY=…, PROJECT_URL=…, TAG=v…; WITHOUT_IMAGE=1, and what `make image` takes).
	@IMAGE_REPOSITORY="$(IMAGE_REPOSITORY)" PROJECT_URL="$(PROJECT_URL)" TAG="$(TAG)" WITHOUT_IMAGE="$(WITHOUT_IMAGE)" \
		BUILDER="$(BUILDER)" BASE="$(BASE)" PLATFORMS="$(PLATFORMS)" $(BIN)/python -m tools.release

clean: ## Remove the virtual environment and what tools left in the tree.
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
