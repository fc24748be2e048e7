# Every target sets up .venv by itself; set-up runs again only when its inputs change.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help setup demo test lint browser docs bench gpu soak release figures clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## create .venv with everything in it

$(READY): pyproject.toml constraints.txt
	@echo "setting up .venv (once; a few minutes the first time)"
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pushpop needs Python 3.11 or newer; this is " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -c 'from pushpop.warmup import compile_kernels; compile_kernels()'
	@touch $@

demo: $(READY)  ## train a small Queue-LSTM to copy until it is solved, about a minute; pictures of it
	$(BIN)/python examples/demo.py

test: lint browser  ## lint, type checks and the whole test suite
	$(BIN)/python -m pytest -n 2

lint: $(READY)  ## ruff check, ruff format --check, mypy --strict, lint-imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

browser:  ## find Chromium for the viewer's tests, or install it where that can be done
	@command -v chromium chromium-browser google-chrome || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing Chromium"; (apt-get update -qq && apt-get install -y -qq chromium) >/dev/null 2>&1 \
	    || echo "Chromium could not be installed: the tests that need a browser will be skipped"; \
	else echo "no Chromium here: the tests that need a browser will be skipped"; fi

docs: export NO_MKDOCS_2_WARNING = 1  # its notice of the theme's successor, on every build
docs: $(READY)  ## build the documentation site: open site/index.html
	$(BIN)/mkdocs build  # with --quiet, strict would not see warnings

bench: $(READY)  ## measure speed and memory, about half an hour; writes results/*.json
	$(BIN)/python benchmarks/memory_speed.py
	$(BIN)/python benchmarks/recurrent_speed.py
	$(BIN)/python benchmarks/recurrent_speed.py --threads 2
	$(BIN)/python benchmarks/recurrent_profile.py
	$(BIN)/python benchmarks/peer_speed.py
	$(BIN)/python benchmarks/moving_cells.py
	$(BIN)/python benchmarks/ragged_speed.py
	$(BIN)/python benchmarks/deep_lstm_speed.py
	$(BIN)/python benchmarks/training_speed.py
	$(BIN)/python benchmarks/evaluation_speed.py
	$(BIN)/python benchmarks/task_sampling.py
	$(BIN)/python benchmarks/memory_scaling.py
	$(BIN)/python benchmarks/viewer_length.py
	$(BIN)/python benchmarks/start_time.py

gpu: $(READY)  ## verify the GPU kernels without a GPU, all of them; writes results/gpu_*.json
	$(BIN)/python benchmarks/gpu_compile.py
	$(BIN)/python benchmarks/gpu_equality.py
	$(BIN)/python benchmarks/gpu_recurrence.py
	$(BIN)/python benchmarks/gpu_launches.py
	$(BIN)/python benchmarks/gpu_races.py
	$(BIN)/python benchmarks/gpu_estimates.py

soak: $(READY)  ## a million streamed steps, 200 kills around saves, a sweep killed ten times, 50 visitors; writes results/*.json
	$(BIN)/python benchmarks/checkpoint_kills.py
	$(BIN)/python benchmarks/sweep_kills.py
	$(BIN)/python benchmarks/streaming.py
	$(BIN)/python benchmarks/serve_load.py

release: $(READY)  ## build sdist and wheel, check them, try the wheel in a fresh environment; into dist/
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*.tar.gz dist/*.whl
	$(PYTHON) -m venv dist/fresh
	dist/fresh/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd dist && fresh/bin/python -c 'import pushpop; print("pushpop", pushpop.__version__, pushpop.__file__)'
	test "$$(echo a10 a25 a40 | dist/fresh/bin/pushpop transduce reverse-stack)" = "a40 a25 a10"
	rm -rf dist/fresh
	@echo "dist/ is ready: tag it v$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml), then twine upload dist/*"

figures: $(READY)  ## draw the figures of the docs again
	$(BIN)/python docs/figures/intervals.py
	$(BIN)/python docs/figures/figure_1a.py
	$(BIN)/python docs/figures/traces.py
	$(BIN)/python docs/figures/gpu.py
	$(BIN)/python docs/figures/served.py
	$(BIN)/pushpop trace reverse-stack "a10 a25 a40 a55 a70 a85 a100 a115" -o docs/figures/reverse.gif
	$(BIN)/python docs/figures/readme.py
	$(BIN)/python docs/figures/tour.py

clean:  ## remove .venv, site and caches
	rm -rf .venv dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
