"""Donated inputs that are a part of an output's memory: what is placed and why not, and that no number changes.

The oracles are the compilation without donation, bit by bit, and the memref level executed one scalar at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.engine import attach_engine
from mlopt.interpreter.kernel import evaluate_module as evaluate_kernel
from mlopt.interpreter.memref import Executable
from mlopt.ir import make_context, verify_module
from mlopt.ir.donations import donate
from mlopt.ir.functions import find_main
from mlopt.passes.pipelines import PipelineOptions, conversion, phase_passes
from mlopt.passmanager import PassManager, parse_pipeline
from mlopt.weights import WeightStore
from tests.memref_reference import run_memref
from tests.passes.kernel.test_copies import Net, compiled, count_copies, shape

Array = np.ndarray


def lowered(module: ModuleOp, donations: Sequence[str], until: str = "memref") -> tuple[ModuleOp, list[str]]:
    """The module with donations at the end of a level, and the remarks on them."""
    main = find_main(module)
    assert main is not None
    donate(main, donations)
    context = make_context()
    attach_engine(context)
    passes: list[str] = []
    for level in ("graph", "kernel", "memref"):
        passes += phase_passes(level, PipelineOptions())
        step = conversion(level)
        if level == until or step is None:
            break
        passes.append(step)
    PassManager(context, parse_pipeline(f"builtin.module({','.join(passes)})")).run(module)
    verify_module(module)
    names = ("place-donated", "place-outputs", "reuse-in-place")
    return module, [remark.message for remark in context.remarks if remark.pass_name in names]


def inputs_of(net: Net, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {f"arg{i}": rng.normal(size=shape(arg)).astype(np.float32) for i, arg in enumerate(net.block.args)}


def run_in_place(module: ModuleOp, inputs: dict[str, Array]) -> tuple[dict[str, Array], int]:
    """The outputs of a poisoned run in which every donated input lies where it belongs; how many bytes were copied.

    The memory of a whole ends where the output does, and what is not of the output stays as it is.
    """
    executable = Executable(module, WeightStore(), poison=True)
    given, out = dict(inputs), dict[str, Array]()
    around: list[tuple[Array, Array]] = []
    for buffer in executable.shared:
        assert buffer.input is not None
        if buffer.output is None:
            given[buffer.input] = inputs[buffer.input].copy()
            continue
        sizes = list(buffer.shape)
        memory = np.full(int(np.prod(sizes)), 7, np.float32)
        whole = memory.reshape(sizes)
        out[buffer.output] = whole if buffer.output_part is None else buffer.output_part.of(whole)
        place = whole if buffer.input_part is None else buffer.input_part.of(whole)
        place[...] = inputs[buffer.input]
        given[buffer.input] = place
        if buffer.output_part is not None:
            part = buffer.output_part
            rest = part._replace(offset=part.size, size=sizes[part.axis] - part.size).of(whole)
            around.append((rest, rest.copy()))
    results = executable.run(given, out)
    for rest, before in around:
        np.testing.assert_array_equal(rest, before)
    for name, array in out.items():
        assert results[name] is array
    return results, executable.copied_bytes


Build = Callable[[Net], Sequence[SSAValue]]


def two(n: Net) -> tuple[SSAValue, SSAValue]:
    """A past of (2, 3, 4, 8), and what is new, of (2, 3, 1, 8)."""
    return n.input(2, 3, 4, 8), n.exp(n.input(2, 3, 1, 8))


def appended(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    return [n.concat(past, new, axis=2)]


def put_before(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    return [n.concat(new, past, axis=2)]


def between(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    return [n.concat(new, past, n.tanh(new), axis=2)]


def from_an_input(n: Net) -> Sequence[SSAValue]:
    return [n.concat(n.input(3, 8), n.input(2, 8), axis=0)]


def of_columns(n: Net) -> Sequence[SSAValue]:
    return [n.concat(n.input(3, 8), n.matmul(rows=3, columns=2), axis=1)]


def read_by_attention(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    keys = n.concat(past, new, axis=2)
    scores = n.softmax(n.add(graph.MatMulOp(n.input(2, 3, 1, 8), n.transpose(keys, 0, 1, 3, 2))))
    return [keys, n.add(graph.MatMulOp(scores, keys))]


def past_is_read_too(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    return [n.concat(past, new, axis=2), n.tanh(past)]


def new_is_read_too(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    return [n.concat(past, new, axis=2), n.add(graph.MulOp(new, new))]


def new_comes_from_the_past(n: Net) -> Sequence[SSAValue]:
    past = n.input(4, 8)
    return [n.concat(past, n.softmax(n.add(graph.MatMulOp(past, n.input(8, 8)))), axis=0)]


def past_twice(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    return [n.concat(past, new, past, axis=2)]


def past_returned_too(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    return [n.concat(past, new, axis=2), past]


def returned_twice(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    whole = n.concat(past, new, axis=2)
    return [whole, whole]


def a_part_of_the_past(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    return [n.concat(n.slice(past, [0, 0, 1, 0], [2, 3, 4, 8]), new, axis=2), n.concat(new, new, axis=2)]


def reshaped(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    return [n.concat(n.reshape(past, 6, 4, 8), n.reshape(new, 6, 1, 8), axis=1)]


def computed_on(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    return [n.tanh(n.concat(past, new, axis=2))]


def read_as_another_shape(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    whole = n.concat(past, new, axis=2)
    return [whole, n.softmax(n.reshape(whole, 2, 120))]


def in_another_concatenation(n: Net) -> Sequence[SSAValue]:
    past, new = two(n)
    inner = n.concat(past, new, axis=2)
    return [n.concat(inner, n.tanh(n.input(2, 3, 2, 8)), axis=2), n.exp(inner)]


PLACED: dict[Build, tuple[int, int]] = {
    appended: (0, 4),
    put_before: (1, 4),
    between: (1, 4),
    from_an_input: (0, 3),
    of_columns: (0, 8),
    read_by_attention: (0, 4),
    past_is_read_too: (0, 4),
    new_is_read_too: (0, 4),
    new_comes_from_the_past: (0, 4),
    past_twice: (0, 4),
    in_another_concatenation: (0, 4),
}
"""What is placed: offset and size of the input in the output."""

MISSED: dict[Build, str] = {
    past_returned_too: "it is also a function result, not with index maps",
    a_part_of_the_past: "the input is still used by 'concat' when that is written",
    reshaped: "no output that it is donated to has its type and size",
    computed_on: "it is not moved there as it is, along one axis",
}
"""What is not, and what the remark says of it; other cases are right, however they come out."""


@pytest.mark.parametrize("capacity", [None, 0, 5], ids=["tight", "full", "longer"])
@pytest.mark.parametrize(
    "build", [*PLACED, *MISSED, returned_twice, read_as_another_shape], ids=lambda build: build.__name__
)
def test_outputs_are_those_without_donation(build: Build, capacity: int | None) -> None:
    net = Net()
    outputs = build(net)
    module = net.module(outputs)
    given, result = shape(net.block.args[0]), shape(outputs[0])
    longer = [long for short, long in zip(given, result, strict=False) if long > short]
    donation = "arg0=result0" if len(given) == len(result) else "arg0"
    if capacity is not None and "=" in donation and longer:
        donation += f"@{longer[0] + capacity}"
    inputs = inputs_of(net)
    want = Executable(compiled(module.clone()), WeightStore()).run(inputs)

    kernels, _ = lowered(module.clone(), [donation], "kernel")
    for name, value in evaluate_kernel(kernels, inputs, WeightStore()).items():
        np.testing.assert_allclose(value, want[name], rtol=1e-6, atol=1e-6, err_msg=name)

    planned, remarks = lowered(module.clone(), [donation])
    got, copied = run_in_place(planned, inputs)
    assert list(got) == list(want)
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)
    for name, value in run_memref(planned, inputs, backwards=True).items():
        np.testing.assert_allclose(value, want[name], rtol=1e-5, atol=1e-6, err_msg=name)

    (buffer,) = Executable(planned, WeightStore()).shared
    if build in PLACED:
        assert buffer.output == "result0" and buffer.input_part is not None
        assert buffer.input_part[1:] == PLACED[build]
        assert copied == 0
        assert count_copies(planned) < count_copies(compiled(module.clone()))
    if build in MISSED:
        assert buffer.output is None
        assert any(MISSED[build] in remark for remark in remarks), remarks


def test_a_capacity_needs_readers_with_index_maps() -> None:
    """A product in another shape reads the whole output as one row; there is none in memory that is longer."""
    net = Net()
    module = net.module(read_as_another_shape(net))
    planned, remarks = lowered(module, ["arg0=result0@9"])
    (buffer,) = Executable(planned, WeightStore()).shared
    assert buffer.output is None
    assert any("the output is also used by 'kernel.reshape', not with index maps" in r for r in remarks), (
        remarks
    )


def test_two_inputs_in_one_output() -> None:
    """Memory belongs to one: the other is copied into it."""
    net = Net()
    module = net.module([net.concat(net.input(3, 8), net.input(2, 8), axis=0)])
    inputs = inputs_of(net)
    planned, remarks = lowered(module, ["arg0", "arg1"])
    first, second = Executable(planned, WeightStore()).shared
    assert (first.output, second.output) == ("result0", None)
    assert any("the whole is no new tensor" in remark for remark in remarks)
    results, copied = run_in_place(planned, inputs)
    np.testing.assert_array_equal(results["result0"], np.concatenate([inputs["arg0"], inputs["arg1"]]))
    assert copied == 0


def random_decoder(rng: np.random.Generator) -> tuple[Net, list[SSAValue], list[str]]:
    """Caches that are appended to along random axes and read in random ways, and their donations."""
    n = Net()
    outputs: list[SSAValue] = []
    donations: list[str] = []
    for _ in range(int(rng.integers(1, 4))):
        sizes = [int(size) for size in rng.integers(1, 4, int(rng.integers(2, 5)))]
        axis = int(rng.integers(len(sizes)))
        more = [*sizes[:axis], int(rng.integers(1, 3)), *sizes[axis + 1 :]]
        number = len(n.block.args)
        past, new = n.input(*sizes), n.input(*more)
        if rng.random() < 0.7:
            new = [n.exp, n.softmax, n.tanh][int(rng.integers(3))](new)
        if rng.random() < 0.2:
            outputs.append(n.tanh(past))
        parts = [past, new] if rng.random() < 0.7 else [new, past, new]
        whole = n.concat(*parts, axis=axis)
        result = len(outputs)
        outputs.append(whole)
        for _ in range(int(rng.integers(0, 3))):
            match int(rng.integers(4)):
                case 0:
                    outputs.append(n.softmax(whole))
                case 1:
                    outputs.append(n.transpose(whole, *rng.permutation(len(sizes)).tolist()))
                case 2:
                    outputs.append(n.exp(n.reshape(whole, int(np.prod(shape(whole))))))
                case _:
                    outputs.append(n.add(graph.MulOp(whole, whole)))
        text = f"arg{number}=result{result}" if rng.random() < 0.8 else f"arg{number}"
        if "=" in text and rng.random() < 0.5:
            text += f"@{shape(whole)[axis] + int(rng.integers(0, 4))}"
        donations.append(text)
    return n, outputs, donations


@pytest.mark.parametrize("seed", range(24))
def test_random_caches_have_the_same_bits_with_and_without_donation(seed: int) -> None:
    net, outputs, donations = random_decoder(np.random.default_rng(seed))
    module = net.module(outputs)
    inputs = inputs_of(net, seed)
    want = Executable(compiled(module.clone()), WeightStore()).run(inputs)
    planned, _ = lowered(module.clone(), donations)
    got, copied = run_in_place(planned, inputs)
    assert copied == 0
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, err_msg=f"{name}, donated {donations}")
    for name, value in run_memref(planned, inputs).items():
        np.testing.assert_allclose(value, want[name], rtol=1e-5, atol=1e-6, err_msg=name)
