# `make demo` and `make test` set up .venv by themselves; PYTHON names another interpreter than python3.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test test-long test-tpu check format package bench bench-engine clean
.DEFAULT_GOAL := demo

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedjax_fair needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY)  ## Compare FedAvg with six fair methods on embedded data, print verdicts, write the report.
	$(BIN)/fedjax-fair compare --config=experiments/demo.flags --out=runs/demo --overwrite
	@echo 'Next, with your own images (a folder per site with a folder per class; README has other layouts):'
	@echo '  $(BIN)/fedjax-fair data inspect scans'
	@echo '  $(BIN)/fedjax-fair compare --scenario=folders:scans --recipes=fedavg,fedism,fedavg+fedheal --out=runs/scans'

test: $(READY)  ## The test suite.
	$(BIN)/python -m pytest --numprocesses=auto --dist=loadgroup -m 'not long'

test-long: $(READY)  ## What does not fit into `make test`.
	XLA_FLAGS='--xla_cpu_use_fusion_emitters=true --xla_force_host_platform_device_count=8' $(BIN)/python -m pytest --numprocesses=auto --dist=loadgroup -m long

test-tpu: $(READY)  ## Every recipe compiled for a TPU that is not there, in an environment of its own.
	test -x .venv-tpu/bin/python || $(PYTHON) -m venv .venv-tpu
	PIP_CONSTRAINT=constraints.txt .venv-tpu/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[plan]'
	.venv-tpu/bin/python -m benchmarks.tpu

bench: $(READY)  ## Speed beside other simulators, each in an environment of its own.
	$(BIN)/python -m benchmarks.peers.compare

bench-engine: $(READY)  ## What recipes, growth, sweeps, convolutions, networks, checkpoints and single methods cost.
	for part in recipes sweeps grid tilts determinism growth convolution models amplitude fedheal principal streaming checksums statistics; do $(BIN)/python -m benchmarks.engine.$$part || exit 1; done

check: $(READY)  ## Lint, formatting and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## Put code into shape.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

package:  ## Build wheel and source distribution, install the wheel into an empty environment and run the demo (network).
	PYTHON=$(PYTHON) tools/check_package.sh

clean:  ## Remove the environment and caches, never results.
	rm -rf .venv .venv-tpu .cache build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
