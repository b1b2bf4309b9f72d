# Everything is set up by what it needs: `make demo` and `make test` work on a fresh machine with Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Another torch, in an environment of its own: TORCH=2.14.1, TORCH=newest (what pip installs), TORCH=oldest.
WITH_TORCH := $(BIN)/python $(if $(TORCH),tools/with_torch.py $(TORCH))
PEERS := .venv-peers
PEERS_READY := $(PEERS)/.ready
TRITON := .venv-triton

.PHONY: help demo docs test lint types contracts pytest quick durations test-newest test-pythons test-peers test-triton bench gpu-pack gpu gpu-read goldens release generate clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 14

# pip compiles all that torch and others bring, in a minute; what is used of it is compiled in ten seconds.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile

$(READY): requirements/lock.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --requirement requirements/lock.txt
	$(BIN)/python $(INSTALL) --no-deps --no-build-isolation --editable .
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -c "import torch._dynamo, gradwright.doctor.patient"
	@touch $@

demo: $(READY) ## set up, then diagnose a shipped example (TORCH=2.14.1: with that torch)
	$(WITH_TORCH) -m gradwright diagnose examples/element_loop/train.py --size 200 || test $$? -eq 1 # 1: there are findings
	@echo "The session is in .gradwright/last.json; 'gradwright explain GW301' says more."

test: lint types contracts pytest ## everything that has to be green

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy --num-workers 2

contracts: $(READY)
	$(BIN)/lint-imports

# Two workers, one thread for each: more get into one another's way. Compiled modules are kept, whatever the environment
# says: each of a thousand processes would compile them again.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(WITH_TORCH) -m pytest -n 2 --dist loadgroup -m "not peers"

pytest: $(READY) ## all tests but those that need large packages (TORCH=2.14.1: with that torch)
	$(PYTEST)

test-newest: $(READY) ## a smoke run on the newest torch and the oldest, in environments of their own (fetches 1.5 GB)
	$(BIN)/python tools/compare_torches.py

test-pythons: $(READY) ## a smoke run of the wheel on each Python that is here (fetches 0.6 GB for each)
	$(BIN)/python tools/try_pythons.py

quick: $(READY) ## the tests that a change calls for first, at most three minutes (SINCE=commit)
	$(BIN)/ruff check .
	$(BIN)/python tools/quick.py $(if $(SINCE),--since $(SINCE))

durations: $(READY) ## how long each test of a whole run takes, into tests/durations.json
	PYTHONPATH=$(CURDIR) $(PYTEST) -p tools.durations

$(PEERS_READY): $(READY) tests/real/requirements.txt tests/real/sdists.txt
	$(PYTHON) -m venv $(PEERS)
	echo "import site; site.addsitedir('$$($(CURDIR)/$(BIN)/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')')" \
		> $$($(PEERS)/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/beside.pth
	$(PEERS)/bin/python $(INSTALL) --no-deps --requirement tests/real/requirements.txt
	$(PEERS)/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --no-build-isolation \
		--require-hashes --requirement tests/real/sdists.txt --dest $(PEERS)/sdists
	@touch $@

test-peers: $(PEERS_READY) ## tests that need large packages (torchdiffeq, torchsde, kornia, ...)
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(PEERS)/bin/python -m pytest -n 2 --dist loadgroup -m peers \
		$$(grep -rl --include='test_*.py' 'mark.peers' tests)

$(TRITON)/.ready: $(READY)
	$(PYTHON) -m venv $(TRITON)
	echo "import site; site.addsitedir('$$($(CURDIR)/$(BIN)/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')')" \
		> $$($(TRITON)/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/beside.pth
	$(TRITON)/bin/python $(INSTALL) --no-deps triton==3.9.0
	@touch $@

test-triton: $(TRITON)/.ready ## Triton kernels without a GPU: run by Triton's interpreter, compiled for one (1 GB to install)
	TRITON_INTERPRET=1 $(TRITON)/bin/python -m pytest tests/kernels/launch/test_triton.py tests/kernels/launch/test_triton_rows.py
	$(TRITON)/bin/python -m pytest tests/kernels/code/test_triton_code.py tests/kernels/code/test_triton_rows.py

bench: $(PEERS_READY) ## speed and memory, results under benchmarks/results
	$(BIN)/python benchmarks/how_much_does_watching_cost.py
	$(BIN)/python benchmarks/how_long_does_the_doctor_take.py
	$(BIN)/python benchmarks/how_long_does_a_check_take.py
	$(BIN)/python benchmarks/how_many_wrong_gradients_are_found.py --operators 210 --in-turn 3 --save
	$(BIN)/python benchmarks/are_public_faults_caught.py
	$(BIN)/python benchmarks/public_faults/page.py
	$(BIN)/python benchmarks/what_is_wrong_in_the_wild.py
	$(BIN)/python benchmarks/wild/page.py
	$(BIN)/python benchmarks/are_training_faults_found.py
	$(BIN)/python benchmarks/what_does_a_custom_gradient_cost.py
	$(BIN)/python -m corpora.support_matrix.record --keep-peers
	$(BIN)/python benchmarks/is_a_derived_backward_as_good_as_autograd.py
	$(BIN)/python benchmarks/does_memory_stay_flat_with_depth.py
	$(BIN)/python benchmarks/what_does_a_tap_cost.py
	$(BIN)/python benchmarks/what_does_explaining_nonfinite_cost.py
	$(PEERS)/bin/python benchmarks/which_batch_jacobian_is_fastest.py
	$(BIN)/python benchmarks/how_fast_is_the_batched_penalty.py
	$(BIN)/python benchmarks/how_fast_is_a_laplacian.py
	$(PEERS)/bin/python benchmarks/how_fast_is_a_coloured_jacobian.py
	$(PEERS)/bin/python benchmarks/how_fast_are_per_sample_gradients.py
	$(PEERS)/bin/python benchmarks/how_fast_is_a_training_step_with_derivatives.py
	$(PEERS)/bin/python benchmarks/how_fast_is_a_formula.py
	$(PEERS)/bin/python benchmarks/how_fast_is_a_formula.py --memory-kept
	$(PEERS)/bin/python benchmarks/how_soon_is_a_formula_ready.py
	$(PEERS)/bin/python benchmarks/how_fast_are_the_losses.py
	$(PEERS)/bin/python benchmarks/does_accumulation_equal_the_batch.py
	$(BIN)/python benchmarks/how_fast_is_a_step_of_nanogpt.py
	$(BIN)/python benchmarks/nanogpt_steps/curve.py
	$(BIN)/python benchmarks/what_share_is_rewritten.py
	$(PEERS)/bin/python benchmarks/how_fast_is_the_fix.py --peers
	$(BIN)/python benchmarks/how_soon_is_a_fix_there.py
	$(BIN)/python benchmarks/how_fast_is_a_report.py
	$(BIN)/python benchmarks/what_do_the_sources_say.py
	$(BIN)/python benchmarks/table.py

# What has to travel to a machine with a GPU: .whl, and an environment like that machine's to try it in.
gpu-pack: $(READY) ## fetch what has to travel to a machine with a GPU, and try whether it is enough there
	$(BIN)/python tools/pack_gpu.py

# On that machine its own python3; dry, on a CPU, the environment that `make gpu-pack` made.
gpu: ## there: everything that waits for a GPU, in eight minutes at most (RESULTS=folder; GRADWRIGHT_GPU_DRY=1: on the CPU)
	$(if $(filter 1,$(GRADWRIGHT_GPU_DRY)),.venv-gpu/bin/python,python3) tools/run_gpu.py $(if $(RESULTS),--results $(RESULTS))

gpu-read: $(READY) ## take over what `make gpu` brought back (RESULTS=folder): figures, docs, constants, what to mend
	$(BIN)/python tools/read_gpu.py $(RESULTS)

goldens: $(READY) ## rewrite the goldens after a change that is meant
	GRADWRIGHT_GOLDENS=rewrite $(BIN)/pytest -n 2 -m "not peers" -k golden

release: $(READY) ## sdist and wheel into dist/, looked at, and tried in an environment of their own (fetches torch)
	$(BIN)/python tools/release

generate: $(READY) ## rewrite what is generated: the pages of the rules, the README's transcript
	$(BIN)/python tools/generate.py

docs: $(READY) ## the documentation, strictly, into site/ (look: python -m http.server -d site)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf $(VENV) $(PEERS) $(TRITON) .venv-torch-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache site
