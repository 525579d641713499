# Set-up, demo and tests on a fresh machine with Python 3.11+ and make. Everything goes into .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint types clean

# The multimodal example, as imported and optimised, with its table.
demo: $(VENV)/.installed
	$(BIN)/python examples/multimodal/demo.py

# All tests: pytest and lit. One process per core, each with one BLAS thread: they would only get in each other's way.
test: $(VENV)/.installed-tests
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile
	$(BIN)/lit -q lit_tests

lint: $(VENV)/.installed-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The checker reads a copy arranged as it is imported: an editable install hides the package from it.
types: $(VENV)/.installed-tests
	rm -rf build/types && mkdir -p build/types
	cp -r compiler build/types/mlopt && cp -r dialects passes build/types/mlopt/ && cp pyproject.toml build/types/
	cd build/types && $(abspath $(BIN))/basedpyright --pythonpath $(abspath $(BIN))/python

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install -qq --editable .
	touch $@

$(VENV)/.installed-tests: $(VENV)/.installed
	$(BIN)/python -m pip install -qq --editable '.[test,mlir,dev]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info demo_output
