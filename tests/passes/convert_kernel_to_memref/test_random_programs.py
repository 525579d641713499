"""Random kernel-level programs that overwrite, alias, slice, carry and branch as they like, against SSA semantics.

Every generated op is two things: its text, and a numpy function on an environment in which nothing is ever overwritten.
What the passes make of the text is executed as it stands. All arithmetic is on i32, which wraps, so equal means equal.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlopt.interpreter.memref import Executable
from mlopt.interpreter.target import NumpyTarget
from mlopt.ir import make_context, print_module
from tests.memref_reference import run_memref
from tests.mlir_opt import check_with_mlir_opt
from tests.passes.lowering import CONVERT, lower, lower_for_numpy, run_engine

Array = np.ndarray
Environment = dict[str, Array]
Step = Callable[[Environment], None]
SHAPE = (4, 4)
T = "tensor<4x4xi32>"
S = "tensor<2x4xi32>"


@dataclass
class Kind:
    """One structured op: how it reads `a`, whether it needs `old`, and what it computes."""

    text: str
    compute: Callable[[Array, Array], Array]
    needs_old: bool = True
    square: bool = False


def _padded(a: Array) -> Array:
    return np.pad(a, 1, constant_values=7)[: a.shape[0], 2 : 2 + a.shape[1]]


def _last_row(a: Array, old: Array) -> Array:
    result = old.copy()
    result[-1] = a[0]
    return result


def body(expression: str) -> str:
    return f"{{\n^bb0(%p: i32, %o: i32):\n{expression}\n}}"


ADD = body("%r = arith.addi %p, %o : i32\nkernel.yield %r : i32")
SCALE_ADD = body("%t = arith.addi %o, %o : i32\n%r = arith.addi %t, %p : i32\nkernel.yield %r : i32")
MOVE = body("kernel.yield %p : i32")

KINDS = {
    "move": Kind(
        f"kernel.map bounds [m = R, n = 4] ins(A[m, n] : T) outs(O[m, n] : T) {MOVE}", lambda a, o: a, False
    ),
    "accumulate": Kind(
        f"kernel.map bounds [m = R, n = 4] ins(A[m, n] : T) outs(O[m, n] : T) {ADD}", lambda a, o: a + o
    ),
    "transpose": Kind(
        f"kernel.map bounds [m = R, n = 4] ins(A[n, m] : T) outs(O[m, n] : T) {SCALE_ADD}",
        lambda a, o: a.T + 2 * o,
        square=True,
    ),
    "reverse": Kind(
        f"kernel.map bounds [m = R, n = 4] ins(A[m, -1 * n + 3] : T) outs(O[m, n] : T) {SCALE_ADD}",
        lambda a, o: a[:, ::-1] + 2 * o,
    ),
    "column": Kind(
        f"kernel.map bounds [m = R, n = 4] ins(A[m, 2] : T) outs(O[m, n] : T) {SCALE_ADD}",
        lambda a, o: a[:, 2:3] + 2 * o,
    ),
    "pad": Kind(
        f"kernel.map bounds [m = R, n = 4] ins(A[m - 1, n + 1] pad 7 : i32 : T) outs(O[m, n] : T) {ADD}",
        lambda a, o: _padded(a) + o,
    ),
    "partial": Kind(f"kernel.map bounds [n = 4] ins(A[0, n] : T) outs(O[L, n] : T) {MOVE}", _last_row),
    "sum": Kind(
        f"kernel.reduce bounds [m = R, n = 4, k = 4] ins(A[m, k] : T) outs(O[m, n] : T) {ADD}",
        lambda a, o: o + a.sum(1, keepdims=True, dtype=np.int32),
    ),
    "window": Kind(
        f"kernel.reduce bounds [m = R, n = 3, k = 2] ins(A[m, n + k] : T) outs(O[m, n] : T) {ADD}",
        lambda a, o: o + np.pad(a[:, :-1] + a[:, 1:], ((0, 0), (0, 1))),
    ),
    "gather": Kind(
        "kernel.map bounds [m = R, n = 4] outs(O[m, n] : T) {\n^bb0(%o: i32):\n"
        "%i = kernel.index 1\n%j = arith.constant 0 : index\n%p = tensor.extract A[%j, %i] : T\n"
        "%r = arith.addi %p, %o : i32\nkernel.yield %r : i32\n}",
        lambda a, o: a[0] + o,
    ),
}


@dataclass
class Program:
    """A program being generated. `launches`: every op stands in a launch of its own, else all in the open."""

    rng: random.Random
    launches: bool
    lines: list[str] = field(default_factory=list)
    count: int = 0
    empties: set[str] = field(default_factory=set)

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def structured(self, a: str, out: str, kind: Kind, type: str) -> str:
        result = self.fresh()
        rows = "4" if type == T else "2"

        def text(a: str, out: str) -> str:
            made = kind.text.replace("A[", f"{a}[").replace("O[", f"{out}[").replace(": T", f": {type}")
            return made.replace("m = R", f"m = {rows}").replace("[L,", f"[{int(rows) - 1},")

        if not self.launches:
            self.lines.append(f"{result} = {text(a, out)}")
            return result
        self.lines += [
            f"{result} = kernel.launch @f ins({a} : {type}) outs({out} : {type}) {{",
            f"^bb0(%A: {type}, %O: {type}):",
            f"%z = {text('%A', '%O')}",
            f"kernel.yield %z : {type}",
            f"}} -> {type}",
        ]
        return result

    def step(self, values: list[str], depth: int) -> Step:
        """Generate one op; new values are appended to `values`."""
        rng = self.rng
        choice = rng.choice(
            ["op"] * 8 + ["empty", "reshape", "slice"] + (["for", "while", "if"] if depth < 2 else [])
        )
        if choice == "empty":
            result = self.fresh()
            self.lines.append(f"{result} = tensor.empty() : {T}")
            self.empties.add(result)
            values.append(result)
            return lambda env: env.__setitem__(result, np.zeros(SHAPE, np.int32))
        if choice == "op":
            return self.op_step(values)
        if choice == "reshape":
            flat, result, source = self.fresh(), self.fresh(), rng.choice(self.defined(values))
            self.lines.append(f"{flat} = kernel.reshape {source} : {T} to tensor<16xi32>")
            self.lines.append(f"{result} = kernel.reshape {flat} : tensor<16xi32> to {T}")
            values.append(result)
            return lambda env: env.__setitem__(result, env[source])
        if choice == "slice":
            return self.slice_step(values) if not self.launches else self.op_step(values)
        steps = {"for": self.for_step, "while": self.while_step, "if": self.if_step}
        return steps[choice](values, depth)

    def defined(self, values: list[str]) -> list[str]:
        return [value for value in values if value not in self.empties]

    def op_step(self, values: list[str]) -> Step:
        kind = KINDS[self.rng.choice(list(KINDS))]
        a = self.rng.choice(self.defined(values))
        out = self.rng.choice(self.defined(values) if kind.needs_old else values)
        result = self.structured(a, out, kind, T)
        values.append(result)
        return lambda env: env.__setitem__(result, kind.compute(env[a], env[out]).astype(np.int32))

    def slice_step(self, values: list[str]) -> Step:
        """Take two rows out, change them, and put them back somewhere."""
        rng = self.rng
        kind = rng.choice([kind for kind in KINDS.values() if not kind.square])
        whole, other = rng.choice(self.defined(values)), rng.choice(self.defined(values))
        i, j, k = rng.randrange(3), rng.randrange(3), rng.randrange(3)
        k = i if rng.random() < 0.6 else k
        target = whole if rng.random() < 0.7 else rng.choice(self.defined(values))
        part, operand = self.fresh(), self.fresh()
        self.lines.append(f"{part} = tensor.extract_slice {whole}[{i}, 0] [2, 4] [1, 1] : {T} to {S}")
        self.lines.append(f"{operand} = tensor.extract_slice {other}[{j}, 0] [2, 4] [1, 1] : {T} to {S}")
        changed = self.structured(operand, part, kind, S)
        result = self.fresh()
        self.lines.append(
            f"{result} = tensor.insert_slice {changed} into {target}[{k}, 0] [2, 4] [1, 1] : {S} into {T}"
        )
        values.append(result)

        def run(env: Environment) -> None:
            made = env[target].copy()
            made[k : k + 2] = kind.compute(env[other][j : j + 2], env[whole][i : i + 2]).astype(np.int32)
            env[result] = made

        return run

    def block(self, values: list[str], depth: int) -> list[Step]:
        return [self.step(values, depth) for _ in range(self.rng.randint(1, 4))]

    def for_step(self, values: list[str], depth: int) -> Step:
        rng = self.rng
        carried = rng.randint(1, 2)
        inits = [rng.choice(self.defined(values)) for _ in range(carried)]
        args = [self.fresh() for _ in range(carried)]
        results = [self.fresh() for _ in range(carried)]
        trips = rng.randint(0, 3)
        pairs = ", ".join(f"{arg} = {init}" for arg, init in zip(args, inits, strict=True))
        types = ", ".join([T] * carried)
        bound = f"%trips{self.count}"
        self.lines.append(f"{bound} = arith.constant {trips} : index")
        header = f"scf.for %i{self.count} = %c0 to {bound} step %c1 iter_args({pairs}) -> ({types}) {{"
        self.lines.append(f"{', '.join(results)} = {header}")
        inner = [*values, *args]
        steps = self.block(inner, depth + 1)
        yields = [rng.choice(self.defined(inner)) for _ in range(carried)]
        self.lines.append(f"scf.yield {', '.join(yields)} : {types}\n}}")
        values.extend(results)

        def run(env: Environment) -> None:
            now = [env[init] for init in inits]
            for _ in range(trips):
                local = env | dict(zip(args, now, strict=True))
                for step in steps:
                    step(local)
                now = [local[value] for value in yields]
            env.update(zip(results, now, strict=True))

        return run

    def while_step(self, values: list[str], depth: int) -> Step:
        """A loop that counts to its trips; what the condition passes on is carried, from outside, or made in it."""
        rng = self.rng
        carried = rng.randint(1, 2)
        inits = [rng.choice(self.defined(values)) for _ in range(carried)]
        args, insides, results = ([self.fresh() for _ in range(carried)] for _ in range(3))
        trips = rng.randint(0, 3)
        types = ", ".join([T] * carried)
        n = self.count
        pairs = ", ".join(f"{arg} = {init}" for arg, init in zip(args, inits, strict=True))
        self.lines += [
            f"%trips{n} = arith.constant {trips} : index",
            f"%last{n}, {', '.join(results)} = "
            f"scf.while (%i{n} = %c0, {pairs}) : (index, {types}) -> (index, {types}) {{",
        ]
        before = [*values, *args]
        before_steps = [self.op_step(before)] if rng.random() < 0.4 else []
        passed = [rng.choice(self.defined(before)) if rng.random() < 0.5 else arg for arg in args]
        self.lines += [
            f"%go{n} = arith.cmpi ult, %i{n}, %trips{n} : index",
            f"scf.condition(%go{n}) %i{n}, {', '.join(passed)} : index, {types}",
            "} do {",
            f"^bb0(%j{n}: index, {', '.join(f'{inside}: {T}' for inside in insides)}):",
        ]
        inner = [*values, *insides]
        steps = self.block(inner, depth + 1)
        yields = [rng.choice(self.defined(inner)) for _ in range(carried)]
        self.lines += [
            f"%n{n} = arith.addi %j{n}, %c1 : index",
            f"scf.yield %n{n}, {', '.join(yields)} : index, {types}",
            "}",
        ]
        values.extend(results)

        def run(env: Environment) -> None:
            now = [env[init] for init in inits]
            for trip in range(trips + 1):
                local = env | dict(zip(args, now, strict=True))
                for step in before_steps:
                    step(local)
                handed = [local[value] for value in passed]
                if trip == trips:
                    env.update(zip(results, handed, strict=True))
                    return
                local = env | dict(zip(insides, handed, strict=True))
                for step in steps:
                    step(local)
                now = [local[value] for value in yields]

        return run

    def if_step(self, values: list[str], depth: int) -> Step:
        rng = self.rng
        count = rng.randint(1, 2)
        results = [self.fresh() for _ in range(count)]
        types = ", ".join([T] * count)
        taken = rng.random() < 0.5
        self.lines.append(f"{', '.join(results)} = scf.if %{'yes' if taken else 'no'} -> ({types}) {{")
        branches: list[tuple[list[Step], list[str]]] = []
        for number in range(2):
            inner = list(values)
            steps = self.block(inner, depth + 1)
            yields = [rng.choice(self.defined(inner)) for _ in range(count)]
            self.lines.append(
                f"scf.yield {', '.join(yields)} : {types}\n}}" + (" else {" if number == 0 else "")
            )
            branches.append((steps, yields))
        values.extend(results)
        steps, yields = branches[0 if taken else 1]

        def run(env: Environment) -> None:
            local = dict(env)
            for step in steps:
                step(local)
            env.update((result, local[value]) for result, value in zip(results, yields, strict=True))

        return run


HEADER = ["%c0 = arith.constant 0 : index", "%c1 = arith.constant 1 : index"]
CONDITIONS = ["%yes = arith.constant true", "%no = arith.constant false"]


def generate(rng: random.Random, form: str) -> tuple[str, Callable[[Environment], list[Array]]]:
    """A program in the given form, and what it computes. `launches`, `open` (ops in @main) or `inside` (one launch)."""
    program = Program(rng, form == "launches")
    values = ["%x", "%y"]
    steps = [program.step(values, 0) for _ in range(rng.randint(2, 9))]
    defined = program.defined(values)
    returned = [rng.choice(defined[-4:]) for _ in range(rng.randint(1, 3))]
    types = ", ".join([T] * len(returned))
    lines = [*HEADER, *CONDITIONS, *program.lines]
    if form == "inside":
        outs = [f"%out{i}" for i in range(len(returned))]
        names = ", ".join(outs)
        args = ", ".join(f"%O{i}: {T}" for i in range(len(returned)))
        lines = [
            *(f"{out} = tensor.empty() : {T}" for out in outs),
            f"{', '.join(f'%r{i}' for i in range(len(returned)))} = kernel.launch @all ins(%x, %y : {T}, {T}) "
            f"outs({names} : {types}) {{",
            f"^bb0(%x: {T}, %y: {T}, {args}):",
            *lines,
            f"kernel.yield {', '.join(returned)} : {types}",
            f"}} -> {types}",
            f"func.return {', '.join(f'%r{i}' for i in range(len(returned)))} : {types}",
        ]
        lines = [line.replace("%x, %y :", "%X, %Y :") if "@all" in line else line for line in lines]
    else:
        lines.append(f"func.return {', '.join(returned)} : {types}")
    x, y = ("%X", "%Y") if form == "inside" else ("%x", "%y")
    text = f'func.func @main({x}: {T} {{mlopt.name = "x"}}, {y}: {T} {{mlopt.name = "y"}}) -> ({types}) {{\n'

    def run(env: Environment) -> list[Array]:
        for step in steps:
            step(env)
        return [env[value] for value in returned]

    return text + "\n".join(lines) + "\n}\n", run


@pytest.mark.parametrize("form", ["launches", "open", "inside"])
@settings(max_examples=12, deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_buffers_hold_what_ssa_says(form: str, rng: random.Random) -> None:
    text, run = generate(rng, form)
    inputs = {
        name: np.arange(16, dtype=np.int32).reshape(SHAPE) * factor for name, factor in (("x", 3), ("y", -5))
    }
    want = run({f"%{name}": value for name, value in inputs.items()})

    def compare(got: dict[str, Array], where: str) -> None:
        for i, value in enumerate(want):
            np.testing.assert_array_equal(got[f"result{i}"], value, err_msg=f"result {i} {where} of\n{text}")

    bufferized = lower(text, CONVERT)
    for backwards in (False, True):
        compare(run_memref(bufferized, inputs, backwards=backwards), f"after {CONVERT} ({backwards=})")
    compare(run_memref(lower(text), inputs), "after assign-buffers")
    compare(run_engine(lower_for_numpy(text), inputs, poison=True), "of the numpy engine")


@pytest.mark.parametrize("form", ["launches", "open", "inside"])
@settings(max_examples=20, deadline=None)
@given(rng=st.randoms(use_true_random=False), donated=st.sampled_from([("x",), ("y",), ("x", "y")]))
def test_buffers_hold_what_ssa_says_when_inputs_may_be_written(
    form: str, rng: random.Random, donated: tuple[str, ...]
) -> None:
    """Donated inputs are updated in place, carried and returned as the programs like; outputs lie in some of them."""
    text, run = generate(rng, form)
    for name in donated:
        text = text.replace(f'{{mlopt.name = "{name}"}}', f'{{mlopt.name = "{name}", mlopt.donated = {{}}}}')
    inputs = {
        name: np.arange(16, dtype=np.int32).reshape(SHAPE) * factor for name, factor in (("x", 3), ("y", -5))
    }
    want = run({f"%{name}": value for name, value in inputs.items()})

    def compare(got: dict[str, Array], where: str) -> None:
        assert list(got) == [f"result{i}" for i in range(len(want))] or where != "of the numpy engine"
        for i, value in enumerate(want):
            np.testing.assert_array_equal(got[f"result{i}"], value, err_msg=f"result {i} {where} of\n{text}")

    planned = (CONVERT, "elide-copies", "place-outputs", "plan-workspaces", "assign-buffers")
    for passes in ((CONVERT,), (CONVERT, "place-outputs"), planned):
        module = lower(text, *passes)
        compare(run_memref(module, inputs, backwards=passes is planned), f"after {passes}")
    context = make_context()
    context.target = NumpyTarget()
    module = lower(text, *planned, context=context)
    executable = Executable(module, context.weights, poison=True)
    compare(executable.run({name: array.copy() for name, array in inputs.items()}), "of the numpy engine")
    kept = {name: array.copy() for name, array in inputs.items() if name not in donated}
    executable.run({**{name: array.copy() for name, array in inputs.items()}, **kept})
    for name, array in kept.items():
        np.testing.assert_array_equal(array, inputs[name])


def test_upstream_accepts_what_is_made_of_random_programs() -> None:
    texts: list[str] = []
    for form, seed in itertools.product(("launches", "open", "inside"), range(12)):
        text, _ = generate(random.Random(seed), form)
        texts.append(print_module(lower(text)))
    check_with_mlir_opt("// -----\n".join(texts), "--split-input-file")
