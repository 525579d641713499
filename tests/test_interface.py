"""What `@main` must be: every interface that no caller could use is refused before anything is compiled."""

from __future__ import annotations

import numpy as np
import pytest

import mlopt
from mlopt.ir import make_context, parse_module
from mlopt.passes.registry import load_pass

COPY = """
func.func @main({extra}%x: memref<8xi8> {{{x}}}, %y: memref<8xi8> {{{y}}}) {{
  memref.copy %x, %y : memref<8xi8> to memref<8xi8>
  return
}}
"""
X, Y = 'mlopt.input = "x"', 'mlopt.output = "y"'


def copy(x: str = X, y: str = Y, extra: str = "") -> str:
    return COPY.format(x=x, y=y, extra=extra)


TENSORS = """
func.func @main(%x: tensor<8xi8> {{mlopt.name = "x"{x}}}) -> (tensor<8xi8> {y}, tensor<8xi8> {z}) {{
  return %x, %x : tensor<8xi8>, tensor<8xi8>
}}
"""


def tensors(x: str = "", y: str = '{mlopt.name = "y"}', z: str = '{mlopt.name = "z"}') -> str:
    return TENSORS.format(x=x, y=y, z=z)


HUGE = """
func.func @main(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
  %0 = graph.relu %x : tensor<{shape}xf32>
  return %0 : tensor<{shape}xf32>
}}
"""
MEMREF_RESULT = """
func.func @main(%x: memref<8xf32> {mlopt.input = "x"}) -> memref<8xf32> {
  return %x : memref<8xf32>
}
"""


def test_signs_at_the_interface() -> None:
    """The bytes are the same with either sign: 200 is -56."""
    x = np.array([200, 1, 2, 3, 4, 5, 6, 7], np.uint8)
    unsigned = mlopt.compile(copy(f'{X}, mlopt.dtype = "uint8"', f'{Y}, mlopt.dtype = "uint8"'))
    np.testing.assert_array_equal(unsigned.run({"x": x})["y"], x)
    mixed = mlopt.compile(copy(f'{X}, mlopt.dtype = "uint8"'))
    np.testing.assert_array_equal(mixed.run({"x": x})["y"], x.view(np.int8))


def test_an_input_and_an_output_may_share_a_name() -> None:
    assert list(mlopt.compile(tensors(y='{mlopt.name = "x"}')).run({"x": np.zeros(8, np.int8)})) == ["x", "z"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (text, "as the mlopt.dtype of")
            for dtype in ('"float64"', '"int8"', '"uint16"', '"banana"', '"object"', '""', "8 : i32")
            for text in (
                copy(x=f"{X}, mlopt.dtype = {dtype}"),
                copy(y=f"{Y}, mlopt.dtype = {dtype}"),
                tensors(x=f", mlopt.dtype = {dtype}"),
                tensors(y=f"{{mlopt.dtype = {dtype}}}"),
            )
        ),
        (copy(extra=f"%z: memref<8xi8> {{{X}}}, "), "two inputs 'x'"),
        (copy(extra=f"%z: memref<8xi8> {{{Y}}}, "), "two outputs 'y'"),
        (tensors(z='{mlopt.name = "y"}'), "two outputs 'y'"),
        (copy(x="mlopt.input = 1 : i32"), "expected a string as the name of an input"),
        (
            copy(extra="%a: memref<8xi8> {mlopt.arena}, %b: memref<8xi8> {mlopt.arena}, "),
            "expected one arena in memory space 0, found 2",
        ),
        (
            copy(extra="%a: memref<8xf32> {mlopt.arena}, "),
            "expected an arena of bytes (memref<Nxi8>), found memref<8xf32>",
        ),
        (
            copy(extra="%a: memref<8xi8> {mlopt.arena}, %b: memref<8xf32, 1> {mlopt.arena}, "),
            "expected an arena of bytes (memref<Nxi8>), found memref<8xf32, 1 : i64>",
        ),
        (
            copy(extra="%a: memref<8xi8, 1> {mlopt.arena}, "),
            "expected an arena in memory space 0, where kernels work, found one in 1",
        ),
        (
            copy(extra='%a: memref<8xi8, "far"> {mlopt.arena}, '),
            'expected a whole number as the memory space of a buffer, found "far"',
        ),
        (MEMREF_RESULT, "found a memref as its result"),
        (
            HUGE.format(shape="99999999999x99999999999"),
            "f32> is too large: expected at most 68719476736 elements",
        ),
        (HUGE.format(shape="99999999999999999999999999"), "elements, found 99999999999999999999999999"),
        (HUGE.format(shape="262144x262145"), "elements, found 68719738880"),
    ],
)
def test_interfaces_that_no_caller_could_use(text: str, message: str) -> None:
    with pytest.raises(mlopt.InputError) as error:
        mlopt.compile(text)
    assert message in error.value.message
    assert error.value.place is not None and error.value.place.line in (2, 3)


BRANCH = """  cf.br ^bb1
^bb1:
"""
MEMREF_FUNCTION = """func.func @main(%x: memref<8xi8> {mlopt.input = "x"}, %y: memref<8xi8> {mlopt.output = "y"}) {
  func.call @f(%x, %y) : (memref<8xi8>, memref<8xi8>) -> ()
  return
}
func.func private @f(%x: memref<8xi8>, %y: memref<8xi8>) {
  cf.br ^bb1
^bb1:
  memref.copy %x, %y : memref<8xi8> to memref<8xi8>
  return
}
"""
BRANCHES = [
    (copy().replace("  memref.copy", BRANCH + "  memref.copy"), "main", 3),
    (MEMREF_FUNCTION, "f", 6),
    (tensors().replace("  return", BRANCH + "  return"), "main", 3),
    (
        tensors().replace("  return", "  %e = tensor.empty() : tensor<8xi8>\n" + BRANCH + "  return"),
        "main",
        4,
    ),
]


@pytest.mark.parametrize(("text", "name", "line"), BRANCHES)
def test_branches_between_blocks_are_refused_at_the_branch(text: str, name: str, line: int) -> None:
    message = f"'@{name}' has several blocks, expected one: control flow is scf"
    with pytest.raises(mlopt.MloptError, match=message) as error:
        mlopt.compile(text)
    assert error.value.place is not None and error.value.place.line == line


@pytest.mark.parametrize(
    ("pass_name", "case"),
    [
        ("plan-workspaces", 0),
        ("plan-workspaces", 1),
        ("assign-buffers", 0),
        ("assign-buffers", 1),
        ("convert-kernel-to-memref", 2),
        ("convert-kernel-to-memref", 3),
    ],
)
def test_a_pass_that_needs_one_block_says_so(pass_name: str, case: int) -> None:
    text, name, line = BRANCHES[case]
    context = make_context()
    module = parse_module(text, context)
    with pytest.raises(mlopt.MloptError, match=f"'@{name}' has several blocks") as error:
        load_pass(pass_name)().run(context, module)
    assert error.value.place is not None and error.value.place.line == line


IN_MEMORY = """func.func @main(%x: {type} {{mlopt.input = "x"}}, %y: memref<8xf32> {{mlopt.output = "y"}}) {{
  return
}}
"""
VALUES = """func.func @main(%x: {type}) -> {type} {{
  return %x : {type}
}}
"""


@pytest.mark.parametrize(
    "type_", ["f32", "vector<4xf32>", 'tensor<4xf32, "sparse">', "tensor<*xf32>", "index"]
)
def test_values_that_are_no_plain_tensors_are_named(type_: str) -> None:
    with pytest.raises(mlopt.InputError) as error:
        mlopt.compile(VALUES.format(type=type_))
    assert "argument 0 of @main has the type" in error.value.message
    assert error.value.message.endswith("expected a tensor")


@pytest.mark.parametrize(
    "type_",
    [
        "f32",
        "memref<*xf32>",
        "memref<?xf32>",
        "tensor<4xf32>",
        "memref<2x3xf32, strided<[1, 2]>>",
        "memref<2x3xf32, strided<[4, 1]>>",
        "memref<2x3xf32, strided<[3, 1], offset: 3>>",
        "memref<2x3xf32, strided<[3, 1], offset: ?>>",
        "memref<2x3xf32, affine_map<(d0, d1) -> (d1, d0)>>",
    ],
)
def test_buffers_that_are_not_whole_in_row_major_order_are_named(type_: str) -> None:
    """A caller's array is bytes in row-major order; a buffer with other strides would read others of them."""
    with pytest.raises(mlopt.InputError) as error:
        mlopt.compile(IN_MEMORY.format(type=type_))
    assert "argument 0 of @main has the type" in error.value.message
    assert error.value.message.endswith("expected a memref of static shape in row-major order")


def test_strides_that_say_row_major() -> None:
    t = "memref<2x1x3xf32, strided<[3, 7, 1]>>"
    text = f"""func.func @main(%x: {t} {{mlopt.input = "x"}}, %y: memref<2x1x3xf32> {{mlopt.output = "y"}}) {{
  memref.copy %x, %y : {t} to memref<2x1x3xf32>
  return
}}
"""
    x = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    np.testing.assert_array_equal(mlopt.compile(text).run({"x": x})["y"], x)


EXTENT = """
func.func @main(%x: tensor<3x8xi8> {{mlopt.name = "x"}}, %n: {type} {{mlopt.name = "n"}})
    -> (tensor<3x8xi8> {{mlopt.name = "y"}}, {type} {{mlopt.extent = {extent}}}) {{
  return %x, %n : tensor<3x8xi8>, {type}
}}
"""


def test_an_output_is_cut_to_its_extent() -> None:
    """A number that is no size of the output ends the run."""
    model = mlopt.compile(EXTENT.format(type="tensor<i64>", extent='{of = "y", axis = 1 : i64}'))
    x = np.arange(24, dtype=np.int8).reshape(3, 8)
    for size in (0, 5, 8):
        assert model.run({"x": x, "n": np.array(size)})["y"].tolist() == x[:, :size].tolist()
    for size in (-1, 9):
        with pytest.raises(
            mlopt.RunError, match=f'output "y" has the extent {size} along axis 1, of 8 elements'
        ):
            model.run({"x": x, "n": np.array(size)})


@pytest.mark.parametrize(
    ("type", "extent", "message"),
    [
        ("tensor<i32>", '{of = "y", axis = 1 : i64}', "expected an i64 that is the extent"),
        ("tensor<1xi64>", '{of = "y", axis = 1 : i64}', "expected an i64 that is the extent"),
        ("tensor<i64>", '{of = "z", axis = 1 : i64}', "expected an i64 that is the extent"),
        ("tensor<i64>", '{of = "y"}', "expected an i64 that is the extent"),
        ("tensor<i64>", '"y"', "expected an i64 that is the extent"),
        ("tensor<i64>", '{of = "y", axis = 2 : i64}', 'output "y" has no axis 2'),
        ("tensor<i64>", '{of = "y", axis = -1 : i64}', 'output "y" has no axis -1'),
    ],
)
def test_an_extent_says_what_it_is_of(type: str, extent: str, message: str) -> None:
    with pytest.raises(mlopt.InputError, match=message):
        mlopt.compile(EXTENT.format(type=type, extent=extent))
