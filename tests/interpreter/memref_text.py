"""Writers of memref-level text for tests of the engine, and a runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlopt.interpreter.memref import Executable
from mlopt.ir import make_context, parse_module
from mlopt.ir.verifier import verify_module
from mlopt.weights import WeightStore


def module(
    body: str,
    *,
    inputs: Mapping[str, str] = {},
    outputs: Mapping[str, str] = {},
    weights: Mapping[str, str] = {},
    arena: int = 0,
    functions: str = "",
    dtypes: Mapping[str, str] = {},
) -> str:
    """A module whose @main has these arguments (name → memref type) and this body."""
    arguments = [f"%arena: memref<{arena}xi8> {{mlopt.arena}}"] if arena else []
    for kind, types in (("input", inputs), ("weight", weights), ("output", outputs)):
        for name, type_ in types.items():
            dtype = f', mlopt.dtype = "{dtypes[name]}"' if name in dtypes else ""
            arguments.append(f'%{name}: {type_} {{mlopt.{kind} = "{name}"{dtype}}}')
    return f"func.func @main({', '.join(arguments)}) {{\n{body}\nreturn\n}}\n{functions}"


def generic(
    iterators: str, ins: Sequence[tuple[str, str, str]], outs: Sequence[tuple[str, str, str]], body: str
) -> str:
    """A `linalg.generic`: operands are (value, index as `m, k`, memref type); the dimensions are those of `iterators`.

    `iterators` names dimensions and kinds, as `m:p n:p k:r`. Scalars in the body are `%i0`, ... and `%o0`, ...
    """
    pairs = [item.split(":") for item in iterators.split()]
    dims = ", ".join(name for name, _ in pairs)
    kinds = ", ".join('"parallel"' if kind == "p" else '"reduction"' for _, kind in pairs)
    maps = ", ".join(f"affine_map<({dims}) -> ({index})>" for _, index, _ in (*ins, *outs))
    arguments = [f"%i{n}: {element(t)}" for n, (_, _, t) in enumerate(ins)]
    arguments += [f"%o{n}: {element(t)}" for n, (_, _, t) in enumerate(outs)]
    lists = ""
    for word, operands in (("ins", ins), ("outs", outs)):
        if operands:
            values, types = ", ".join(v for v, _, _ in operands), ", ".join(t for _, _, t in operands)
            lists += f" {word}({values} : {types})"
    return (
        f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}{lists} {{\n"
        f"^bb0({', '.join(arguments)}):\n{body}\n}}"
    )


def element(type_: str) -> str:
    """The element type of a memref type; a scalar type is its own."""
    if not type_.startswith("memref<"):
        return type_
    return type_.removeprefix("memref<").rstrip(">").split(",")[0].split("x")[-1]


def padded_load(source: str, type_: str, index: Sequence[str], pad: str, result: str = "%v") -> str:
    """The guarded load of a padded read: index values are names of `index` constants or positions."""
    shape = type_.removeprefix("memref<").split(",")[0].rstrip(">").split("x")[:-1]
    lines: list[str] = []
    guard = ""
    for axis, (value, extent) in enumerate(zip(index, shape, strict=True)):
        lines.append(f"%ext{axis}{result[1:]} = arith.constant {extent} : index")
        lines.append(f"%in{axis}{result[1:]} = arith.cmpi ult, {value}, %ext{axis}{result[1:]} : index")
        name = f"%in{axis}{result[1:]}"
        if guard:
            lines.append(f"%all{axis}{result[1:]} = arith.andi {guard}, {name} : i1")
            name = f"%all{axis}{result[1:]}"
        guard = name
    kind = element(type_)
    lines += [
        f"{result} = scf.if {guard} -> ({kind}) {{",
        f"  %loaded{result[1:]} = memref.load {source}[{', '.join(index)}] : {type_}",
        f"  scf.yield %loaded{result[1:]} : {kind}",
        "} else {",
        f"  scf.yield {pad} : {kind}",
        "}",
    ]
    return "\n".join(lines)


def load(text: str, weights: Mapping[str, np.ndarray] = {}, *, poison: bool = False) -> Executable:
    """Parse, verify and load a module."""
    store = WeightStore()
    for name, array in weights.items():
        assert store.add(array, name) == name
    parsed = parse_module(text, make_context())
    verify_module(parsed)
    return Executable(parsed, store, poison=poison)


def run(
    text: str,
    inputs: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray] = {},
    *,
    scalar_loops: int = 0,
) -> dict[str, np.ndarray]:
    """Load and run; no op may have become a scalar loop unless said."""
    executable = load(text, weights)
    assert executable.scalar_loops == scalar_loops
    return executable.run(inputs)
