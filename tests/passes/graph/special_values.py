"""Functions of two operands on every pair of the values that go wrong first, before and after a pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from mlopt.dialects import graph
from mlopt.interpreter.graph import evaluate, evaluate_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passmanager.base import Pass, run_pass

FLOATS = [0.0, -0.0, 1.0, -1.5, 3.0, np.inf, -np.inf, np.nan, 1e-30, -6e-8, 6.5e4, 2e-45, 3.3e38]
INTEGERS = [0, 1, -1, 2, 3, -7, 100, 127, -128, 2**31 - 1, -(2**31)]
DTYPES = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i32": np.int32,
    "ui8": np.uint8,
}


class Case:
    """A function of %a and %b that returns %y, on every pair of special values of an element type.

    In its text T stands for the type of %a and %b, S for a single element of it, B1 and S1 for those of bools.
    """

    def __init__(self, lines: Sequence[str], element: str):
        body = "\n".join(lines)
        result = "B1" if body.endswith("B1") else "T"
        self.dtype = DTYPES.get(element, np.bool_)
        values = self._values(element)
        a, b = (side.reshape(-1) for side in np.meshgrid(values, values))
        self.inputs = {"arg0": a, "arg1": b}
        shape = f"{a.size}x"
        if element.startswith("f"):
            body = re.sub(r"dense<(-?\d+)>", r"dense<\1.0>", body)
        text = f"func.func @main(%a: T, %b: T) -> {result} {{\n{body}\nfunc.return %y : {result}\n}}"
        text = text.replace("B1", f"tensor<{shape}i1>").replace("S1", "tensor<i1>")
        text = text.replace("T", f"tensor<{shape}{element}>").replace("S", f"tensor<{element}>")
        self.ctx: CompilerContext = make_context()
        self.ctx.evaluator = partial(evaluate, weights=self.ctx.weights)
        self.module: ModuleOp = parse_module(text, self.ctx)
        verify_module(self.module)
        self.before = self.run()

    def _values(self, element: str) -> np.ndarray:
        if element == "i1":
            return np.array([False, True])
        with np.errstate(over="ignore"):
            values = FLOATS if element.startswith("f") else INTEGERS
            return np.array(values).astype(self.dtype)

    def run(self) -> np.ndarray:
        (result,) = evaluate_module(self.module, self.inputs, self.ctx.weights).values()
        return result

    def apply(self, pass_: Pass) -> list[str]:
        """Run a pass, and once more without effect; the operations that are left, without constants."""
        run_pass(pass_, self.ctx, self.module)
        verify_module(self.module)
        assert not run_pass(pass_, self.ctx, self.module)[0]
        kinds = [op.name for op in self.module.walk() if isinstance(op, graph.GraphOp)]
        return [kind.removeprefix("graph.") for kind in kinds if kind != "graph.constant"]

    def is_same(self) -> bool:
        """Are the bits of the result what they were, but for the bits of NaN?"""
        after = self.run()
        if after.dtype != self.before.dtype or after.shape != self.before.shape:
            return False
        numbers = self.before == self.before
        return after[numbers].tobytes() == self.before[numbers].tobytes() and bool(
            np.all((after == after) == numbers)
        )


def c(name: str, number: float | str, of: str = "S") -> str:
    text = f"{number:.17e}" if isinstance(number, float) else number
    return f"%{name} = graph.constant dense<{text}> : {of}"


def binary(name: str, kind: str, lhs: str, rhs: str, types: str = "T, T", result: str = "T") -> str:
    return f"%{name} = graph.{kind} %{lhs}, %{rhs} : ({types}) -> {result}"


def unary(name: str, kind: str, operand: str, of: str = "T") -> str:
    return f"%{name} = graph.{kind} %{operand} : {of}"


ANY = ("f16", "f32", "f64", "i8", "i32")
FLOAT = ("f16", "f32", "f64")
INTEGER = ("i8", "i32", "ui8")
ALL = (*ANY, "ui8")
TS = "T, S"
