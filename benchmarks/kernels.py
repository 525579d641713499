"""Single kernels of the numpy engine beside plain numpy: `python benchmarks/kernels.py [NAME ...] [--repeat N]`.

Each kernel is one memref-level function with the scratch that the engine prefers, run on warm operands; plain numpy is
what one would write by hand, with temporaries as numpy makes them. Both are the best of `--repeat` runs, in turns; a
ratio below 1 means that the engine is faster. A run of the engine checks and binds its arrays, which the first row
shows and all others include; in a model this is paid once. Set `OPENBLAS_NUM_THREADS=1` for figures that vary less.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mlopt.interpreter.memref import Executable
from mlopt.ir import make_context, parse_module
from mlopt.weights import WeightStore

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Kernel:
    """A module of `%x`, `%w` (if any) and `%y`, and the same in numpy."""

    text: str
    arrays: Arrays
    numpy: Callable[[Arrays], np.ndarray]


def memref(shape: tuple[int, ...]) -> str:
    """The type of a contiguous buffer of `f32`."""
    return f"memref<{''.join(f'{extent}x' for extent in shape)}f32>"


def generic(iterators: str, ins: list[tuple[str, str, str]], out: tuple[str, str], body: str) -> str:
    """A `linalg.generic` into `%y`; `iterators` are names, `*` behind those that are reduced."""
    names = iterators.split()
    dims = ", ".join(name.rstrip("*") for name in names)
    kinds = ", ".join('"reduction"' if name.endswith("*") else '"parallel"' for name in names)
    maps = ", ".join(f"affine_map<({dims}) -> ({index})>" for index in (*(i for _, i, _ in ins), out[0]))
    arguments = ", ".join(f"%i{n}: f32" for n in range(len(ins)))
    arguments += ", %o: f32" if ins else "%o: f32"
    operands = ""
    if ins:
        operands = f"ins({', '.join(v for v, _, _ in ins)} : {', '.join(t for _, _, t in ins)}) "
    return (
        f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} {operands}"
        f"outs(%y : {out[1]}) {{\n^bb0({arguments}):\n{body}\n}}\n"
    )


def fill(value: str, type_: str) -> str:
    """`%y` holds a number everywhere."""
    return f"%f = arith.constant {value} : f32\nlinalg.fill ins(%f : f32) outs(%y : {type_})\n"


def module(body: str, **types: str) -> str:
    """`@main` of inputs `x` and `w` and an output `y`."""
    arguments = ", ".join(
        f'%{name}: {type_} {{mlopt.{"output" if name == "y" else "input"} = "{name}"}}'
        for name, type_ in types.items()
    )
    return f"func.func @main({arguments}) {{\n{body}return\n}}\n"


def normal(*shape: int) -> np.ndarray:
    """Reproducible operands."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


MULTIPLY_ADD = "%p = arith.mulf %i0, %i1 : f32\n%s = arith.addf %o, %p : f32\nlinalg.yield %s : f32"


def matmul(m: int, k: int, n: int) -> Kernel:
    """`x[m, k] @ w[k, n]`."""
    x, w, y = memref((m, k)), memref((k, n)), memref((m, n))
    body = fill("0.0", y)
    body += generic("m n k*", [("%x", "m, k", x), ("%w", "k, n", w)], ("m, n", y), MULTIPLY_ADD)
    return Kernel(
        module(body, x=x, w=w, y=y), {"x": normal(m, k), "w": normal(k, n)}, lambda a: a["x"] @ a["w"]
    )


def convolution(groups: int, channels: int, filters: int, size: int, kernel: int, stride: int) -> Kernel:
    """A convolution of one square image that keeps its size at stride 1, with zeros around it."""
    pad, out = kernel // 2, -(-size // stride)
    shapes = ((groups, channels, size, size), (groups, filters, channels, kernel, kernel))
    x, w, y = memref(shapes[0]), memref(shapes[1]), memref((groups, filters, out, out))
    lines = [f"%d{d} = linalg.index {d} : index" for d in range(7)]
    numbers = {"stride": stride, "pad": pad, "size": size}
    lines += [f"%{name} = arith.constant {value} : index" for name, value in numbers.items()]
    for name, at, tap in (("r", 2, 5), ("q", 3, 6)):
        lines += [
            f"%{name}0 = arith.muli %d{at}, %stride : index",
            f"%{name}1 = arith.addi %{name}0, %d{tap} : index",
            f"%{name} = arith.subi %{name}1, %pad : index",
            f"%in{name} = arith.cmpi ult, %{name}, %size : index",
        ]
    lines += [
        "%in = arith.andi %inr, %inq : i1",
        "%zero = arith.constant 0.0 : f32",
        "%v = scf.if %in -> (f32) {",
        f"%l = memref.load %x[%d0, %d4, %r, %q] : {x}",
        "scf.yield %l : f32\n} else {\nscf.yield %zero : f32\n}",
        "%p = arith.mulf %v, %i0 : f32\n%s = arith.addf %o, %p : f32\nlinalg.yield %s : f32",
    ]
    body = fill("0.0", y) + generic(
        "g f h w c* i* j*", [("%w", "g, f, c, i, j", w)], ("g, f, h, w", y), "\n".join(lines)
    )

    def by_numpy(a: Arrays) -> np.ndarray:
        image = np.pad(a["x"], ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = np.lib.stride_tricks.sliding_window_view(image, (kernel, kernel), (2, 3))[
            :, :, ::stride, ::stride
        ]
        columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(groups, -1, out * out)
        return (a["w"].reshape(groups, filters, -1) @ columns).reshape(groups, filters, out, out)

    return Kernel(module(body, x=x, w=w, y=y), {"x": normal(*shapes[0]), "w": normal(*shapes[1])}, by_numpy)


def row_reduction(op: str, init: str, m: int, n: int, numpy: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    """A reduction of the rows of `x[m, n]`; `op` is `square` for the sum of squares."""
    x, y = memref((m, n)), memref((m,))
    element = "%i0"
    body = ""
    if op == "square":
        op, element, body = "addf", "%e", "%e = arith.mulf %i0, %i0 : f32\n"
    body += f"%r = arith.{op} %o, {element} : f32\nlinalg.yield %r : f32"
    text = fill(init, y) + generic("m n*", [("%x", "m, n", x)], ("m", y), body)
    return Kernel(module(text, x=x, y=y), {"x": normal(m, n)}, lambda a: numpy(a["x"]))


def pointwise(body: str, n: int, numpy: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    """An elementwise body over `n` elements, which yields `%r` from `%i0`."""
    type_ = memref((n,))
    text = generic("m", [("%x", "m", type_)], ("m", type_), f"{body}\nlinalg.yield %r : f32")
    return Kernel(module(text, x=type_, y=type_), {"x": normal(n)}, lambda a: numpy(a["x"]))


def max_pool(channels: int, size: int) -> Kernel:
    """Windows of 3 x 3 at stride 2, without padding."""
    out = (size - 3) // 2 + 1
    x, y, window = memref((channels, size, size)), memref((channels, out, out)), memref((3, 3))
    body = fill("0xFF800000", y) + f"%k = memref.get_global @window : {window}\n"
    body += generic(
        "c h w i* j*",
        [("%x", "c, 2 * h + i, 2 * w + j", x), ("%k", "i, j", window)],
        ("c, h, w", y),
        "%r = arith.maximumf %o, %i0 : f32\nlinalg.yield %r : f32",
    )
    text = f'memref.global "private" @window : {window} = uninitialized\n' + module(body, x=x, y=y)

    def by_numpy(a: Arrays) -> np.ndarray:
        windows = np.lib.stride_tricks.sliding_window_view(a["x"], (3, 3), (1, 2))
        return windows[:, ::2, ::2].max((3, 4))

    return Kernel(text, {"x": normal(channels, size, size)}, by_numpy)


GELU = """%c = arith.constant 1.41421354 : f32
%one = arith.constant 1.0 : f32
%half = arith.constant 0.5 : f32
%a = arith.divf %i0, %c : f32
%b = math.erf %a : f32
%d = arith.addf %b, %one : f32
%e = arith.mulf %half, %d : f32
%r = arith.mulf %i0, %e : f32"""


def gelu_by_numpy(x: np.ndarray) -> np.ndarray:
    """With the error function of the standard library, which numpy lacks."""
    erf = np.fromiter((math.erf(v) for v in x / np.float32(math.sqrt(2))), np.float32, x.size)
    return np.float32(0.5) * x * (1 + erf)


def kernels() -> dict[str, Kernel]:
    """All kernels by name."""
    cube = "%t = arith.constant 3.0 : f32\n%r = math.powf %i0, %t : f32"
    silu = "%n = arith.negf %i0 : f32\n%z = math.exp %n : f32\n%u = arith.constant 1.0 : f32\n"
    silu += "%d = arith.addf %z, %u : f32\n%r = arith.divf %i0, %d : f32"
    return {
        "one number": pointwise("%r = arith.negf %i0 : f32", 1, lambda x: -x),
        "matmul 32x128x512": matmul(32, 128, 512),
        "matmul 130x384x96": matmul(130, 384, 96),
        "conv 3x3 16ch 16x16": convolution(1, 16, 16, 16, 3, 1),
        "conv 3x3/2 16-32ch 16x16": convolution(1, 16, 32, 16, 3, 2),
        "conv 3x3 128ch 2x2": convolution(1, 128, 128, 2, 3, 1),
        "conv 7x7/2 3-16ch 64x64": convolution(1, 3, 16, 64, 7, 2),
        "conv 3x3 64ch 56x56": convolution(1, 64, 64, 56, 3, 1),
        "depthwise 3x3 48ch 24x24": convolution(48, 1, 1, 24, 3, 1),
        "depthwise 3x3 192ch 6x6": convolution(192, 1, 1, 6, 3, 1),
        "depthwise 7x7 128ch 2x2": convolution(128, 1, 1, 2, 7, 1),
        "max pool 3x3/2 16ch 33x33": max_pool(16, 33),
        "row sum 390x65": row_reduction("addf", "0.0", 390, 65, lambda x: x.sum(1)),
        "row sum of squares 130x96": row_reduction("square", "0.0", 130, 96, lambda x: (x * x).sum(1)),
        "row max 192x16": row_reduction("maximumf", "0xFF800000", 192, 16, lambda x: x.max(1)),
        "gelu 16384": pointwise(GELU, 16384, gelu_by_numpy),
        "cube 16384": pointwise(cube, 16384, lambda x: x ** np.float32(3)),
        "silu 16384": pointwise(silu, 16384, lambda x: x / (1 + np.exp(-x))),
    }


def best(run: Callable[[], object]) -> float:
    """Seconds of one run, timed over enough of them to last 50 microseconds or more."""
    start = time.perf_counter()
    run()
    count = max(1, int(5e-5 / (time.perf_counter() - start)))
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


def measure(kernel: Kernel, repeat: int) -> tuple[float, float]:
    """Seconds of the engine and of numpy, after checking that they agree."""
    executable = Executable(parse_module(kernel.text, make_context()), WeightStore())
    out = {spec.name: np.empty(spec.shape, spec.dtype) for spec in executable.outputs}
    got = executable.run(kernel.arrays, out)["y"]
    np.testing.assert_allclose(got, kernel.numpy(kernel.arrays), rtol=1e-3, atol=1e-3)
    engine = numpy = math.inf
    for _ in range(repeat):
        engine = min(engine, best(lambda: executable.run(kernel.arrays, out)))
        numpy = min(numpy, best(lambda: kernel.numpy(kernel.arrays)))
    return engine, numpy


def main() -> None:
    """Print a row per kernel."""
    parser = argparse.ArgumentParser(description="Kernels of the numpy engine beside plain numpy.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="kernels whose names contain this (default: all)"
    )
    parser.add_argument("--repeat", type=int, default=50, metavar="N", help="rounds (default: 50)")
    options = parser.parse_args()
    print(f"{'kernel':28} {'engine µs':>10} {'numpy µs':>10} {'ratio':>6}")
    for name, kernel in kernels().items():
        if options.names and not any(part in name for part in options.names):
            continue
        engine, numpy = measure(kernel, options.repeat)
        print(f"{name:28} {engine * 1e6:10.1f} {numpy * 1e6:10.1f} {engine / numpy:6.2f}")


if __name__ == "__main__":
    main()
