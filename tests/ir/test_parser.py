"""Places of operations and faults, resources, location aliases, names and the syntax of memref operations."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FileLineColLoc,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
)

from mlopt.diagnostics import ParseFailure, Place
from mlopt.ir import (
    dense_to_array,
    make_context,
    parse_module,
    place_of,
    print_module,
    set_name,
    verify_module,
)
from tests.mlir_opt import check_with_mlir_opt


def fault(text: str) -> ParseFailure:
    with pytest.raises(ParseFailure) as failure:
        verify_module(parse_module(text, make_context(), "x.mlir"))
    return failure.value


def test_an_operation_without_location_gets_that_of_its_name() -> None:
    text = "func.func @f(%a: i32) -> i32 {\n  %0 = arith.addi %a, %a : i32\n  func.return %0 : i32\n}\n"
    module = parse_module(text, make_context(), "x.mlir")
    places = {op.name: place_of(op.location) for op in module.walk()}
    assert places["arith.addi"] == Place("x.mlir", 2, 8)
    assert places["func.return"] == Place("x.mlir", 3, 3)
    assert places["func.func"] == Place("x.mlir", 1, 1)
    argument = next(iter(module.ops)).regions[0].block.args[0]
    assert isinstance(argument.location, FileLineColLoc)


def test_first_line_moves_all_places() -> None:
    module = parse_module("%0 = arith.constant 1 : i32", make_context(), "x.mlir", first_line=11)
    assert place_of(next(iter(module.ops)).location) == Place("x.mlir", 11, 6)


def test_explicit_locations_are_kept_with_aliases_above_and_below() -> None:
    text = """
    #above = loc("a")
    %0 = arith.constant 1 : i32 loc(#above)
    %1 = arith.constant 2 : i32 loc(#loc2)
    %2 = arith.constant 3 : i32 loc(fused<"why">[#loc1, "z.py":3:4])
    #loc1 = loc("b")
    #loc2 = loc("c"(#loc1))
    """
    printed = print_module(parse_module(text, make_context()), debuginfo=True)
    for location in ['loc("a")', 'loc("c"("b"))', 'loc(fused<"why">["b", "z.py":3:4])']:
        assert location in printed
    assert print_module(parse_module(printed, make_context()), debuginfo=True) == printed


def test_locations_that_mlir_prints_are_read() -> None:
    text = 'func.func @f() {\n  %0 = arith.constant 1 : i32 loc("node"("q.py":1:2))\n  return\n}\n'
    printed = check_with_mlir_opt(text, "--mlir-print-debuginfo")
    assert "#loc" in printed
    assert 'loc("node"("q.py":1:2))' in print_module(parse_module(printed, make_context()), debuginfo=True)


def test_an_undefined_value_is_reported_where_it_is_used() -> None:
    error = fault("func.func @f() -> i32 {\n  %0 = arith.addi %b, %c : i32\n  func.return %0 : i32\n}")
    assert error.source_line == "  %0 = arith.addi %b, %c : i32"
    assert error.message == "use of undeclared SSA value name %b"
    assert error.place == Place("x.mlir", 2, 19)


def test_a_value_of_another_function_is_undefined_here() -> None:
    error = fault(
        "func.func @f() {\n  %0 = arith.addi %b, %b : i32\n  func.return\n}\nfunc.func @g(%b: i32) {\n  func.return\n}"
    )
    assert error.message == "use of undeclared SSA value name %b"
    assert error.place == Place("x.mlir", 2, 19)


LAUNCH = """
func.func @f() {
  %0 = kernel.launch @g outs(%o : tensor<2xi32>) {
  REGION
    kernel.yield %o : tensor<2xi32>
  } -> tensor<2xi32>
  func.return
}
"""


@pytest.mark.parametrize("region", ["", "^bb0(%o: tensor<2xi32>):", "%o = tensor.empty() : tensor<2xi32>"])
def test_an_operand_that_only_the_own_region_defines_is_undefined(region: str) -> None:
    error = fault(LAUNCH.replace("REGION", region))
    assert error.message == "use of undeclared SSA value name %o"
    assert error.place == Place("x.mlir", 3, 30)


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("x.y", "dialect 'x' of operation 'x.y' is not registered", (1, 1)),
        ("\n  arith.nope", "operation 'arith.nope' is not registered", (2, 3)),
        (
            "%0 = graph.rleu %x",
            "operation 'graph.rleu' is not registered; did you mean 'graph.relu'?",
            (1, 6),
        ),
        (
            "grpah.relu",
            "dialect 'grpah' of operation 'grpah.relu' is not registered; did you mean 'graph.relu'?",
            (1, 1),
        ),
        (
            "func.func @f() { retrun }",
            "operation 'retrun' is not registered; did you mean 'func.return'?",
            (1, 18),
        ),
        ("func.func @f() {", "expected", (1, 17)),
        ("%0:2 = arith.constant 1 : i32", "operation defines 1 results but was provided 2 to bind", (1, 1)),
        (
            "%0 = arith.constant 1 : i32\n%0 = arith.constant 1 : i32",
            "SSA value %0 is already defined",
            (2, 1),
        ),
        ("func.func @f(%a: !nope.type) {func.return}", "'nope.type' is not registered", (1, 18)),
        ("%0 = arith.constant dense_resource<a> : i32", "expected a shaped type for dense_resource", (1, 41)),
        ("\x00", "", (1, 1)),
        ("}", "expected an operation", (1, 1)),
    ],
)
def test_malformed_text(text: str, message: str, place: tuple[int, int]) -> None:
    error = fault(text)
    assert message.lower() in error.message.lower()
    assert error.place is not None and error.place.line == place[0]


def test_empty_text_is_an_empty_module() -> None:
    assert not list(parse_module("// nothing\n", make_context()).ops)


def test_regions_nested_too_deeply_are_an_error() -> None:
    error = fault("%c = arith.constant true\n" + "scf.if %c {\n" * 5000 + "}" * 5000)
    assert error.message == "the text is nested too deeply"


RESOURCES = """
%0 = arith.constant dense_resource<w> : tensor<2xf32>
{-#
  dialect_resources: { builtin: { w: "0x04000000BLOB" } },
  external_resources: { mlir_reproducer: { pipeline: "builtin.module(cse)", verify_each: true, n: 3 } }
#-}
"""


def test_resources_become_constants_and_never_mix() -> None:
    """Two texts with the same key, also in one context: each keeps its own data (xDSL loses the second)."""
    ctx = make_context()
    for blob, values in [("0000803F00000040", [1.0, 2.0]), ("00004040000080FF", [3.0, float("-inf")])]:
        (op,) = parse_module(RESOURCES.replace("BLOB", blob), ctx).ops
        value = op.properties["value"]
        assert isinstance(value, DenseIntOrFPElementsAttr)
        assert dense_to_array(value).tolist() == values


def test_an_elided_resource_stays_one() -> None:
    text = "%0 = arith.constant dense_resource<__elided__> : tensor<2xf32>"
    (op,) = parse_module(text, make_context()).ops
    assert isinstance(op.properties["value"], DenseResourceAttr)


@pytest.mark.parametrize(
    ("blob", "message"),
    [("00", "must hold 8 bytes, found 1"), ("ZZ", "no hexadecimal digit")],
)
def test_malformed_resources(blob: str, message: str) -> None:
    assert message in fault(RESOURCES.replace("BLOB", blob)).message


MEMREF = """builtin.module {
  memref.global "private" constant @c : memref<1x2xf32> = dense<[[1.500000e+00, 0x7F800000]]> {alignment = 64 : i64}
  memref.global "private" @w : memref<3x3xf32> = uninitialized
  memref.global @p : memref<i32> = dense<1>
  func.func @f(%a: memref<2xf32>, %b: memref<2xf32, strided<[1], offset: ?>>) {
    %0 = memref.cast %a : memref<2xf32> to memref<2xf32, strided<[1], offset: ?>>
    memref.copy %0, %b : memref<2xf32, strided<[1], offset: ?>> to memref<2xf32, strided<[1], offset: ?>>
    func.return
  }
}
"""


def test_upstream_memref_syntax() -> None:
    module = parse_module(MEMREF, make_context())
    verify_module(module)
    assert print_module(module) == MEMREF
    check_with_mlir_opt(MEMREF)
    generic = print_module(module, generic=True)
    assert '"memref.cast"' in generic
    assert print_module(parse_module(generic, make_context())) == MEMREF


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memref.global @g : i32 = dense<1>", "must be a static shaped memref"),
        ("memref.global @g : memref<2xf32>", "mlopt has no external globals"),
        (
            "memref.global @g : memref<2xf32> = uninitialized {alignment = 1.0 : f32}",
            "'alignment' must be an integer",
        ),
    ],
)
def test_malformed_memref_syntax(text: str, message: str) -> None:
    assert message in fault(text).message


def test_names_are_kept_and_made_unique() -> None:
    """`%x_1` keeps its suffix, and a second `%x` does not take a name that stands further down."""
    text = "%x = arith.constant 1 : i32\n%x_1 = arith.constant 2 : i32\n%y = arith.constant 3 : i32"
    module = parse_module(text, make_context())
    x, x_1, y = (op.results[0] for op in module.ops)
    assert "%x_1 = arith.constant 2" in print_module(module)
    set_name(y, "x")
    assert "%x_2 = arith.constant 3" in print_module(module)
    set_name(x_1, "x")
    set_name(x, "x_1")
    reread = print_module(parse_module(print_module(module), make_context()))
    assert reread == print_module(module)


@pytest.mark.parametrize(
    ("tensor", "name"),
    [
        ("onnx::MatMul_12", "onnx_MatMul_12"),
        ("1", "_1"),
        ("a b", "a_b"),
        ('q"', "q_"),
        ("é/x", "_x"),
        ("a.b-c$", "a.b-c$"),
    ],
)
def test_names_of_tensors(tensor: str, name: str) -> None:
    module = parse_module("%0 = arith.constant 1 : i32", make_context())
    set_name(next(iter(module.ops)).results[0], tensor)
    assert f"%{name} = arith.constant" in print_module(module)
    parse_module(print_module(module), make_context())


@pytest.mark.parametrize("name", ["é/x:0", 'a"b', "line\nbreak", "\N{SNOWMAN}", "\\C3", ""])
def test_strings_of_any_characters(name: str) -> None:
    ctx = make_context(allow_unregistered=True)
    (op,) = parse_module('"t.op"() {name = "x"} : () -> () loc("y")', ctx).ops
    op.attributes["name"] = StringAttr(name)
    op.location = NameLoc(StringAttr(name), NoneAttr())
    (back,) = parse_module(print_module(ModuleOp([op.clone()]), debuginfo=True), ctx).ops
    assert (back.attributes["name"], back.location) == (StringAttr(name), op.location)


def test_a_string_that_is_not_closed_takes_linear_time() -> None:
    error = fault('"' + "a " * 50_000 + "\n")
    assert error.message == "expected a string that ends on this line, with valid escapes"
    assert error.place == Place("x.mlir", 1, 1)


def test_elision() -> None:
    text = (
        "%0 = arith.constant dense<[1, 2, 3]> : tensor<3xi32>\n%1 = arith.constant dense<1> : tensor<9xi32>"
    )
    printed = print_module(parse_module(text, make_context()), elide_larger_than=2)
    assert "dense_resource<__elided__> : tensor<3xi32>" in printed
    assert "dense<1> : tensor<9xi32>" in printed
    assert print_module(parse_module(text, make_context()), elide_larger_than=3).count("elided") == 0
