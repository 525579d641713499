"""`mlopt check`: what is in a model, how far it comes, and everything that stands in the way in one list."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.mlopt_command import BATCH, Command, files


def rows(text: str) -> dict[str, str]:
    """The first word of each line and what follows it; of lines with one word the last counts."""
    return {
        line.split(maxsplit=1)[0]: line.split(maxsplit=1)[-1] for line in text.splitlines() if line.strip()
    }


def model_of(*nodes: onnx.NodeProto, extents: list[str | int], outputs: list[str]) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, extents)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_a_model_that_compiles(mlopt: Command) -> None:
    before = files()
    done = mlopt("check", "m.onnx", "--dim", f"batch={BATCH}")
    assert done.code == 0
    found = rows(done.out)
    assert found["format"] == "ONNX, IR version 8"
    assert "ai.onnx 18" in found["operator"]
    assert found["input"] == "x float [batch, 8]"
    assert found["output"] == "y float [batch, 3]"
    assert found["dimensions"] == f"x [{BATCH}, 8]"
    # The nodes of tests/small_models.py.
    assert "9 of 5 kinds: MatMul 3, Add 2, Relu 2, Exp 1, Softmax 1" in done.out
    assert all(stage in found for stage in ("import", "graph", "kernel", "memref", "load"))
    assert done.out.endswith("m.onnx can be compiled\n")
    assert files() == before


def test_no_two_rows_have_the_same_name(mlopt: Command) -> None:
    """But for inputs and outputs, of which there may be several."""
    lines = mlopt("check", "m.onnx", "--dim", f"batch={BATCH}").out.splitlines()[:-1]
    names = [line[:15].strip() for line in lines if line[:15].strip()]
    assert [name for name in names if names.count(name) > 1 and name not in ("input", "output")] == []
    assert {"operators", "support"} <= set(names)


def test_reports_and_remarks_of_what_compiles(mlopt: Command) -> None:
    done = mlopt("check", "m.onnx", "--inputs", "io.npz", "--report", "r.json", "--remarks")
    assert done.code == 0
    for name in ("fuse-linear", "assign-buffers"):  # rewrites and figures
        assert f"remark: [{name}]" in done.err
    assert json.loads(Path("r.json").read_text())["ops"]["imported"] == 9


def test_dimensions_come_from_inputs_too(mlopt: Command) -> None:
    done = mlopt("check", "m.onnx", "--inputs", "io.npz", "-q")
    assert (done.code, done.out) == (0, "m.onnx can be compiled\n")


def test_missing_dimensions_say_how_to_give_them(mlopt: Command) -> None:
    done = mlopt("check", "m.onnx")
    assert done.code == 1
    assert "m.onnx lacks sizes to be compiled (1):" in done.out
    assert 'no value for the symbolic dimension "batch" (x axis 0)' in done.out
    assert "--dim batch=1" in done.out
    assert rows(done.out)["dimensions"] == "not all given"
    assert "import" not in rows(done.out)


def test_everything_in_one_list(mlopt: Command) -> None:
    """Two operators that nobody has, one of them twice, and a dimension without a number."""
    model = model_of(
        helper.make_node("Frobnicate", ["x"], ["a"], "first", domain="some.domain"),
        helper.make_node("Frobnicate", ["a"], ["b"], "second", domain="some.domain"),
        helper.make_node("Bogus", ["b"], ["y"], "third"),
        extents=["n", 4],
        outputs=["y"],
    )
    model.opset_import.append(helper.make_opsetid("some.domain", 3))
    onnx.save(model, "bad.onnx")
    done = mlopt("check", "bad.onnx")
    assert done.code == 1
    lines = done.out.splitlines()
    start = lines.index("bad.onnx can't be compiled; in the way (3):")
    assert lines[start + 1] == (
        "  1. unsupported operator some.domain.Frobnicate (opset 3): 2 nodes (first, second)"
    )
    assert lines[start + 2] == "  2. unsupported operator ai.onnx.Bogus (opset 18): 1 node (third)"
    assert lines[start + 3].startswith('  3. no value for the symbolic dimension "n" (x axis 0)')


def test_an_error_of_the_import_names_the_node(mlopt: Command) -> None:
    """A matmul of [3, 4] and [3, 4] has no meaning."""
    onnx.save(
        model_of(helper.make_node("MatMul", ["x", "x"], ["y"], "product"), extents=[3, 4], outputs=["y"]),
        "bad.onnx",
    )
    done = mlopt("check", "bad.onnx")
    assert done.code == 1
    assert rows(done.out)["import"] == "failed"
    assert '  1. node "product": error: MatMul' in done.out


def test_textual_models(mlopt: Command) -> None:
    assert mlopt("import", "m.onnx", "--dim", f"batch={BATCH}", "-o", "g.mlir").code == 0
    done = mlopt("check", "g.mlir")
    assert done.code == 0
    assert rows(done.out)["format"] == "MLIR, level 'graph'"
    assert rows(done.out)["input"] == f"x tensor<{BATCH}x8xf32>"
    assert rows(done.out)["output"] == f"y tensor<{BATCH}x3xf32>"
    assert mlopt("compile", "g.mlir", "-o", "c.mlir").code == 0
    done = mlopt("check", "c.mlir")
    assert done.code == 0
    assert rows(done.out)["format"] == "MLIR, level 'memref'"
    assert rows(done.out)["output"] == f"y memref<{BATCH}x3xf32>"


def test_missing_weights_stand_in_the_way(mlopt: Command) -> None:
    assert mlopt("compile", "m.onnx", "--dim", f"batch={BATCH}", "-o", "c.mlir").code == 0
    Path("c.safetensors").unlink()
    done = mlopt("check", "c.mlir")
    assert done.code == 1
    assert rows(done.out)["load"] == "failed"
    assert "in the way (1):" in done.out


def test_the_model_is_not_executed(mlopt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlopt.interpreter.memref import Executable

    def refuse(*_: object) -> dict[str, np.ndarray]:
        raise AssertionError("the model ran")

    monkeypatch.setattr(Executable, "run", refuse)
    assert mlopt("check", "m.onnx", "--dim", f"batch={BATCH}").code == 0


def test_a_file_that_is_no_model(mlopt: Command) -> None:
    done = mlopt("check", "io.npz")
    assert done.code == 1
    assert "expected an ONNX model" in done.err
    assert done.out == ""


def test_every_node_that_breaks_a_rule_is_listed(mlopt: Command) -> None:
    """Together with what is not supported, in one list."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "one", slope=0.5),
        helper.make_node("Add", ["a"], ["b"], "two"),
        helper.make_node("Mystery", ["b"], ["c"], "three", domain=""),
    ]
    onnx.save(model_of(*nodes, extents=[2, 8], outputs=["c"]), "broken.onnx")
    done = mlopt("check", "broken.onnx")
    assert done.code == 1
    assert "in the way (3):" in done.out
    assert 'node "one": Relu: has no attribute "slope" at opset 18; its attributes are: none' in done.out
    assert 'node "two": Add: expected 2 inputs at opset 18, found 1' in done.out
    assert "ai.onnx.Mystery (opset 18): 1 node (three)" in done.out


def test_every_node_that_the_import_refuses_is_listed(mlopt: Command) -> None:
    """Two axes that a matrix does not have, side by side; one behind a fault whose type the model declares; and a node
    behind a fault without a declaration, of which nothing can be said.
    """
    nodes = [
        helper.make_node("Softmax", ["x"], ["a"], "one", axis=5),
        helper.make_node("Softmax", ["x"], ["b"], "two", axis=6),
        helper.make_node("Softmax", ["a"], ["c"], "three", axis=7),
        helper.make_node("Softmax", ["b"], ["d"], "four", axis=8),
        helper.make_node("Sum", ["c", "d"], ["y"], "five"),
    ]
    model = model_of(*nodes, extents=["n", 4], outputs=["y"])
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 4]))
    onnx.save(model, "bad.onnx")
    done = mlopt("check", "bad.onnx", "--dim", "n=3")
    assert done.code == 1
    assert "in the way (3):" in done.out
    for number, (name, axis) in enumerate((("one", 5), ("two", 6), ("three", 7)), 1):
        assert f'{number:3}. node "{name}": error: Softmax' in done.out
        assert f"found {axis}" in done.out


def test_every_fault_of_the_graph_is_listed(mlopt: Command) -> None:
    """A value that nothing defines, a cycle of two nodes, a value defined twice, and an operator that there is not."""
    nodes = [
        helper.make_node("Relu", ["nowhere"], ["a"], "undefined"),
        helper.make_node("Add", ["a", "c"], ["b"], "first"),
        helper.make_node("Relu", ["b"], ["c"], "second"),
        helper.make_node("Relu", ["x"], ["a"], "again"),
        helper.make_node("Mystery", ["c"], ["y"], "unknown"),
    ]
    onnx.save(model_of(*nodes, extents=[3, 4], outputs=["y"]), "bad.onnx")
    done = mlopt("check", "bad.onnx")
    assert done.code == 1
    assert "in the way (4):" in done.out
    assert rows(done.out)["structure"] == "failed"
    for text in (
        'node "undefined": error: Relu: uses the value "nowhere", which no node, input or initializer defines',
        'node "first": error: Add: uses the value "c", which depends on this node itself (the graph has a cycle)',
        'node "again": error: Relu: defines the value "a", which node "undefined" defines already',
        "unsupported operator ai.onnx.Mystery (opset 18): 1 node (unknown)",
    ):
        assert text in done.out


def test_names_with_ends_of_lines_and_tabs_stay_in_their_lines(mlopt: Command) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a\nb"], "relu\n999. fake"),
        helper.make_node("Softmax", ["a\nb"], ["y\tz"], "bad\nnode", axis=5),
        helper.make_node("Add", ["x"], ["c"], "bad\x1b[31mrule"),
    ]
    onnx.save(model_of(*nodes[:2], extents=[3, 4], outputs=["y\tz"]), "import.onnx")
    done = mlopt("check", "import.onnx")
    assert "output         y\\tz float" in done.out
    assert '  1. node "bad\\nnode": error: Softmax' in done.out
    onnx.save(model_of(nodes[0], nodes[2], extents=[3, 4], outputs=["a\nb"]), "rule.onnx")
    done = mlopt("check", "rule.onnx")
    assert '  1. node "bad\\x1b[31mrule": Add: expected 2 inputs' in done.out
    onnx.save(model_of(nodes[0], extents=[3, 4], outputs=["a\nb"]), "good.onnx")
    assert "a\\nb: float32 [3, 4]" in mlopt("run", "good.onnx").err
    done = mlopt("memory", "good.onnx", "-v")
    assert done.code == 0 and "\n999. fake" not in done.out
