"""Plans with a fault planted: the verifier finds every one, and refuses none that is sound.

What is sound is told by an oracle that reads the printed IR line by line, as far as straight-line code goes: a buffer
lives from the first line that names it or a view of it to the last, and two that live in one line must share no byte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import helper
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter

from mlopt.compilation import compile_model, load_model
from mlopt.diagnostics import VerifyFailure
from mlopt.ir import make_context, parse_module, print_module
from mlopt.options import CompileOptions
from mlopt.passes.memref.verify_plan import verify_plan
from mlopt.passes.pipelines import PipelineOptions
from tests.frontend.onnx_models import model_of, value_info

B = "memref<4x4xf32>"
VIEW = re.compile(
    r"(%\w+) = memref\.view %arena\[%c(\d+)\]\[\](?: \{mlopt\.workspace\})? : "
    r"memref<(\d+)xi8> to memref<((?:\d+x)*)(\w+)>"
)
BYTES = {"f32": 4, "i64": 8, "i8": 1, "i1": 1}


@dataclass
class Placed:
    """A buffer as the printed IR has it: lines of its first and last access, bytes."""

    offset: int
    size: int
    first: int = -1
    last: int = -1


def oracle(text: str) -> bool:
    """Whether the plan of straight-line IR is sound, from its text alone."""
    main = text[text.index("func.func @main") :]
    main = main[: main.index("func.return")]
    buffers: dict[str, Placed] = {}
    root: dict[str, str] = {}
    arena = 0
    for number, line in enumerate(main.splitlines()):
        if (view := VIEW.search(line)) is not None:
            name, offset, total, shape, dtype = view.groups()
            elements = np.prod([int(extent) for extent in shape.split("x") if extent], dtype=np.int64)
            buffers[name] = Placed(int(offset), int(elements) * BYTES[dtype])
            root[name], arena = name, int(total)
            continue
        used = [root[name] for name in re.findall(r"%\w+", line) if name in root]
        if (made := re.match(r"\s*(%\w+) = memref\.", line)) is not None and used:
            root[made[1]] = used[0]  # a view of a view: no access
            continue
        for name in used:
            if buffers[name].first < 0:
                buffers[name].first = number
            buffers[name].last = number
    live = [buffer for buffer in buffers.values() if buffer.first >= 0]
    inside = all(buffer.offset % 64 == 0 and buffer.offset + buffer.size <= arena for buffer in live)
    return inside and not any(
        a.first <= b.last
        and b.first <= a.last
        and a.offset < b.offset + b.size
        and b.offset < a.offset + a.size
        for i, a in enumerate(live)
        for b in live[:i]
    )


def verdict(module: ModuleOp) -> bool:
    """Whether the verifier lets a plan pass."""
    try:
        verify_plan(module)
    except VerifyFailure:
        return False
    return True


def random_model(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Twelve operators on matrices of 4 x 4, each of the last result and an earlier one; some become views."""
    generator = np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    names = ["x"]
    for position in range(12):
        last, earlier, output = names[-1], names[generator.integers(len(names))], f"v{position}"
        match int(generator.integers(5)):
            case 0:
                nodes.append(helper.make_node("Transpose", [last], ["t" + output], perm=[1, 0]))
                nodes.append(helper.make_node("MatMul", ["t" + output, earlier], [output]))
            case 1:
                nodes.append(helper.make_node("Softmax", [last], [output], axis=1))
            case 2:
                nodes.append(helper.make_node("Reshape", [last, "flat"], ["f" + output]))
                nodes.append(helper.make_node("CumSum", ["f" + output, "axis"], ["g" + output]))
                nodes.append(helper.make_node("Reshape", ["g" + output, "square"], [output]))
            case 3:
                nodes.append(helper.make_node("MatMul", [last, earlier], [output]))
            case _:
                nodes.append(helper.make_node("Add", [last, earlier], [output]))
        names.append(output)
    constants = {"flat": np.array([16]), "square": np.array([4, 4]), "axis": np.array(0)}
    x = generator.standard_normal((4, 4), np.float32)
    return model_of(nodes, [value_info("x", x)], ["v11"], constants), {"x": x}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("optimize", [False, True])
def test_the_verifier_and_the_oracle_agree_wherever_a_buffer_is_put(seed: int, optimize: bool) -> None:
    """Every buffer at every 32 bytes, from 0 to the end of the arena: misaligned, overlapping, outside, or sound."""
    model, inputs = random_model(seed)
    options = CompileOptions(pipeline=PipelineOptions(optimize=optimize))
    module = compile_model(load_model(model, options, inputs=inputs), "memref").module
    text = print_module(module)
    assert oracle(text) and verdict(module)
    printed = list(VIEW.finditer(text))
    views = [op for op in module.walk() if isinstance(op, memref.ViewOp) and op.source.name_hint == "arena"]
    verdicts: list[bool] = []
    for match, op in zip(printed, views, strict=True):
        offset = op.byte_shift
        for at in range(0, int(match[3]) + 1, 32):
            moved = arith.ConstantOp(IntegerAttr(at, IndexType()))
            Rewriter.insert_op(moved, InsertPoint.before(op))
            op.operands[1] = moved.result
            verdicts.append(verdict(module))
            op.operands[1] = offset
            Rewriter.erase_op(moved)
            edited = f"{text[: match.start(2)]}{at}{text[match.end(2) :]}"
            assert verdicts[-1] == oracle(edited), f"{match[1]} at {at}\n{text}"
    assert any(verdicts) and not all(verdicts)


def function(body: str, arena: int = 192) -> str:
    offsets = "\n".join(f"%c{at} = arith.constant {at} : index" for at in (0, 1, 3, 64, 128))
    return f"""func.func private @step(%from: {B}, %to: {B}) {{
      memref.copy %from, %to : {B} to {B}
      func.return
    }}
    func.func @main(%arena: memref<{arena}xi8> {{mlopt.arena}}, %x: {B} {{mlopt.input = "x"}},
                    %y: {B} {{mlopt.output = "y"}}) {{
      {offsets}
      %yes = arith.constant true
      {body}
      func.return
    }}"""


def view(name: str, at: int, arena: int = 192) -> str:
    return f"%{name} = memref.view %arena[%c{at}][] : memref<{arena}xi8> to {B}"


def step(source: str, target: str) -> str:
    return f"func.call @step(%{source}, %{target}) : ({B}, {B}) -> ()"


def refusal(body: str) -> str:
    with pytest.raises(VerifyFailure) as failure:
        verify_plan(parse_module(function(body), make_context()))
    return failure.value.message


@pytest.mark.parametrize("loop", ["for", "while"])
def test_a_loop_that_passes_what_it_makes_to_its_next_iteration(loop: str) -> None:
    """The second iteration reads in `%p` what the first one made in `%n`, and makes `%n` anew: the same bytes."""
    first = f"{view('a', 0)}\n{step('x', 'a')}"
    body = f"{view('n', 64)}\n{step('p', 'n')}"
    if loop == "for":
        text = f"""{first}
        %s = scf.for %i = %c0 to %c3 step %c1 iter_args(%p = %a) -> ({B}) {{
          {body}
          scf.yield %n : {B}
        }}"""
    else:
        text = f"""{first}
        %s = scf.while (%q = %a) : ({B}) -> {B} {{
          scf.condition(%yes) %q : {B}
        }} do {{
        ^bb0(%p: {B}):
          {body}
          scf.yield %n : {B}
        }}"""
    assert "passes it to its next iteration" in refusal(f"{text}\n{step('s', 'y')}")


def test_a_buffer_that_is_carried_through_an_inner_loop_lives_there() -> None:
    """`%a` is read again by the next turn of the outer loop; `%t` of the inner one must not take its place."""
    text = f"""{view("a", 0)}
    {view("t", 64)}
    {step("x", "a")}
    scf.for %i = %c0 to %c3 step %c1 {{
      {step("a", "y")}
      scf.for %j = %c0 to %c3 step %c1 {{
        {step("x", "t")}
        {step("t", "y")}
      }}
    }}"""
    verify_plan(parse_module(function(text), make_context()))
    assert "overlap" in refusal(text.replace(view("t", 64), view("t", 0)))


def test_branches_may_share_but_not_with_what_is_read_after_them() -> None:
    text = f"""{view("a", 0)}
    {step("x", "a")}
    scf.if %yes {{
      {view("t", 64)}
      {step("x", "t")}
      {step("t", "y")}
    }} else {{
      {view("u", 64)}
      {step("x", "u")}
      {step("u", "y")}
    }}
    {step("a", "y")}"""
    verify_plan(parse_module(function(text), make_context()))
    assert "overlap" in refusal(text.replace(view("u", 64), view("u", 0)))


def test_planned_memory_is_used_through_views_only() -> None:
    """What else takes the arena could reach any byte of it."""
    whole = "%w = memref.subview %arena[0] [64] [1] : memref<192xi8> to memref<64xi8, strided<[1]>>"
    assert "used by 'memref.subview', expected views" in refusal(whole)


def test_a_view_without_a_static_size() -> None:
    text = "%w = memref.view %arena[%c0][%c64] : memref<192xi8> to memref<?xi8>"
    assert "needs a static size" in refusal(text)
