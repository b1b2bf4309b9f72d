# Everything is set up by what it needs: `make demo` and `make test` work on a fresh machine with Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers
PEERS_READY := $(PEERS)/.ready

.PHONY: help demo test lint types contracts pytest test-peers bench goldens generate clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 14

$(READY): requirements/lock.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements/lock.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY) ## set up, then diagnose a shipped example
	$(BIN)/gradwright diagnose examples/element_loop/train.py --size 200 || test $$? -eq 1 # 1: there are findings
	@echo "The session is in .gradwright/last.json; 'gradwright explain GW301' says more."

test: lint types contracts pytest ## everything that has to be green

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

contracts: $(READY)
	$(BIN)/lint-imports

pytest: $(READY)
	$(BIN)/pytest -n 2 --dist loadgroup -m "not peers"

$(PEERS_READY): $(READY) tests/real/requirements.txt
	$(PYTHON) -m venv $(PEERS)
	echo "import site; site.addsitedir('$$($(CURDIR)/$(BIN)/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')')" \
		> $$($(PEERS)/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/beside.pth
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/real/requirements.txt
	@touch $@

test-peers: $(PEERS_READY) ## tests that need large packages (torchdiffeq, torchsde, kornia, ...)
	$(PEERS)/bin/python -m pytest -m peers tests

bench: $(READY) ## speed and memory, results under benchmarks/results
	$(BIN)/python benchmarks/how_much_does_watching_cost.py
	$(BIN)/python benchmarks/how_long_does_the_doctor_take.py
	$(BIN)/python benchmarks/how_long_does_a_check_take.py
	$(BIN)/python benchmarks/how_many_wrong_gradients_are_found.py --operators 210 --in-turn 3 --save
	$(BIN)/python benchmarks/are_public_faults_caught.py
	$(BIN)/python benchmarks/public_faults/page.py
	$(BIN)/python benchmarks/what_is_wrong_in_the_wild.py
	$(BIN)/python benchmarks/wild/page.py
	$(BIN)/python benchmarks/what_does_a_custom_gradient_cost.py
	cd benchmarks && ../$(BIN)/python -m support_matrix.record --keep-peers
	$(BIN)/python benchmarks/is_a_derived_backward_as_good_as_autograd.py
	$(BIN)/python benchmarks/does_memory_stay_flat_with_depth.py
	$(BIN)/python benchmarks/what_does_a_tap_cost.py
	$(BIN)/python benchmarks/table.py

goldens: $(READY) ## rewrite the goldens after a change that is meant
	GRADWRIGHT_GOLDENS=rewrite $(BIN)/pytest -n 2 -m "not peers" -k golden

generate: $(READY) ## rewrite what is generated: the pages of the rules, the README's transcript
	$(BIN)/python tools/generate.py

clean:
	rm -rf $(VENV) $(PEERS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
