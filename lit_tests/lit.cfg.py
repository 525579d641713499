"""Settings of the FileCheck tests: `lit lit_tests`, from the environment that mlopt is installed in.

In RUN lines: `mlopt-opt`, `mlopt`, `filecheck` and `%python` are those of this environment. `%mlir-opt` is the real
one, for tests that say `REQUIRES: mlir-opt`.
"""
# lit defines `config` and `lit_config` before it runs this file.
# ruff: noqa: F821

import os
import sys
import sysconfig
from pathlib import Path

import lit.formats

config.name = "mlopt"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = str(Path(__file__).parent.parent / "build" / "lit_tests")

scripts = sysconfig.get_path("scripts")
config.environment["PATH"] = os.pathsep.join([scripts, os.environ.get("PATH", "")])
config.environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
config.substitutions.append(("%python", sys.executable))

packages = Path(sysconfig.get_path("purelib"))
mlir_opt = packages / "mlir" / "bin" / "mlir-opt"
if mlir_opt.exists():
    config.available_features.add("mlir-opt")
    config.environment["LD_LIBRARY_PATH"] = str(packages / "llvm" / "lib")
    config.substitutions.append(("%mlir-opt", str(mlir_opt)))
elif os.environ.get("CI"):
    lit_config.fatal("mlir-opt is not installed, and CI checks against it: pip install 'mlopt[mlir]'")
else:
    lit_config.warning(
        "mlir-opt is not installed (pip install 'mlopt[mlir]'): tests that need it are skipped"
    )
