"""Running the kernel-level passes on text and checking what they did: kernels, remarks, numbers, memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from mlopt.dialects.kernel import NO_PAD, DestinationStyle, LaunchOp, StructuredOp, tensor_type
from mlopt.interpreter.kernel import _Evaluator  # pyright: ignore[reportPrivateUsage] (see below)
from mlopt.ir import CompilerContext, make_context, parse_module, print_module, verify_module
from mlopt.passes.registry import load_pass

Array = np.ndarray


@dataclass
class Result:
    """A module after some passes, with the context that they reported to."""

    module: ModuleOp
    context: CompilerContext
    changed: list[bool] = field(default_factory=list[bool])

    @property
    def kernels(self) -> list[str]:
        """The names of the launches in order, those in loops and branches too."""
        return [launch.kernel_name.data for launch in self.launches]

    @property
    def launches(self) -> list[LaunchOp]:
        return [op for op in self.module.walk() if isinstance(op, LaunchOp)]

    @property
    def remarks(self) -> list[str]:
        return [remark.message for remark in self.context.remarks]

    def missed(self) -> list[str]:
        """The remarks on what was not done."""
        return [remark.message for remark in self.context.remarks if remark.kind == "missed"]

    def count(self, statistic: str) -> int:
        return sum(n for (_, name), n in self.context.statistics.items() if name == statistic)

    @property
    def text(self) -> str:
        return print_module(self.module)


def run_passes(text: str, *passes: str, convert: bool = True, **options: object) -> Result:
    """Parse `text`, convert it from the graph level if asked, and run passes (with options), verifying after each."""
    context = make_context()
    module = parse_module(text, context, "t.mlir")
    verify_module(module)
    result = Result(module, context)
    if convert:
        load_pass("convert-graph-to-kernel")().run(context, module)
    for name in passes:
        result.changed.append(load_pass(name)(**options).run(context, module))
        verify_module(module)
    return result


FUSE = ("fuse-kernels",)
BOTH = ("fuse-kernels", "reuse-in-place")


def check_numbers(
    text: str,
    inputs: Mapping[str, Array],
    *,
    convert: bool = True,
    passes: Sequence[str] = BOTH,
    in_place: bool = True,
) -> dict[str, Array]:
    """`check_module` of `text`, whose inputs are named by the SSA names of the arguments of `@main`."""
    result = run_passes(text, convert=convert)
    given = [inputs[argument.name_hint or ""] for argument in _main(result.module).body.block.args]
    return check_module(result.module, given, result.context, passes=passes, in_place=in_place)


def check_module(
    module: ModuleOp,
    inputs: Sequence[Array],
    context: CompilerContext,
    *,
    passes: Sequence[str] = BOTH,
    rtol: float = 0,
    in_place: bool = True,
) -> dict[str, Array]:
    """Assert that passes keep every bit of the results, also when what is overwritten is overwritten indeed.

    `module` is at the kernel level, and rewritten; its results are named by position. Returns them. `rtol` (of the
    largest result) is for sums, which numpy adds up in an order that depends on how operands lie in memory. Without
    `in_place` nothing is overwritten: for a module that bufferization must copy in.
    """
    want = evaluate(module, inputs, context)
    for name in passes:
        load_pass(name)().run(context, module)
        verify_module(module)
        evaluations = (evaluate, evaluate_in_place) if in_place else (evaluate,)
        for got in [evaluation(module, inputs, context) for evaluation in evaluations]:
            for position, value in enumerate(want):
                _assert_same(got[position], value, rtol, f"result {position} after {name}")
    return {f"result{i}": value for i, value in enumerate(want)}


def _assert_same(got: Array, want: Array, rtol: float, message: str) -> None:
    if rtol and want.dtype.kind == "f":
        largest = np.max(np.abs(want), where=np.isfinite(want), initial=0)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * largest, err_msg=message)
        return
    np.testing.assert_array_equal(got, want, err_msg=message)
    if want.dtype.kind == "f":
        assert np.all((np.signbit(got) == np.signbit(want)) | np.isnan(want)), f"sign of a zero in {message}"


def evaluate(module: ModuleOp, inputs: Sequence[Array], context: CompilerContext) -> list[Array]:
    """The results by SSA semantics: nothing is overwritten."""
    block = _main(module).body.block
    with np.errstate(all="ignore"):
        return _Evaluator(context.weights).evaluate_block(block, dict(zip(block.args, inputs, strict=True)))


def evaluate_in_place(module: ModuleOp, inputs: Sequence[Array], context: CompilerContext) -> list[Array]:
    """The results if every destination is overwritten, without any copy that makes this safe.

    Only what a loop starts from is copied, as a loop owns what it carries. Asserts that no op reads memory that it
    overwrites, except as its destination, and that inputs and constants are not written to.
    """
    given = [array.copy() for array in inputs]
    for array in given:
        array.flags.writeable = False
    block = _main(module).body.block
    values = dict(zip(block.args, given, strict=True))
    with np.errstate(all="ignore"):
        return _DestructiveEvaluator(context.weights).evaluate_block(block, values)


def _main(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp))


class _DestructiveEvaluator(_Evaluator):
    """The reference interpreter with results in the memory of their destinations."""

    def evaluate(self, op: Operation, values: dict[SSAValue, Array]) -> Sequence[Array]:
        results = super().evaluate(op, values)
        if not isinstance(op, DestinationStyle):
            return results
        targets = [values[out] for out in op.outs]
        if isinstance(op, LaunchOp):
            for result, target in zip(results, targets, strict=True):
                assert result is target or not np.shares_memory(result, target)
        for position, target in enumerate(targets):
            for operand in _read_by(op):
                shared = np.shares_memory(values[operand], target)
                assert not shared or _reads_elsewhere(op, operand, position), f"{op} reads what it overwrites"
        for result, target in zip(results, targets, strict=True):
            if result is not target:
                assert target.flags.writeable, f"{op} overwrites an input or a constant"
                target[...] = result
        return targets

    def _for(self, op: scf.ForOp, values: dict[SSAValue, Array]) -> Sequence[Array]:
        values.update({value: values[value].copy() for value in op.iter_args})
        return super()._for(op, values)

    def _while(self, op: scf.WhileOp, values: dict[SSAValue, Array]) -> Sequence[Array]:
        values.update({value: values[value].copy() for value in op.arguments})
        return super()._while(op, values)


def _reads_elsewhere(op: Operation, operand: SSAValue, position: int) -> bool:
    """Whether a structured op reads of its destination itself only elements that it does not write."""
    if not isinstance(op, StructuredOp) or operand is not op.outs[position]:
        return False
    reads = [i for i, value in enumerate(op.ins) if value is operand]
    if not reads or any(op.pads.data[i] != NO_PAD for i in reads):
        return False
    written = _elements(op, len(op.ins) + position)
    return not any((_elements(op, i) & written).any() for i in reads)


def _elements(op: StructuredOp, index: int) -> Array:
    """Which elements of an operand the points of an op touch."""
    touched = np.zeros(tensor_type(op.operands[index]).get_shape(), bool)
    point = np.indices(op.extents)
    rows = op.accesses[index].rows
    touched[
        tuple(sum((c * point[d] for d, c in enumerate(row.coefficients)), row.constant) for row in rows)
    ] = True
    return touched


def _read_by(op: Operation) -> list[SSAValue]:
    """The tensors that a structured op reads: its ins, and what its body captures."""
    if not isinstance(op, StructuredOp):
        return []
    captured: list[SSAValue] = []
    for nested in op.walk():
        for operand in nested.operands if nested is not op else ():
            owner = operand.owner
            block = owner if isinstance(owner, Block) else owner.parent
            if block is not None and not op.is_ancestor(block) and operand not in op.operands:
                captured.append(operand)
    return [value for value in (*op.ins, *captured) if "tensor" in str(value.type)]
