"""Running the kernel-level passes on text and checking what they did: kernels, remarks, numbers, memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from mlopt.dialects.kernel import DestinationStyle, LaunchOp, StructuredOp
from mlopt.interpreter import kernel
from mlopt.ir import CompilerContext, make_context, parse_module, print_module, verify_module
from mlopt.passes.registry import load_pass
from mlopt.weights import WeightStore

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
        return [message for message in self.remarks if message.startswith("not ")]

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
    text: str, inputs: Mapping[str, Array], *, convert: bool = True, passes: Sequence[str] = BOTH
) -> dict[str, Array]:
    """Assert that passes keep every bit of the results, also when what is overwritten is overwritten indeed."""
    want = evaluate(run_passes(text, convert=convert).module, inputs)
    for count in range(1, len(passes) + 1):
        module = run_passes(text, *passes[:count], convert=convert).module
        for got in (evaluate(module, inputs), evaluate_in_place(module, inputs)):
            assert got.keys() == want.keys()
            for name, value in want.items():
                np.testing.assert_array_equal(got[name], value, err_msg=f"{name} after {passes[count - 1]}")
    return want


def evaluate(module: ModuleOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The results by SSA semantics: nothing is overwritten. `inputs` are named by the arguments' SSA names."""
    given = {f"arg{i}": inputs[arg.name_hint or ""] for i, arg in enumerate(_main(module).body.block.args)}
    return kernel.evaluate_module(module, given, WeightStore())


def _main(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp))


def evaluate_in_place(module: ModuleOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The results if every destination is overwritten, without any copy that makes this safe.

    Only what a loop starts from is copied, as a loop owns what it carries. Asserts that no op reads memory that it
    overwrites, except as its destination, and that inputs and constants are not written to.
    """
    main = _main(module)
    given = {name: array.copy() for name, array in inputs.items()}
    for array in given.values():
        array.flags.writeable = False
    arguments = [given[arg.name_hint or ""] for arg in main.body.block.args]
    values = dict(zip(main.body.block.args, arguments, strict=True))
    results = _DestructiveEvaluator(WeightStore(), {}).evaluate_block(main.body.block, values)
    return {f"result{i}": result for i, result in enumerate(results)}


class _DestructiveEvaluator(kernel._Evaluator):  # pyright: ignore[reportPrivateUsage] (the same semantics, in place)
    """The reference interpreter with results in the memory of their destinations."""

    def _evaluate(self, op: Operation, values: dict[SSAValue, Array]) -> Sequence[Array]:
        results = super()._evaluate(op, values)
        if not isinstance(op, DestinationStyle):
            return results
        targets = [values[out] for out in op.outs]
        if isinstance(op, LaunchOp):
            for result, target in zip(results, targets, strict=True):
                assert result is target or not np.shares_memory(result, target)
        for target in targets:
            for operand in _read_by(op):
                assert not np.shares_memory(values[operand], target), f"{op} reads what it overwrites"
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
