"""Convolutions of the numpy engine in all its ways, against sums over taps by hand in 64 bits.

Which way is taken depends on the scratch there is: every case runs with several amounts of it, in poisoned memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from mlopt.interpreter.dots import Dots
from mlopt.interpreter.matrix_product import MatrixProduct
from mlopt.interpreter.target import NumpyTarget
from mlopt.interpreter.ways import Way, Ways
from mlopt.ir import make_context, parse_module
from tests.interpreter.memref_text import generic, load, module, padded_load, run
from tests.interpreter.test_memref_contractions import fill, with_workspace

RNG = np.random.default_rng(11)


@dataclass(frozen=True)
class Case:
    """A grouped convolution: x is [n, g, c, h, w], w is [g, f, c, kh, kw]; pads are top, left, bottom, right."""

    n: int = 1
    groups: int = 1
    channels: int = 3
    filters: int = 4
    size: tuple[int, int] = (9, 8)
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    kind: str = "f32"
    pad_value: int = 0
    init: int = 0

    @property
    def out_size(self) -> tuple[int, int]:
        height, width = (
            (self.size[a] + self.pads[a] + self.pads[a + 2] - self.dilation[a] * (self.kernel[a] - 1) - 1)
            // self.stride[a]
            + 1
            for a in range(2)
        )
        return height, width

    @property
    def sum_kind(self) -> str:
        return {"f16": "f32", "i8": "i32"}.get(self.kind, self.kind)

    @property
    def dtype(self) -> np.dtype:
        names = {"f": "float", "i": "int"}
        bits = int(self.kind[1:])
        return np.dtype(f"{names[self.kind[0]]}{bits}")

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        x = (self.n, self.groups, self.channels, *self.size)
        w = (self.groups, self.filters, self.channels, *self.kernel)
        if self.dtype.kind == "i":
            return RNG.integers(-9, 9, x).astype(self.dtype), RNG.integers(-9, 9, w).astype(self.dtype)
        return RNG.standard_normal(x).astype(self.dtype), RNG.standard_normal(w).astype(self.dtype)


def text_of(case: Case, *, is_weight: bool = True) -> str:
    """The memref-level module of a convolution."""
    (height, width), (out_height, out_width) = case.size, case.out_size
    kind, total = case.kind, case.sum_kind
    x = f"memref<{case.n}x{case.groups}x{case.channels}x{height}x{width}x{kind}>"
    kh, kw = case.kernel
    w = f"memref<{case.groups}x{case.filters}x{case.channels}x{kh}x{kw}x{kind}>"
    y = f"memref<{case.n}x{case.groups}x{case.filters}x{out_height}x{out_width}x{total}>"
    point = ".0" if total.startswith("f") else ""
    lines = [f"%d{d} = linalg.index {d} : index" for d in range(8)]
    for name, axis, at, tap in (("%r", 0, 3, 6), ("%q", 1, 4, 7)):
        lines += [
            f"{name}s = arith.constant {case.stride[axis]} : index",
            f"{name}d = arith.constant {case.dilation[axis]} : index",
            f"{name}o = arith.constant {case.pads[axis]} : index",
            f"{name}0 = arith.muli %d{at}, {name}s : index",
            f"{name}1 = arith.muli %d{tap}, {name}d : index",
            f"{name}2 = arith.addi {name}0, {name}1 : index",
            f"{name} = arith.subi {name}2, {name}o : index",
        ]
    lines.append(f"%pad = arith.constant {case.pad_value}{point if kind[0] == 'f' else ''} : {kind}")
    lines.append(padded_load("%x", x, ["%d0", "%d1", "%d5", "%r", "%q"], "%pad"))
    left, right = "%v", "%i0"
    if kind != total:
        widen = "extf" if kind == "f16" else "extsi"
        lines += [
            f"%lw = arith.{widen} %v : {kind} to {total}",
            f"%rw = arith.{widen} %i0 : {kind} to {total}",
        ]
        left, right = "%lw", "%rw"
    word = total[0]
    lines += [
        f"%p = arith.mul{word} {left}, {right} : {total}",
        f"%s = arith.add{word} %o0, %p : {total}",
        f"linalg.yield %s : {total}",
    ]
    body = fill(f"{case.init}{point}", "%y", y) + generic(
        "n:p g:p f:p h:p w:p c:r i:r j:r",
        [("%w", "g, f, c, i, j", w)],
        [("%y", "n, g, f, h, w", y)],
        "\n".join(lines),
    )
    inputs = {"x": x} if is_weight else {"x": x, "w": w}
    return module(body, inputs=inputs, weights={"w": w} if is_weight else {}, outputs={"y": y})


def by_hand(case: Case, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The sum over taps of shifted images, in 64 bits."""
    wide = np.float64 if case.dtype.kind == "f" else np.int64
    top, left, bottom, right = case.pads
    borders = ((0, 0), (0, 0), (0, 0), (top, bottom), (left, right))
    x = np.pad(x.astype(wide), borders, constant_values=case.pad_value)
    height, width = case.out_size
    total = np.full((case.n, case.groups, case.filters, height, width), case.init, wide)
    for i in range(case.kernel[0]):
        for j in range(case.kernel[1]):
            rows = slice(i * case.dilation[0], None, case.stride[0])
            columns = slice(j * case.dilation[1], None, case.stride[1])
            part = x[..., rows, columns][..., :height, :width]
            total += np.einsum("ngchw,gfc->ngfhw", part, w[..., i, j].astype(wide))
    return total


def check(case: Case, sizes: int = 4) -> None:
    """Run a case with amounts of scratch from the least with which it runs at all to what is preferred."""
    text = text_of(case)
    (main,) = parse_module(text, make_context()).ops
    need = NumpyTarget().scratch_need(main)
    x, w = case.arrays()
    want = by_hand(case, x, w)
    few = [need.least, (need.least + need.minimum) // 2]
    for size in (*few, *np.linspace(need.minimum, max(need.minimum, need.preferred), sizes).astype(int)):
        whole = max(-(-int(size) // 64) * 64, 64)
        executable = load(with_workspace(text, whole), {"w": w}, poison=True)
        assert executable.engine_scratch_bytes == 0
        assert executable.scalar_loops == 0
        got = executable.run({"x": x})["y"]
        if got.dtype.kind == "i":
            np.testing.assert_array_equal(got, want.astype(got.dtype))
        else:
            exact = 1e-12 if got.dtype == np.float64 else 2e-5
            np.testing.assert_allclose(got, want, rtol=exact, atol=exact * 20)


CASES = {
    "same": Case(),
    "valid": Case(pads=(0, 0, 0, 0)),
    "several images": Case(n=3, size=(7, 12)),
    "one channel": Case(channels=1, filters=1),
    "odd stride": Case(size=(17, 19), stride=(2, 3)),
    "stem": Case(size=(33, 32), kernel=(7, 7), stride=(2, 2), pads=(3, 3, 3, 3), filters=8),
    "pointwise with a stride": Case(kernel=(1, 1), stride=(2, 2), pads=(0, 0, 0, 0), channels=6),
    "dilated": Case(size=(13, 11), dilation=(2, 3), pads=(2, 3, 2, 3)),
    "dilated with a stride": Case(size=(15, 16), dilation=(3, 2), stride=(2, 1), pads=(3, 1, 2, 2)),
    "asymmetric": Case(size=(8, 9), pads=(0, 2, 1, 0)),
    "pads wider than the kernel": Case(size=(2, 3), pads=(4, 3, 2, 5)),
    "only padding": Case(size=(1, 1), kernel=(2, 2), stride=(3, 3), pads=(3, 3, 3, 3)),
    "long and thin": Case(size=(1, 300), kernel=(1, 9), pads=(0, 4, 0, 4), channels=5),
    "groups": Case(groups=3, channels=2, filters=4),
    "groups of one image": Case(groups=8, channels=4, filters=4, size=(5, 6), stride=(2, 2)),
    "depthwise": Case(groups=6, channels=1, filters=1, size=(20, 21)),
    "depthwise on few pixels": Case(n=2, groups=96, channels=1, filters=1, size=(3, 4)),
    "depthwise with a stride": Case(groups=64, channels=1, filters=1, size=(6, 7), stride=(2, 2)),
    "depthwise with large taps": Case(
        groups=128, channels=1, filters=1, size=(3, 3), kernel=(7, 7), pads=(3, 3, 3, 3)
    ),
    "depthwise multiplied": Case(groups=40, channels=1, filters=3, size=(5, 5)),
    "depthwise dilated": Case(
        groups=70, channels=1, filters=1, size=(6, 5), dilation=(2, 2), pads=(2, 2, 1, 2)
    ),
    "large": Case(channels=24, filters=16, size=(40, 40)),
    "another padding": Case(pad_value=3),
    "another start": Case(init=2),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_convolution(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("kind", ["f64", "f16", "i8", "i64"])
@pytest.mark.parametrize(
    "name", ["stem", "asymmetric", "groups", "depthwise on few pixels", "another padding"]
)
def test_convolution_of_other_types(kind: str, name: str) -> None:
    check(Case(**{**CASES[name].__dict__, "kind": kind}), sizes=3)


@pytest.mark.parametrize("seed", range(25))
def test_any_convolution(seed: int) -> None:
    """Random shapes."""
    rng = np.random.default_rng(seed)

    def pair(low: int, high: int) -> tuple[int, int]:
        first, second = rng.integers(low, high, 2)
        return int(first), int(second)

    depthwise = bool(rng.random() < 0.4)
    size, kernel = pair(4, 24), pair(1, 5)
    dilation = pair(1, 3)
    check(
        Case(
            n=int(rng.integers(1, 3)),
            groups=int(rng.integers(1, 70)) if depthwise else int(rng.integers(1, 3)),
            channels=1 if depthwise else int(rng.integers(1, 20)),
            filters=1 if depthwise else int(rng.integers(1, 9)),
            size=(size[0] + 4, size[1] + 4),
            kernel=kernel,
            stride=pair(1, 4),
            dilation=dilation,
            pads=(*pair(0, 4), *pair(0, 4)),
            kind=str(rng.choice(["f32", "f64", "f16", "i8", "i64"])),
            pad_value=int(rng.integers(0, 2)),
        ),
        sizes=3,
    )


def taken(case: Case, size: int | None, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Way], int, int]:
    """The ways that are emitted with a workspace (None: as much as wanted), how many products, and einsums."""
    ways: list[Way] = []
    dots: list[Dots] = []
    run_product, run_dots = MatrixProduct.run, Dots.run

    def product_spy(self: MatrixProduct) -> None:
        ways.append(self._way)  # pyright: ignore[reportPrivateUsage]: no other way to see the choice
        run_product(self)

    def dots_spy(self: Dots) -> None:
        dots.append(self)
        run_dots(self)

    text = text_of(case)
    if size is not None:
        text = with_workspace(text, size)
    _, w = case.arrays()
    monkeypatch.setattr(MatrixProduct, "run", product_spy)
    monkeypatch.setattr(Dots, "run", dots_spy)
    load(text, {"w": w})
    if size is None:  # the first translation only measures the scratch
        return ways[len(ways) // 2 :], len(ways) // 2, len(dots) // 2
    return ways, len(ways), len(dots)


DENSE = Case(channels=16, filters=16, size=(16, 16))


def test_with_room_all_taps_are_one_run_per_row_of_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    ways, products, dots = taken(DENSE, None, monkeypatch)
    assert (products, dots) == (1, 0)
    assert ways[0].slabs
    assert ways[0].flat is not None


def test_at_a_stride_taps_are_read_from_a_slab(monkeypatch: pytest.MonkeyPatch) -> None:
    ways, products, _ = taken(Case(channels=16, size=(16, 16), stride=(2, 2)), None, monkeypatch)
    assert products == 1
    assert ways[0].slabs
    assert ways[0].flat is None


def test_without_room_for_a_slab_the_inside_is_packed_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 7 x 7 stem whose scratch holds one row of im2col: 3 * 49 * 32 elements, and nothing beside it."""
    case = Case(size=(64, 64), kernel=(7, 7), stride=(2, 2), pads=(3, 3, 3, 3), filters=16)
    _, products, _ = taken(case, 3 * 49 * 32 * 4, monkeypatch)
    assert products > 1
    _, products, _ = taken(case, None, monkeypatch)
    assert products == 1


def test_many_channels_on_few_pixels_are_dot_products(monkeypatch: pytest.MonkeyPatch) -> None:
    _, products, dots = taken(CASES["depthwise on few pixels"], None, monkeypatch)
    assert (products, dots) == (0, 1)
    _, products, dots = taken(Case(groups=4, channels=1, filters=1, size=(40, 40)), None, monkeypatch)
    assert (products, dots) == (1, 0)


def test_the_least_scratch_does_not_hold_what_only_is_faster() -> None:
    """The smallest need is that of taps copied one by one: blocks of one row of im2col (see the test of stems)."""
    case = Case(size=(64, 64), kernel=(7, 7), stride=(2, 2), pads=(3, 3, 3, 3), filters=16)
    (main,) = parse_module(text_of(case), make_context()).ops
    need = NumpyTarget().scratch_need(main)
    assert need.minimum == 3 * 49 * 32 * 4
    assert need.preferred > 8 * need.minimum


def test_sums_in_pieces_need_little_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """x[16, 2048] @ w[2048, 96] in half precision: converting all of w would take 768 KiB."""
    x, w, y = "memref<16x2048xf16>", "memref<2048x96xf16>", "memref<16x96xf32>"
    body = (
        "%a = arith.extf %i0 : f16 to f32\n%b = arith.extf %i1 : f16 to f32\n"
        "%p = arith.mulf %a, %b : f32\n%s = arith.addf %o0, %p : f32\nlinalg.yield %s : f32"
    )
    text = fill("0.5", "%y", y)
    text += generic("m:p n:p k:r", [("%x", "m, k", x), ("%w", "k, n", w)], [("%y", "m, n", y)], body)
    text = module(text, inputs={"x": x, "w": w}, outputs={"y": y})
    (main,) = parse_module(text, make_context()).ops
    need = NumpyTarget().scratch_need(main)
    assert need.minimum <= 24 << 10
    left, right = (RNG.standard_normal(s).astype(np.float16) for s in ((16, 2048), (2048, 96)))
    want = left.astype(np.float64) @ right.astype(np.float64) + 0.5
    for size in (need.minimum, 3 * need.minimum, need.preferred):
        executable = load(with_workspace(text, -(-size // 64) * 64), poison=True)
        assert executable.engine_scratch_bytes == 0
        np.testing.assert_allclose(executable.run({"x": left, "w": right})["y"], want, rtol=1e-4, atol=1e-3)


def test_an_operand_that_the_output_overlaps_is_read_before_it_is_written() -> None:
    """y += conv(y): the parts that a convolution is cut into read the copy of y."""
    whole, w = "memref<1x1x1x64x64xf32>", "memref<1x1x1x3x3xf32>"
    case = Case(channels=1, filters=1, size=(64, 64))
    lines = [f"%d{d} = linalg.index {d} : index" for d in range(8)]
    lines += ["%one = arith.constant 1 : index", "%pad = arith.constant 0.0 : f32"]
    for name, at, tap in (("%r", 3, 6), ("%q", 4, 7)):
        lines += [
            f"{name}0 = arith.addi %d{at}, %d{tap} : index",
            f"{name} = arith.subi {name}0, %one : index",
        ]
    lines.append(padded_load("%y", whole, ["%d0", "%d1", "%d5", "%r", "%q"], "%pad"))
    lines += ["%p = arith.mulf %v, %i0 : f32", "%s = arith.addf %o0, %p : f32", "linalg.yield %s : f32"]
    body = f"memref.copy %x, %y : {whole} to {whole}\n" + generic(
        "n:p g:p f:p h:p w:p c:r i:r j:r",
        [("%w", "g, f, c, i, j", w)],
        [("%y", "n, g, f, h, w", whole)],
        "\n".join(lines),
    )
    image, taps = case.arrays()
    got = run(
        module(body, inputs={"x": whole}, weights={"w": w}, outputs={"y": whole}), {"x": image}, {"w": taps}
    )
    np.testing.assert_allclose(got["y"], image + by_hand(case, image, taps), rtol=1e-5, atol=1e-5)


def test_the_cheapest_way_is_within_the_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the workspace, a way that is not the smallest fits it."""
    rooms: list[tuple[int, int, bool]] = []
    choose = Ways.choose

    def spy(self: Ways, room: int, slab_room: int) -> Way:
        way = choose(self, room, slab_room)
        rooms.append((self.need(way), slab_room if way.slabs else room, way.slabs or way.tiled))
        return way

    monkeypatch.setattr(Ways, "choose", spy)
    _, w = DENSE.arrays()
    for size in range(19 << 10, 200 << 10, 13 << 10):
        load(with_workspace(text_of(DENSE), size // 64 * 64), {"w": w})
    assert all(need <= room for need, room, is_larger in rooms if is_larger)
    assert any(is_larger for *_, is_larger in rooms)
