"""`fuse-rotary`: halves and neighbours, tables of every kind, near misses, against onnxruntime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.passes.graph.chains import Chain

RNG = np.random.default_rng(0)
DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
END = 2**31


def values(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.asarray(RNG.standard_normal(shape)).astype(dtype)


def doubled(table: np.ndarray, *, interleaved: bool = False) -> np.ndarray:
    """The table with each number for both of a pair."""
    return np.repeat(table, 2, axis=-1) if interleaved else np.concatenate([table, table], axis=-1)


def part(c: Chain, x: str, start: int, stop: int, step: int = 1) -> str:
    return c("Slice", x, *(c.ints(number) for number in (start, stop, -1, step)))


def halves(c: Chain, x: str, size: int) -> tuple[str, str]:
    return part(c, x, 0, size // 2), part(c, x, size // 2, END)


def neighbours(c: Chain, x: str) -> tuple[str, str]:
    return part(c, x, 0, END, 2), part(c, x, 1, END, 2)


def stacked(c: Chain, first: str, second: str, shape: tuple[int, ...]) -> str:
    apart = [c("Unsqueeze", value, c.ints(-1)) for value in (first, second)]
    return c("Reshape", c("Concat", *apart, axis=-1), c.ints(*shape))


def rotated(c: Chain, x: str, shape: tuple[int, ...], *, interleaved: bool) -> str:
    if interleaved:
        first, second = neighbours(c, x)
        return stacked(c, c("Neg", second), first, shape)
    first, second = halves(c, x, shape[-1])
    return c("Concat", c("Neg", second), first, axis=-1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    ("shape", "table"),
    [((2, 3, 5, 8), (5, 4)), ((2, 3, 5, 8), (1, 1, 5, 4)), ((2, 5, 8), (2, 1, 4)), ((4,), (2,)), ((3, 2), (1,)),
     ((0, 4), (2,))],
)  # fmt: skip
def test_rotated_sums(shape: tuple[int, ...], table: tuple[int, ...], interleaved: bool, dtype: type) -> None:
    chain = Chain(x=values(*shape, dtype=dtype))
    cos, sin = (doubled(values(*table, dtype=dtype), interleaved=interleaved) for _ in range(2))
    turned = chain("Mul", sin, rotated(chain, "x", shape, interleaved=interleaved))
    y = chain("Add", turned, chain("Mul", "x", cos))
    assert chain.check(y, passes="fuse-rotary").ops == {"rotary_embedding": 1}


def turned_pairs(c: Chain, first: str, second: str, cos: np.ndarray, sin: np.ndarray) -> tuple[str, str]:
    return (
        c("Sub", c("Mul", first, cos), c("Mul", sin, second)),
        c("Add", c("Mul", first, sin), c("Mul", cos, second)),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["slices", "split", "neighbours"])
def test_turned_pairs(form: str, dtype: type) -> None:
    shape = (2, 3, 5, 8)
    chain = Chain(x=values(*shape, dtype=dtype))
    tables = values(5, 4, dtype=dtype), values(2, 1, 5, 4, dtype=dtype)
    if form == "split":
        first, second = chain("Split", "x", axis=-1, num_outputs=2, outputs=2)
    else:
        first, second = halves(chain, "x", 8) if form == "slices" else neighbours(chain, "x")
    pairs = turned_pairs(chain, first, second, *tables)
    y = stacked(chain, *pairs, shape) if form == "neighbours" else chain("Concat", *pairs, axis=-1)
    assert chain.check(y, passes="fuse-rotary").ops == {"rotary_embedding": 1}


def test_f32_is_the_same_bit_for_bit() -> None:
    x = values(2, 3, 5, 8)
    x[0, 0, 0] = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e38, -3e38, 1e-40]
    cos, sin = (doubled(values(5, 4)) for _ in range(2))
    chain = Chain(x=x)
    y = chain(
        "Add", chain("Mul", "x", cos), chain("Mul", rotated(chain, "x", x.shape, interleaved=False), sin)
    )
    assert chain.check(y, passes="fuse-rotary", rtol=0).ops == {"rotary_embedding": 1}


def test_tables_that_are_computed() -> None:
    """As Llama does: the cosines of angles that stand twice, once for each number of a pair, times a number."""
    chain = Chain(x=values(2, 3, 5, 8), angles=values(2, 5, 4))
    twice = chain("Concat", "angles", "angles", axis=-1)
    cos, sin = (
        chain("Unsqueeze", chain("Mul", chain(name, twice), 1.5), chain.ints(1)) for name in ("Cos", "Sin")
    )
    turned = chain("Mul", rotated(chain, "x", (2, 3, 5, 8), interleaved=False), sin)
    outcome = chain.check(chain("Add", chain("Mul", "x", cos), turned), passes="fuse-rotary")
    assert outcome.ops == {"cos": 1, "sin": 1, "mul": 2, "reshape": 2, "rotary_embedding": 1}


def test_tables_that_are_looked_up() -> None:
    """At positions of run time, in tables of constants."""
    chain = Chain(x=values(2, 3, 5, 8), p=np.array([[0, 1, 2, 3, 4], [6, 5, 4, 3, 2]]))
    tables = [
        chain("Unsqueeze", chain("Gather", doubled(values(9, 4)), "p", axis=0), chain.ints(1))
        for _ in range(2)
    ]
    turned = chain("Mul", rotated(chain, "x", (2, 3, 5, 8), interleaved=False), tables[1])
    outcome = chain.check(chain("Add", chain("Mul", "x", tables[0]), turned), passes="fuse-rotary")
    assert outcome.ops == {"gather": 2, "reshape": 2, "rotary_embedding": 1}


@pytest.mark.parametrize("form", ["expand", "concat"])
def test_neighbours_with_tables_that_are_computed(form: str) -> None:
    chain = Chain(x=values(2, 5, 8), angles=values(5, 4))
    apart = chain("Unsqueeze", "angles", chain.ints(-1))
    beside = {"expand": ("Expand", apart, chain.ints(5, 4, 2)), "concat": ("Concat", apart, apart)}[form]
    twice = chain(*beside, **({"axis": -1} if form == "concat" else {}))
    twice = chain("Reshape", twice, chain.ints(5, 8))
    turned = chain("Mul", rotated(chain, "x", (2, 5, 8), interleaved=True), chain("Sin", twice))
    outcome = chain.check(chain("Add", chain("Mul", "x", chain("Cos", twice)), turned), passes="fuse-rotary")
    assert outcome.ops["rotary_embedding"] == 1
    assert not {"concat", "expand"} & set(outcome.ops)


def test_two_of_one_table_share_its_half() -> None:
    cos, sin = (doubled(values(40, 4)) for _ in range(2))
    chain = Chain(x=values(2, 3, 40, 8), k=values(2, 1, 40, 8))
    tables = [chain.constant(table) for table in (cos, sin)]
    results = [
        chain(
            "Add",
            chain("Mul", x, tables[0]),
            chain("Mul", rotated(chain, x, chain.inputs[x].shape, interleaved=False), tables[1]),
        )
        for x in ("x", "k")
    ]
    assert chain.check(*results, passes="fuse-rotary,cse").ops == {"rotary_embedding": 2}


# Near misses.


def sum_of(chain: Chain, turned: str, cos: np.ndarray | None = None, sin: np.ndarray | None = None) -> str:
    cos = doubled(values(5, 4)) if cos is None else cos
    sin = doubled(values(5, 4)) if sin is None else sin
    return chain("Add", chain("Mul", "x", cos), chain("Mul", turned, sin))


def test_tables_that_differ_within_a_pair() -> None:
    for cos, sin, name in ((values(5, 8), None, "cosines"), (None, values(5, 8), "sines")):
        chain = Chain(x=values(2, 5, 8))
        y = sum_of(chain, rotated(chain, "x", (2, 5, 8), interleaved=False), cos, sin)
        outcome = chain.check(y, passes="fuse-rotary")
        assert "rotary_embedding" not in outcome.ops
        assert outcome.missed == [
            f"not fused: the {name} of the two numbers of a pair are not known to be equal"
        ]


@pytest.mark.parametrize("interleaved", [False, True])
def test_tables_for_the_other_kind_of_pairs(interleaved: bool) -> None:
    chain = Chain(x=values(2, 5, 8))
    cos, sin = (doubled(values(5, 4), interleaved=not interleaved) for _ in range(2))
    y = sum_of(chain, rotated(chain, "x", (2, 5, 8), interleaved=interleaved), cos, sin)
    assert "rotary_embedding" not in chain.check(y, passes="fuse-rotary").ops


def other_rotations(chain: Chain) -> list[str]:
    first, second = halves(chain, "x", 8)
    return [
        chain("Concat", second, chain("Neg", first), axis=-1),
        chain("Concat", chain("Neg", first), second, axis=-1),
        chain("Concat", second, first, axis=-1),
        chain("Concat", chain("Neg", part(chain, "x", 3, 7)), first, axis=-1),
        chain("Concat", chain("Neg", part(chain, "z", 4, 8)), first, axis=-1),
        chain("Concat", chain("Neg", part(chain, "x", 7, 3, -1)), first, axis=-1),
    ]


@pytest.mark.parametrize("which", range(6))
def test_other_rotations(which: int) -> None:
    chain = Chain(x=values(2, 5, 8), z=values(2, 5, 8))
    outcome = chain.check(sum_of(chain, other_rotations(chain)[which]), passes="fuse-rotary")
    assert "rotary_embedding" not in outcome.ops


def test_a_table_that_enlarges_x() -> None:
    chain = Chain(x=values(5, 8))
    y = sum_of(chain, rotated(chain, "x", (5, 8), interleaved=False), doubled(values(2, 5, 4)))
    outcome = chain.check(y, passes="fuse-rotary")
    assert "rotary_embedding" not in outcome.ops
    assert "a table enlarges tensor<5x8xf32> to tensor<2x5x8xf32>" in outcome.missed[0]


def test_pairs_that_are_turned_the_other_way() -> None:
    chain = Chain(x=values(5, 8))
    first, second = halves(chain, "x", 8)
    cos, sin = values(5, 4), values(5, 4)
    total, difference = (
        chain("Add", chain("Mul", first, cos), chain("Mul", sin, second)),
        chain("Sub", chain("Mul", cos, second), chain("Mul", first, sin)),
    )
    outcome = chain.check(chain("Concat", total, difference, axis=-1), passes="fuse-rotary")
    assert "rotary_embedding" not in outcome.ops


def test_another_axis() -> None:
    chain = Chain(x=values(8, 8))
    first, second = halves(chain, "x", 8)
    pairs = turned_pairs(chain, first, second, values(8, 4), values(8, 4))
    outcome = chain.check(chain("Concat", *pairs, axis=0), passes="fuse-rotary")
    assert "rotary_embedding" not in outcome.ops


@pytest.mark.parametrize("form", ["sum", "pairs"])
def test_integers_are_not_turned(form: str) -> None:
    chain = Chain(x=np.arange(16, dtype=np.int32).reshape(2, 8))
    table = np.array([3, -1, 2, 5], np.int32)
    if form == "sum":
        turned = chain("Mul", rotated(chain, "x", (2, 8), interleaved=False), doubled(table))
        y = chain("Add", chain("Mul", "x", doubled(table)), turned)
    else:
        y = chain("Concat", *turned_pairs(chain, *halves(chain, "x", 8), table, table), axis=-1)
    outcome = chain.check(y, passes="fuse-rotary", rtol=0)
    assert outcome.ops["rotary_embedding"] == 0
    assert not outcome.missed


@pytest.mark.parametrize("inner", range(6))
def test_inner_values_that_are_outputs_stay(inner: int) -> None:
    chain = Chain(x=values(2, 5, 8))
    y = sum_of(chain, rotated(chain, "x", (2, 5, 8), interleaved=False))
    outcome = chain.check(y, f"v{inner}", passes="fuse-rotary")
    assert "rotary_embedding" not in outcome.ops
    assert outcome.missed[0].endswith("is also a graph output")


def test_tables_that_are_used_twice_are_halved_once() -> None:
    """Each of 12 squares reads the one before twice: the halves are as many operations as the two tables were."""
    c = Chain(x=np.float32([[1, 2, 3, 4]]), a=np.float32([[0.5, 0.25]]))
    table = c("Cos", c("Concat", "a", "a", axis=-1))
    for _ in range(12):
        table = c("Mul", table, table)
    first, second = c("Split", "x", outputs=2, axis=-1, num_outputs=2)
    rotated = c("Concat", c("Neg", second), first, axis=-1)
    y = c("Add", c("Mul", "x", table), c("Mul", rotated, table))
    outcome = c.check(y, passes="fuse-rotary")
    assert outcome.ops["rotary_embedding"] == 1
    assert outcome.ops["mul"] == 2 * 12


def test_halves_that_are_the_tables_too() -> None:
    """They belong to the group, and the new operation takes them: they stay."""
    c = Chain(x=values(3, 8))
    first, second = halves(c, "x", 8)
    pairs = (
        c("Sub", c("Mul", first, first), c("Mul", second, second)),
        c("Add", c("Mul", first, second), c("Mul", first, second)),
    )
    result = c.check(c("Concat", *pairs, axis=-1), passes="fuse-rotary")
    assert result.ops == {"slice": 2, "rotary_embedding": 1}
