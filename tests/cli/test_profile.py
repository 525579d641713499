"""`mlopt profile`: what launches do, counted by hand, and how it is shown. Never how long anything takes."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import mlopt
from mlopt.benchmark import profile as measuring
from mlopt.benchmark.profile import Launch, Profile, profile
from mlopt.benchmark.work import Work, WorkCounter
from mlopt.compilation import compile_model, load_model
from mlopt.ir import make_context, parse_module
from mlopt.ir.functions import find_main, only_block
from mlopt.options import CompileOptions
from mlopt.passes.pipelines import PipelineOptions
from tests.cli.mlopt_command import BATCH, Command


def model(
    nodes: Sequence[tuple[str, Sequence[str], str, dict[str, object]]],
    inputs: dict[str, tuple[int, ...]],
    output: tuple[int, ...],
    weights: dict[str, np.ndarray] | None = None,
) -> ModelProto:
    """Nodes (operator, inputs, output, attributes) of single precision; the last one's output is the model's."""
    made = [
        helper.make_node(kind, list(given), [result], name=f"n{i}", **attributes)
        for i, (kind, given, result, attributes) in enumerate(nodes)
    ]
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(nodes[-1][2], TensorProto.FLOAT, output)],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def work(source: ModelProto, optimize: bool = True) -> list[Work]:
    """What each operation of `@main` does that does anything."""
    options = CompileOptions(pipeline=PipelineOptions(optimize=optimize))
    compilation = compile_model(load_model(source, options))
    main = find_main(compilation.module)
    assert main is not None
    counter = WorkCounter(compilation.module)
    return [found for op in only_block(main).ops if (found := counter.of(op)) != Work()]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_a_matrix_product() -> None:
    """Two operations for each product; 3 x 5 and 5 x 7 floats are read, 3 x 7 written."""
    source = model([("MatMul", ["a", "b"], "y", {})], {"a": (3, 5), "b": (5, 7)}, (3, 7))
    assert work(source) == [Work(2 * 3 * 5 * 7, 4 * (15 + 35 + 21))]


def test_a_linear_layer() -> None:
    """A bias and a ReLU are two more operations for each number of the output."""
    nodes = [("Gemm", ["a", "w", "c"], "s", {}), ("Relu", ["s"], "y", {})]
    source = model(nodes, {"a": (3, 5)}, (3, 7), {"w": random(5, 7), "c": random(7)})
    assert work(source) == [Work(2 * 3 * 5 * 7 + 2 * 21, 4 * (15 + 35 + 7 + 21))]


def test_a_convolution() -> None:
    """4 filters of 2 channels and 3 x 3 taps over 8 x 8 positions; taps in the padding are not told apart."""
    nodes = [("Conv", ["x", "w"], "y", {"pads": [1, 1, 1, 1]})]
    source = model(nodes, {"x": (1, 2, 8, 8)}, (1, 4, 8, 8), {"w": random(4, 2, 3, 3)})
    assert work(source) == [Work(2 * 4 * 2 * 9 * 64, 4 * (2 * 64 + 4 * 2 * 9 + 4 * 64))]


def test_attention() -> None:
    """4 heads of 10 tokens and 8 numbers: two products, and a softmax of 5 operations a score.

    It takes the maximum, subtracts it, takes the exponential, sums and divides.
    """
    nodes = [
        ("Transpose", ["k"], "t", {"perm": [0, 1, 3, 2]}),
        ("MatMul", ["q", "t"], "s", {}),
        ("Softmax", ["s"], "p", {"axis": -1}),
        ("MatMul", ["p", "v"], "y", {}),
    ]
    source = model(nodes, dict.fromkeys("qkv", (1, 4, 10, 8)), (1, 4, 10, 8))
    product = Work(2 * 4 * 10 * 10 * 8, 4 * (2 * 4 * 10 * 8 + 4 * 10 * 10))
    softmax = Work(5 * 4 * 10 * 10, 4 * 2 * 4 * 10 * 10)
    assert work(source) == [product, softmax, product]
    transpose = Work(0, 4 * 2 * 4 * 10 * 8)
    assert work(source, optimize=False) == [transpose, product, softmax, product]


def test_elementwise_operations_and_what_fusion_saves() -> None:
    nodes = [("Add", ["a", "b"], "s", {}), ("Relu", ["s"], "y", {})]
    source = model(nodes, {"a": (6, 7), "b": (6, 7)}, (6, 7))
    assert work(source) == [Work(2 * 42, 4 * 3 * 42)]
    assert work(source, optimize=False) == [Work(42, 4 * 3 * 42), Work(42, 4 * 2 * 42)]


def test_only_what_is_accessed_counts() -> None:
    """Three rows of a hundred."""
    read = 4 * 3 * 7
    gather = model(
        [("Gather", ["w", "i"], "y", {})], {}, (3, 7), {"w": random(100, 7), "i": np.array([1, 5, 9])}
    )
    bounds = {"from": np.array([2]), "to": np.array([5])}
    piece = model([("Slice", ["x", "from", "to"], "y", {})], {"x": (100, 7)}, (3, 7), bounds)
    for source in (gather, piece):
        (found,) = work(source)
        assert found.flops == 0
        assert found.nbytes == 2 * read


LOOP = """
func.func @main(%arena: memref<0xi8> {mlopt.arena}, %x: memref<8xf32> {mlopt.input = "x"},
                %n: memref<i64> {mlopt.input = "n"}, %y: memref<8xf32> {mlopt.output = "y"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %trips = memref.load %n[] : memref<i64>
  %high = arith.index_cast %trips : i64 to index
  scf.for %i = %c0 to HIGH step %c1 {
    func.call @double(%x, %y) : (memref<8xf32>, memref<8xf32>) -> ()
  }
  return
}
func.func private @double(%X: memref<8xf32>, %Y: memref<8xf32>) {
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%X : memref<8xf32>) outs(%Y : memref<8xf32>) {
  ^bb0(%a: f32, %old: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  }
  return
}
"""


@pytest.mark.parametrize(("high", "trips", "is_all"), [("%c5", 5, True), ("%high", 1, False)])
def test_a_loop_counts_each_of_its_trips(high: str, trips: int, is_all: bool) -> None:
    """A number of trips that depends on data is not known: then it is one, and not all that there is."""
    module = parse_module(LOOP.replace("HIGH", high), make_context())
    main = find_main(module)
    assert main is not None
    counter = WorkCounter(module)
    (found,) = [counter.of(op) for op in only_block(main).ops if op.name == "scf.for"]
    assert found == Work(trips * 8, trips * 4 * (8 + 8), is_all)


def test_of_a_run_time_function_the_bytes_are_known() -> None:
    nodes = [("Det", ["x"], "y", {})]
    (found,) = work(model(nodes, {"x": (2, 3, 3)}, (2,)))
    assert found == Work(0, 4 * (2 * 9 + 2), is_all=False)


def test_every_launch_has_its_nodes_and_the_times_add_up() -> None:
    nodes = [("MatMul", ["a", "b"], "s", {}), ("Softmax", ["s"], "y", {})]
    compilation = compile_model(
        load_model(model(nodes, {"a": (3, 5), "b": (5, 7)}, (3, 7)), CompileOptions())
    )
    told: list[str] = []
    found = profile(compilation, repeat=5, watch=told.append)
    assert [launch.nodes for launch in found.launches] == [("n0",), ("n1",)]
    assert told == [f"run {i} of 5" for i in range(1, 6)]
    assert found.repeat == 5
    assert found.outside > 0
    assert found.seconds == pytest.approx(found.outside + sum(launch.seconds for launch in found.launches))
    assert found.work == found.launches[0].work.plus(found.launches[1].work)


def test_timing_changes_no_number() -> None:
    """The steps are the same ones; each run adds a time."""
    source = model(
        [("MatMul", ["a", "b"], "s", {}), ("Softmax", ["s"], "y", {})], {"a": (3, 5), "b": (5, 7)}, (3, 7)
    )
    compilation = compile_model(load_model(source, CompileOptions()))
    inputs = {"a": random(3, 5), "b": random(5, 7)}
    timed = measuring.load_executable(compilation, timed=True).executable
    np.testing.assert_array_equal(timed.run(inputs)["y"], mlopt.compile(source).run(inputs)["y"])
    assert [len(launch.seconds) for launch in timed.launches] == [1, 1]


def test_launches_of_a_wave_are_one() -> None:
    """Two products that may run at the same time can't be told apart by a clock outside of them."""
    nodes = [
        ("MatMul", ["a", "b"], "s", {}),
        ("MatMul", ["b", "a"], "t", {}),
        ("MatMul", ["s", "t"], "y", {}),
    ]
    source = model(nodes, {"a": (300, 300), "b": (300, 300)}, (300, 300))
    compilation = compile_model(load_model(source, CompileOptions(pipeline=PipelineOptions(waves=2))))
    found = profile(compilation, repeat=1)
    assert [launch.nodes for launch in found.launches] == [("n0", "n1"), ("n2",)]
    assert [launch.work.flops for launch in found.launches] == [4 * 300**3, 2 * 300**3]


def test_only_the_fastest_quarter_counts() -> None:
    """Of eight runs the two in 1 and 2 seconds, in which the launch took 0.5 and 1.5."""
    fastest = measuring._fastest([5.0, 1.0, 9.0, 7.0, 2.0, 8.0, 6.0, 3.0])  # pyright: ignore[reportPrivateUsage]
    assert fastest == [1, 4]
    assert measuring._mean([9.0, 0.5, 9.0, 9.0, 1.5], fastest) == 1.0  # pyright: ignore[reportPrivateUsage]
    assert measuring._fastest([3.0]) == [0]  # pyright: ignore[reportPrivateUsage]


MEASURED = Profile(
    (
        Launch("small", ("a",), 0.001, Work(3_000_000, 1_000_000)),
        Launch("large[b]", ("b", "c", "d"), 0.006, Work(12_000_000, 6_000_000)),
        Launch("sort", (), 0.002, Work(0, 500_000, is_all=False)),
    ),
    0.010,
    0.008,
    4,
)


def shown(mlopt: Command, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> list[list[str]]:
    monkeypatch.setattr(measuring, "profile", lambda *_, **__: MEASURED)
    done = mlopt("profile", "m.onnx", "--inputs", "io.npz", *arguments)
    assert done.code == 0
    assert max(len(line.rstrip()) for line in done.out.splitlines()) <= 80
    return [line.split() for line in done.out.splitlines()]


def test_figures_in_the_table(mlopt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """12 million operations in 6 ms are 2 a nanosecond, 6 million bytes 1. What sorting does is not known."""
    rows = shown(mlopt, monkeypatch)
    table = [row for row in rows if row and row[0].endswith("%")]
    assert table == [
        ["60.0%", "6.000", "2.00", "1.00", "large[b]", "d", "(+2)"],
        ["20.0%", "2.000", "0.25", "sort"],
        ["10.0%", "1.000", "3.00", "1.00", "small", "a"],
        ["10.0%", "1.000", "between", "launches"],
        ["100.0%", "10.000", "1.50", "0.75", "run"],
    ]
    text = "\n".join(" ".join(row) for row in rows)
    assert "m.onnx: 3 launches, 4 runs" in text
    assert "a run does 15,000,000 scalar operations, and reads and writes 7,500,000 bytes" in text
    assert "timing the launches changes the time of a run by +25.0%: it is 8.000 ms without" in text


def test_launches_that_are_not_shown_are_added_up(mlopt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = shown(mlopt, monkeypatch, "--top", 1)
    assert ["30.0%", "3.000", "1.00", "0.50", "2", "others"] in rows
    assert not any("sort" in row for row in rows)


def test_files_have_all_launches_in_order(mlopt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    shown(mlopt, monkeypatch, "--top", 1, "--csv", "p.csv", "--json", "p.json", "--report", "r.json")
    rows = list(csv.DictReader(Path("p.csv").read_text().splitlines()))
    assert [(row["launch"], row["kernel"], row["nodes"]) for row in rows] == [
        ("0", "small", "a"),
        ("1", "large[b]", "b c d"),
        ("2", "sort", ""),
    ]
    assert float(rows[1]["share"]) == 0.6
    assert rows[2]["complete"] == "False"
    found = json.loads(Path("p.json").read_text())
    assert found == json.loads(Path("r.json").read_text())["profile"]
    assert (found["flops"], found["bytes"], found["run_s"], found["run_untimed_s"]) == (
        15e6,
        7.5e6,
        0.010,
        0.008,
    )
    assert [launch["flops"] for launch in found["launches"]] == [3e6, 12e6, 0]
    assert found["launches"][1]["nodes"] == ["b", "c", "d"]


def test_a_run_without_a_time_has_no_rates(monkeypatch: pytest.MonkeyPatch, mlopt: Command) -> None:
    empty = replace(MEASURED, launches=(Launch("fast", (), 0.0, Work(1, 1)),), seconds=0.0, plain_seconds=0.0)
    monkeypatch.setattr(measuring, "profile", lambda *_, **__: empty)
    assert mlopt("profile", "m.onnx", "--inputs", "io.npz", "--json", "p.json").code == 0


def test_a_model_is_measured(mlopt: Command) -> None:
    done = mlopt("profile", "m.onnx", "--dim", f"batch={BATCH}", "--repeat", 2, "--json", "p.json")
    assert done.code == 0
    assert "seeded random inputs" in done.err
    found = json.loads(Path("p.json").read_text())
    assert found["repeat"] == 2
    assert all(launch["seconds"] > 0 for launch in found["launches"])


@pytest.mark.parametrize("arguments", [("--repeat", "0"), ("--top", "x")])
def test_wrong_command_lines(arguments: tuple[str, str], mlopt: Command) -> None:
    assert mlopt("profile", "m.onnx", *arguments).code == 2


def test_a_model_that_is_not_there_is_all_that_is_said(mlopt: Command) -> None:
    done = mlopt("profile", "none.onnx")
    assert done.code == 1
    assert done.err == "none.onnx: error: expected an ONNX model, found no such file\n"
