"""The table of operators, `docs/operators.md`, from the code: `python -m tests.docs.operators --write`.

operators            print the page
operators --write    write it

An operator's row comes from the registry of importers, its schema, and the import of a sample of it: what it becomes is
what the import makes, and its element types are those that can be imported. Samples are the cases of
`tests/frontend/test_operators.py`, else the node cases of the onnx package, else those below.
"""

from __future__ import annotations

import argparse
import importlib
import keyword
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mlopt.diagnostics import MloptError
from mlopt.frontend.onnx import find_unsupported, import_model
from mlopt.frontend.onnx.functions import definition, depends_on_types
from mlopt.frontend.onnx.registry import LATEST_OPSET, Form, Limit, operator_forms
from tests.frontend.onnx_models import context, model_of, value_info
from tests.frontend.test_operators import CASES, Case

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
COMMAND = "python -m tests.docs.operators --write"
MICROSOFT = "com.microsoft"

GROUPS: Mapping[str, Sequence[str]] = {
    "floats": ("bfloat16", "float16", "float32", "float64"),
    "integers": (*(f"int{n}" for n in (8, 16, 32, 64)), *(f"uint{n}" for n in (8, 16, 32, 64))),
    "bool": ("bool",),
    "small integers": ("int2", "int4", "uint2", "uint4"),
    "small floats": ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn"),
    "complex": ("complex64", "complex128"),
}
"""Element types that are named together where an operator has all of them that its schema has."""


@dataclass(frozen=True)
class Sample:
    """One node with the values of its inputs; constants are those that the import must know."""

    node: NodeProto
    inputs: Mapping[str, np.ndarray]
    constants: Mapping[str, np.ndarray]
    opset: int

    @property
    def domain(self) -> str:
        return "" if self.node.domain == "ai.onnx" else self.node.domain

    def imported(self) -> ModuleOp:
        """The sample at the graph level; an error if it can't be imported."""
        outputs = [name for name in self.node.output if name]
        infos = [value_info(*item) for item in self.inputs.items()]
        model = model_of(
            [self.node], infos, outputs, self.constants, opset=self.opset, domains={MICROSOFT: 1}
        )
        return import_model(model, context(), inputs=self.inputs)

    def of_type(self, names: Iterable[str], dtype: np.dtype[Any]) -> Sample:
        """With these inputs in another element type."""
        changed = set(names)

        def cast(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {n: a.astype(dtype) if n in changed else a for n, a in arrays.items()}

        with np.errstate(all="ignore"):
            return replace(self, inputs=cast(self.inputs), constants=cast(self.constants))


# Samples


def _of_case(case: Case) -> Sample:
    operands = [*case.inputs, *case.constants] if case.operands is None else case.operands
    names = [f"y{index}" for index in range(case.outputs)]
    node = helper.make_node(case.op_type, operands, names, "n", **case.attributes)
    return Sample(node, case.inputs, case.constants, case.opset)


def _of_node_cases(op_type: str) -> Sample | None:
    """The first node case of the onnx package for that operator which is one node of tensors."""
    module = f"{op_type}_".lower() if keyword.iskeyword(op_type.lower()) else op_type.lower()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module(f"onnx.backend.test.case.node.{module}")
        except ImportError:
            return None
        from onnx.backend.test.case.node import _NodeTestCases as cases
    for case in cases:
        graph = case.model.graph
        if len(graph.node) != 1 or graph.node[0].op_type != op_type or graph.node[0].domain:
            continue
        values = [
            numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in case.data_sets[0][0]
        ]
        if all(isinstance(value, np.ndarray | np.generic) for value in values):
            names = [value.name for value in graph.input]
            opset = max(entry.version for entry in case.model.opset_import if not entry.domain)
            arrays = {name: np.asarray(value) for name, value in zip(names, values, strict=True)}
            return Sample(graph.node[0], arrays, {}, opset)
    return None


def _microsoft(op_type: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Sample:
    arrays = {f"x{i}": np.asarray(array) for i, array in enumerate(inputs) if array is not None}
    operands = [f"x{i}" if array is not None else "" for i, array in enumerate(inputs)]
    names = [f"y{index}" for index in range(outputs)]
    return Sample(
        helper.make_node(op_type, operands, names, "n", domain=MICROSOFT, **attributes), arrays, {}, 17
    )


def _samples_of_microsoft() -> Iterator[Sample]:
    f, h = np.ones((2, 4, 8), np.float32), np.ones(8, np.float32)
    one, zero, u8 = np.float32(1), np.uint8(0), np.ones((2, 4, 8), np.uint8)
    side, image = (one, zero), np.ones((1, 2, 4, 4), np.float32)
    square, ids = np.ones((8, 8), np.float32), np.ones((2, 4), np.int32)
    bytes8 = np.ones((8, 8), np.uint8)
    for op_type in ("Gelu", "FastGelu", "QuickGelu"):
        yield _microsoft(op_type, f)
    yield _microsoft("BiasGelu", f, h)
    for op_type in ("FusedMatMul", "TransposeMatMul"):
        yield _microsoft(op_type, f, f, transB=1, alpha=0.5)
    yield _microsoft("FusedGemm", square, square, h, activation="Relu")
    yield _microsoft("FusedConv", image, np.ones((2, 2, 3, 3), np.float32), activation="Relu")
    yield _microsoft(
        "MatMulNBits",
        f,
        np.ones((8, 1, 8), np.uint8),
        np.ones((8, 1), np.float32),
        K=8,
        N=8,
        bits=4,
        block_size=16,
    )
    yield _microsoft(
        *("GatherBlockQuantized", np.ones((4, 8), np.uint8), ids[0], np.ones((4, 1), np.float32)),
        block_size=16,
    )
    yield _microsoft("SkipLayerNormalization", f, f, h, h)
    yield _microsoft("SkipSimplifiedLayerNormalization", f, f, h)
    yield _microsoft("EmbedLayerNormalization", ids, ids, square, square, square, h, h)
    yield _microsoft("Attention", f, np.ones((8, 24), np.float32), np.ones(24, np.float32), num_heads=2)
    yield _microsoft("MultiHeadAttention", f, f, f, num_heads=2)
    tables = (np.ones((9, 2), np.float32),) * 2
    yield _microsoft("RotaryEmbedding", f, np.zeros((2, 4), np.int64), *tables)
    yield _microsoft(
        *(
            "GroupQueryAttention",
            f,
            f,
            f,
            None,
            None,
            np.full(2, 3, np.int32),
            np.array(4, np.int32),
            *tables,
        ),
        num_heads=2,
        kv_num_heads=2,
        do_rotary=1,
    )
    yield _microsoft("QuantizeLinear", f, one, zero)
    yield _microsoft("DequantizeLinear", u8, one, zero)
    for op_type in ("QLinearAdd", "QLinearMul"):
        yield _microsoft(op_type, u8, *side, u8, *side, *side)
    for op_type in ("QLinearLeakyRelu", "QLinearSigmoid", "QLinearGlobalAveragePool"):
        yield _microsoft(op_type, u8, *side, *side)
    yield _microsoft("QLinearSoftmax", u8, *side, *side, opset=13)
    yield _microsoft("QLinearAveragePool", u8, *side, *side, kernel_shape=[2])
    yield _microsoft("QLinearConcat", *side, u8, *side, u8, *side, axis=1)
    yield _microsoft("QLinearWhere", u8 > 0, u8, *side, u8, *side, *side)
    yield _microsoft("QLinearConv", u8, *side, np.ones((2, 4, 3), np.uint8), *side, *side)
    yield _microsoft("QGemm", bytes8, *side, bytes8, *side, None, *side)
    yield _microsoft("MatMulIntegerToFloat", u8, bytes8, one, one, zero, zero)
    yield _microsoft("DynamicQuantizeMatMul", f, bytes8, one, zero)
    yield _microsoft(
        "QAttention",
        u8,
        np.ones((8, 24), np.uint8),
        np.ones(24, np.float32),
        one,
        one,
        None,
        zero,
        zero,
        num_heads=2,
    )
    scale, weights = np.ones(1, np.float32), np.zeros((1, 8, 16), np.int8)
    zeros = np.zeros(1, np.int8)
    yield _microsoft(
        *(
            "DynamicQuantizeLSTM",
            f,
            weights,
            np.zeros((1, 4, 16), np.int8),
            *[None] * 5,
            scale,
            zeros,
            scale,
            zeros,
        ),
        hidden_size=4,
    )


@cache
def samples() -> Mapping[tuple[str, str], Sample]:
    """One for each (domain, operator), of its cases the first with the newest form."""
    found = {(MICROSOFT, sample.node.op_type): sample for sample in _samples_of_microsoft()}
    for case in sorted(CASES, key=lambda case: -case.opset):
        found.setdefault(("", case.op_type), _of_case(case))
    return found


def sample_of(domain: str, op_type: str) -> Sample | None:
    """A sample at the newest version that it is valid for."""
    sample = samples().get((domain, op_type)) or (None if domain else _of_node_cases(op_type))
    if sample is None or domain:
        return sample
    newest = replace(sample, opset=LATEST_OPSET)
    return newest if _importable(newest) else sample


def _importable(sample: Sample) -> bool:
    try:
        sample.imported()
    except MloptError:
        return False
    return True


# Columns


def element_types(sample: Sample) -> str:
    """Those that can be imported, of those that the schema has for the operand that has the most."""
    given = [name for name in sample.node.input if name]
    schema = _schema(sample)
    if not given or schema is None:
        return ""
    formal = list(schema.inputs)
    allowed = {
        name: {_numpy_name(text) for text in formal[min(position, len(formal) - 1)].types}
        for position, name in enumerate(sample.node.input)
        if name
    }
    arrays = {**sample.inputs, **sample.constants}
    main = max(given, key=lambda name: len(allowed[name]))
    same = [name for name in given if arrays[name].dtype == arrays[main].dtype]
    parts: list[str] = []
    for group, members in GROUPS.items():
        in_schema = [name for name in members if name in allowed[main]]
        possible = [
            name
            for name in in_schema
            if _importable(
                sample.of_type([n for n in same if name in allowed[n]], np.dtype(_numpy_type(name)))
            )
        ]
        parts += [group] if len(possible) > 1 and possible == in_schema else possible
    return ", ".join(parts)


def _schema(sample: Sample) -> Any:
    """The operator's schema; onnxruntime has those that are not of the standard."""
    op_type = sample.node.op_type
    if not sample.domain and onnx.defs.has(op_type):
        return onnx.defs.get_schema(op_type, sample.opset, sample.domain)
    return next(
        (s for s in _schemas_of_onnxruntime() if s.name == op_type and s.domain == sample.domain), None
    )


@cache
def _schemas_of_onnxruntime() -> Sequence[Any]:
    return get_all_operator_schema()


def _numpy_type(name: str) -> Any:
    return getattr(ml_dtypes, name, None) or name


def _numpy_name(text: str) -> str:
    """`tensor(float)` as the name of numpy's type; no name for what is no tensor."""
    name = text.removeprefix("tensor(").removesuffix(")")
    special = {
        "float": "float32",
        "double": "float64",
        "float8e4m3fn": "float8_e4m3fn",
        "float8e4m3fnuz": "float8_e4m3fnuz",
        "float8e5m2": "float8_e5m2",
        "float8e5m2fnuz": "float8_e5m2fnuz",
        "float4e2m1": "float4_e2m1fn",
    }
    return special.get(name, name)


MOST_NAMED = 7


def becomes(sample: Sample) -> str:
    """The operations that the import makes of the sample, in their order, without constants."""
    (function,) = sample.imported().body.block.ops
    assert isinstance(function, FuncOp)
    skipped = ("graph.constant", "func.return", "scf.yield")
    names = [op.name for op in function.body.walk() if op.name not in skipped]
    distinct = list(dict.fromkeys(names))
    shown = ", ".join(f"`{name}`" for name in distinct[:MOST_NAMED])
    return (
        shown + (f" and {len(distinct) - MOST_NAMED} more" if len(distinct) > MOST_NAMED else "") or "nothing"
    )


def refused(op_type: str, domain: str, forms: Sequence[Form]) -> str:
    """What its limits refuse, and outputs that it has not; nothing if the standard's definition has them."""
    newest = forms[-1]
    in_standard = not domain and onnx.defs.has(op_type)
    if in_standard and _first_defined(op_type) is not None:
        return ""
    reasons = [reason for form in forms if form.limit is not None for reason in _reasons(form.limit)]
    if in_standard and newest.outputs is not None:
        schema = onnx.defs.get_schema(op_type, LATEST_OPSET, domain)
        reasons += [f"with the output {output.name}" for output in list(schema.outputs)[newest.outputs :]]
    return "; ".join(dict.fromkeys(reasons))


def _reasons(limit: Limit) -> list[str]:
    """What a limit's docstring says after "With", else the reasons in its code."""
    text = (limit.__doc__ or "").split("\n")[0].rstrip(".")
    if text.startswith("With "):
        return ["w" + text[1:]]
    code = getattr(limit, "__code__", None)
    constants = code.co_consts if code is not None else ()
    found = [c for c in constants if isinstance(c, str) and c.startswith(("with ", "to ")) and len(c) > 5]
    return [c if c[-1].isalnum() else c.rstrip(' ="') + " …" for c in found] or ([text] if text else [])


# The page


def page() -> str:
    """The text of `docs/operators.md`."""
    forms = list(operator_forms())
    standard = [(op_type, own) for domain, op_type, own in forms if domain == ""]
    microsoft = [(op_type, own) for domain, op_type, own in forms if domain == MICROSOFT]
    defined, unknown = _others({op_type for op_type, _ in standard})
    return "\n".join(
        (
            "# Operators",
            "",
            f"Made from the code by `{COMMAND}`; a test says when that is due. An operator that is not",
            "here, or a part of one that is refused, is named in one error before anything is imported.",
            "",
            f"*Since*: the first operator set version whose form is known; all later ones up to {LATEST_OPSET} are.",
            "*Element types*: of the main operand; a group's name stands for all of it that the standard has there.",
            "*Becomes*: the operations that one example of the operator is at the graph level, constants aside.",
            "*Refused*: what a node can ask for by its attributes, inputs and outputs that is not done. What only",
            "types and shapes tell, as an If whose branches give tensors of different shapes, is refused at that node.",
            "",
            "## The standard domain",
            "",
            *_table("", standard),
            "",
            "## Operators that are imported by their definition in the standard",
            "",
            "They need no importer: the standard defines each as a function of those above, for the versions given.",
            "",
            ", ".join(f"{op_type} ({since}+)" for op_type, since in defined) + ".",
            "",
            "## com.microsoft",
            "",
            "What onnxruntime's optimisers and quantisers put into models.",
            "",
            *_table(MICROSOFT, microsoft),
            "",
            "## Not imported",
            "",
            "Of the standard domain, by their names: " + ", ".join(unknown) + ".",
            "",
        )
    )


def _table(domain: str, operators: Sequence[tuple[str, Sequence[Form]]]) -> Iterator[str]:
    yield "| operator | since | element types | becomes | refused |"
    yield "|---|---|---|---|---|"
    for op_type, forms in operators:
        sample = sample_of(domain, op_type)
        types, result = ("", "") if sample is None else (element_types(sample), becomes(sample))
        cells = (op_type, str(forms[0].since), types, result, refused(op_type, domain, forms))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _others(known: set[str]) -> tuple[list[tuple[str, int]], list[str]]:
    """Operators of the standard without an importer: those with a definition and its version, and the others."""
    names = sorted(
        {s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated} - known
    )
    versions = {name: _first_defined(name) for name in names}
    defined = [(name, version) for name, version in versions.items() if version is not None]
    return defined, [name for name, version in versions.items() if version is None]


def _first_defined(op_type: str) -> int | None:
    """The first operator set version that has a definition of the operator on tensors by others that are known."""
    schemas = (s for s in onnx.defs.get_all_schemas_with_history() if s.domain == "" and s.name == op_type)
    for schema in sorted(schemas, key=lambda schema: schema.since_version):
        version = schema.since_version
        types = next((operand.types for operand in schema.inputs), {"tensor"})
        node = helper.make_node(op_type, [f"x{i}" for i in range(schema.min_input)], ["y"])
        is_defined = depends_on_types(node, "", version) or definition(node, "", version, []) is not None
        of_tensors = any(text.startswith("tensor") for text in types)
        if is_defined and of_tensors and not find_unsupported(model_of([node], [], ["y"], opset=version)):
            return version
    return None


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.docs.operators", description="the table of operators"
    )
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    text = page()
    if parser.parse_args().write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
