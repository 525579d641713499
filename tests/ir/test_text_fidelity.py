"""Constants keep their bits through print and parse, and through the real `mlir-opt`.

The right value is always the bytes that went in; xDSL alone reads hexadecimal elements of a list as integers.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
    f32,
    f64,
)
from xdsl.ir import Attribute

from mlopt.diagnostics import ParseFailure
from mlopt.ir import array_to_dense, dense_to_array, make_context, parse_module, print_module
from mlopt.ir.dense import FLOAT_DTYPES, float_width
from mlopt.ir.parser import MloptParser
from tests.mlir_opt import check_with_mlir_opt

FLOAT_TYPES = sorted(FLOAT_DTYPES)


def element_type(name: str) -> Attribute:
    return MloptParser(make_context(), name).parse_type()


def module_of(value: DenseIntOrFPElementsAttr) -> ModuleOp:
    return ModuleOp([ConstantOp(value)])


def constant_of(module: ModuleOp) -> DenseIntOrFPElementsAttr:
    (op,) = module.ops
    assert isinstance(op, ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr)
    return op.value


def reread(value: DenseIntOrFPElementsAttr) -> DenseIntOrFPElementsAttr:
    return constant_of(parse_module(print_module(module_of(value)), make_context()))


def all_bits(name: str) -> np.ndarray:
    """Every bit pattern of a float type of up to 16 bits; for wider ones the ends and the specials."""
    dtype, width = FLOAT_DTYPES[name], float_width(element_type(name))
    if width <= 16:
        return np.arange(1 << width, dtype=f"u{dtype.itemsize}")
    one_bits = [1 << i for i in range(width)]
    ends = [0, (1 << width) - 1, (1 << (width - 1)) - 1]
    values = np.array(
        [np.inf, -np.inf, np.nan, -0.0, 2.0**24, 2.0**24 + 2, 2.0**31, 2.0**63, 1e30, 0.1, 1e-40, -1.0]
    )
    with np.errstate(over="ignore"):
        special = values.astype(dtype).view(f"u{dtype.itemsize}").tolist()
    signalling_nan = [0x7FA00000] if width == 32 else [0x7FF4000000000000]
    return np.array([*one_bits, *ends, *special, *signalling_nan], dtype=f"u{dtype.itemsize}")


def small_pieces(bits: np.ndarray, size: int = 64) -> list[np.ndarray]:
    return [bits[i : i + size] for i in range(0, len(bits), size)]


@pytest.mark.parametrize("name", FLOAT_TYPES)
def test_every_float_keeps_its_bits_in_a_list(name: str) -> None:
    bits = all_bits(name)
    step = max(1, len(bits) // 64 // 32)
    for piece in small_pieces(bits)[::step]:
        value = DenseIntOrFPElementsAttr(
            TensorType(element_type(name), [len(piece)]), BytesAttr(piece.tobytes())
        )
        assert reread(value).data.data == piece.tobytes()


@pytest.mark.parametrize("name", FLOAT_TYPES)
def test_splats_and_hexadecimal_strings_keep_their_bits(name: str) -> None:
    bits = all_bits(name)
    splats = [np.full(7, pattern, bits.dtype) for pattern in bits[:: max(1, len(bits) // 40)]]
    for piece in [*splats, np.resize(bits, 256)]:
        value = DenseIntOrFPElementsAttr(
            TensorType(element_type(name), [len(piece)]), BytesAttr(piece.tobytes())
        )
        assert reread(value).data.data == piece.tobytes()


@given(
    st.lists(
        st.one_of(
            st.floats(width=32), st.sampled_from([np.inf, -np.inf, -0.0, 2.0**24, 16777217.0, 2.0**100])
        ),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=60, deadline=None)
def test_random_f32_lists(values: list[float]) -> None:
    array = np.array(values, np.float32)
    assert dense_to_array(reread(array_to_dense(array))).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.array([2**63 - 1, -(2**63), 0, -1], np.int64),
        np.array([2**64 - 1, 2**63, 0], np.uint64),
        np.array([127, -128], np.int8),
        np.array([255, 0], np.uint8),
        np.array([[True, False, True], [False, False, True]]),
        np.arange(1000, dtype=np.int16).reshape(10, 100),
        np.resize([True, False, False], 129),
        np.resize([True, False], (16, 8)),
        np.zeros((3, 0, 2), np.float32),
        np.array(5.0, np.float64),
        np.array([complex(np.inf, -0.0), complex(2**24, np.nan)], np.complex64),
        np.arange(200, dtype=np.complex128),
    ],
    ids=lambda array: f"{array.dtype}{list(array.shape)}",
)
def test_arrays_keep_their_bits(array: np.ndarray) -> None:
    back = dense_to_array(reread(array_to_dense(array)))
    assert back.dtype == array.dtype and back.shape == array.shape and back.tobytes() == array.tobytes()


def test_what_is_printed_means_the_same_to_mlir() -> None:
    """`mlir-opt` prints what it read in its own way; reading that gives the bytes that went in."""
    arrays = [
        np.array([np.inf, -np.inf, np.nan, -0.0, 2.0**24, 2.0**24 + 2, 0.1, 1e-40, 3.4e38], np.float32),
        np.array([0x7FC00001, 0xFFC12345, 0x7F800000], np.uint32).view(np.float32),
        np.array([np.inf, 2.0**53, 1e300, -0.0], np.float64),
        np.array([np.inf, -0.0, 65504, 6e-8], np.float16),
        np.array([np.inf, -0.0, 1e30, 3.0], np.float32).astype(FLOAT_DTYPES["bf16"]),
        np.array([448, -0.0, 0.5], np.float32).astype(FLOAT_DTYPES["f8E4M3FN"]),
        np.array([2**63 - 1, -(2**63)], np.int64),
        np.array([True, False, True]),
        np.resize([True, False, False], 129),
        np.arange(300, dtype=np.int32),
        np.full((4, 4), np.inf, np.float32),
        np.array([complex(1, -2), complex(np.inf, 0)], np.complex64),
    ]
    module = ModuleOp([ConstantOp(array_to_dense(array)) for array in arrays])
    back = parse_module(check_with_mlir_opt(print_module(module)), make_context())
    for op, array in zip(back.ops, arrays, strict=True):
        assert isinstance(op, ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr)
        assert dense_to_array(op.value).tobytes() == array.tobytes(), print_module(module)


def test_scalars_and_arrays_of_floats() -> None:
    text = """
    %0 = arith.constant 0x7F800000 : f32
    %1 = arith.constant -0.0 : f32
    %2 = arith.constant 0xFF80 : bf16
    %3 = arith.constant 0x7FF0000000000000 : f64
    %4 = arith.constant 1.0e40 : f32
    "test.op"() {values = array<f32: 0x7F800000, -0.0, 16777216.0>, flags = array<i1: true, false>} : () -> ()
    """
    ctx = make_context(allow_unregistered=True)
    printed = print_module(parse_module(text, ctx))
    for expected in [
        "0x7F800000 : f32",
        "-0.000000e+00 : f32",
        "0xFF80 : bf16",
        "0x7FF0000000000000 : f64",
        "array<f32: 0x7F800000, -0.000000e+00, 0x4B800000>",
        "array<i1: true, false>",
    ]:
        assert expected in printed
    assert print_module(parse_module(printed, ctx)) == printed


def test_i1_is_bit_packed_as_in_mlir() -> None:
    text = print_module(module_of(array_to_dense(np.resize([True, False], 128))))
    assert f'dense<"0x{"55" * 16}"> : tensor<128xi1>' in text


@pytest.mark.parametrize(
    ("literal", "message"),
    [
        (
            "dense<[1.0, 2.0]> : tensor<3xf32>",
            "inferred shape of elements literal ([2]) does not match type ([3])",
        ),
        ("dense<[[1.0], [1.0, 2.0]]> : tensor<2x2xf32>", "ranks are not consistent"),
        (
            "dense<0x1FFFFFFFF> : tensor<2xf32>",
            "hexadecimal float literal 0x1FFFFFFFF is out of range for type f32",
        ),
        ("dense<-0x1> : tensor<2xf32>", "takes no sign"),
        ("dense<300> : tensor<2xi8>", "integer literal 300 is out of range for type i8"),
        ("dense<-1> : tensor<2xui8>", "integer literal -1 is out of range for type ui8"),
        ("dense<1.5> : tensor<2xi8>", "expected an integer literal for type i8, found 1.5"),
        ("dense<true> : tensor<2xf32>", "expected a literal of type f32, found a boolean"),
        ('dense<"0x00"> : tensor<2xf32>', "expected 8 bytes for 2 elements of type f32, found 1"),
        ('dense<"0xZZ"> : tensor<2xf32>', "no hexadecimal digit"),
        ('dense<"0x000000"> : tensor<9xi1>', "expected 2 bytes for 9 bit-packed i1 elements, found 3"),
        ("dense<> : tensor<2xf32>", "expected 2 elements in dense attribute, found none"),
        ("dense<1> : tensor<2xi128>", "wider than 64 bits"),
        ("dense<1.0> : tensor<2xf80>", "constants of element type f80 are not supported"),
        ("dense<(1.0,2.0)> : tensor<2xf32>", "expected a literal of type f32, found a complex one"),
        ("300 : i8", "out of range"),
        ("1.5 : i8", "expected an integer literal"),
    ],
)
def test_malformed_constants(literal: str, message: str) -> None:
    with pytest.raises(ParseFailure) as failure:
        parse_module(f"%0 = arith.constant {literal}", make_context(), "x.mlir")
    assert message in failure.value.message
    assert failure.value.place is not None and failure.value.place.line == 1


def test_complex_elements() -> None:
    assert ComplexType(f32) == element_type("complex<f32>")
    text = "%0 = arith.constant dense<[(1.0,-0.0), (0x7F800000,2.0)]> : tensor<2xcomplex<f32>>"
    array = dense_to_array(constant_of(parse_module(text, make_context())))
    want = np.array([complex(1.0, -0.0), complex(np.inf, 2.0)], np.complex64)
    assert array.tobytes() == want.tobytes()
    assert f64 == element_type("f64")
