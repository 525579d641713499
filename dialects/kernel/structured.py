"""Structured ops: a body applied over an explicit iteration space, with one affine map per operand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.kernel.access import Access
from mlopt.dialects.kernel.syntax import (
    NO_PAD,
    AccessedOperands,
    parse_accessed_operands,
    parse_bounds,
    print_accessed_operands,
    print_bounds,
)
from mlopt.dialects.kernel.terminators import YieldOp


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    """The type of an operand that a verifier has already found to be a ranked tensor."""
    type = value.type
    if not isinstance(type, TensorType):
        raise VerifyException(f"expected a ranked tensor, found {type}")
    return cast(TensorType[Attribute], type)


class StructuredOp(IRDLOperation, ABC):
    """Base of `map`, `reduce` and `contract`.

    - `bounds`: extent of each iteration dimension; `dim_names`: what the reader calls them.
    - `indexing_maps`: one affine map per operand, `ins` first, then `outs`: iteration point → index on each axis.
    - `pads`: one per `ins`: the value read where the index is out of bounds, or `unit` if it never is.
    """

    ins = var_operand_def(base(TensorType))
    outs = var_operand_def(base(TensorType))
    res = var_result_def(base(TensorType))
    bounds = prop_def(DenseArrayBase[IntegerType])
    dim_names = prop_def(ArrayAttr[StringAttr])
    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    pads = prop_def(ArrayAttr[Attribute])

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    HAS_BODY: ClassVar[bool] = True

    def __init__(
        self,
        bounds: Mapping[str, int],
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        accesses: Sequence[Access],
        body: Region | None = None,
        *,
        pads: Sequence[Attribute] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        """`accesses` has one entry per operand, `ins` first; `pads` one per `ins` (default: none padded)."""
        super().__init__(
            operands=[ins, outs],
            result_types=[[value.type for value in outs]],
            properties={
                "bounds": DenseArrayBase.from_list(i64, list(bounds.values())),
                "dim_names": ArrayAttr([StringAttr(name) for name in bounds]),
                "indexing_maps": ArrayAttr([AffineMapAttr(access.to_map()) for access in accesses]),
                "pads": ArrayAttr(pads if pads is not None else [NO_PAD] * len(ins)),
            },
            attributes=dict(attributes or {}),
            regions=[body] if body is not None else [],
        )

    @property
    def extents(self) -> tuple[int, ...]:
        """The extent of each iteration dimension."""
        return tuple(self.bounds.get_values())

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each iteration dimension."""
        return tuple(name.data for name in self.dim_names)

    @property
    def named_bounds(self) -> dict[str, int]:
        """Dimension name → extent, in order."""
        return dict(zip(self.names, self.extents, strict=True))

    @property
    def accesses(self) -> tuple[Access, ...]:
        """One access per operand, `ins` first."""
        return tuple(map(_access_of, self.indexing_maps))

    @property
    def in_accesses(self) -> tuple[Access, ...]:
        """The accesses of `ins`."""
        return tuple(map(_access_of, self.indexing_maps.data[: len(self.ins)]))

    @property
    def out_accesses(self) -> tuple[Access, ...]:
        """The accesses of `outs`."""
        return tuple(map(_access_of, self.indexing_maps.data[len(self.ins) :]))

    def access_of(self, index: int) -> Access:
        """The access of one operand."""
        return _access_of(self.indexing_maps.data[index])

    @property
    def reduction_dims(self) -> tuple[int, ...]:
        """The dimensions that no out map uses, in order."""
        parallel = frozenset[int]().union(*(access.dims for access in self.out_accesses))
        return tuple(d for d in range(len(self.extents)) if d not in parallel)

    def pad_of(self, index: int) -> Attribute | None:
        """The pad value of `ins[index]`, or None if its reads are all in bounds."""
        pad = self.pads.data[index]
        return None if isinstance(pad, UnitAttr) else pad

    @property
    def body(self) -> Block:
        """The block of the scalar body (only for ops that have one)."""
        return self.regions[0].block

    # Verification

    def verify_(self) -> None:
        self._verify_space()
        self._verify_accesses()
        if [value.type for value in self.outs] != [value.type for value in self.res]:
            raise VerifyException(f"'{self.name}' results must have the types of the outs")
        self._verify_body()
        self._verify_kind()

    def _verify_space(self) -> None:
        extents, names = self.extents, self.names
        operands, ins = len(self.operands), len(self.ins)
        if len(names) != len(extents):
            raise VerifyException(f"{len(extents)} bounds but {len(names)} dimension names")
        if len(set(names)) != len(names):
            raise VerifyException("two dimensions have the same name")
        if any(extent < 0 for extent in extents):
            raise VerifyException(f"bounds must not be negative, found {list(extents)}")
        if operands == ins:
            raise VerifyException(f"'{self.name}' needs at least one out")
        if len(self.indexing_maps) != operands:
            raise VerifyException(f"{operands} operands but {len(self.indexing_maps)} index maps")
        if len(self.pads) != ins:
            raise VerifyException(f"{ins} ins but {len(self.pads)} pads")

    def _verify_accesses(self) -> None:
        extents, num_ins = self.extents, len(self.ins)
        empty = 0 in extents
        for i, (value, access) in enumerate(zip(self.operands, self.accesses, strict=True)):
            type = tensor_type(value)
            where = f"ins {i}" if i < num_ins else f"outs {i - num_ins}"
            if access.num_dims != len(extents):
                raise VerifyException(
                    f"index map of {where} has {access.num_dims} dimensions, the bounds have {len(extents)}"
                )
            if len(access.rows) != type.get_num_dims():
                raise VerifyException(
                    f"{where} of type {type} has {type.get_num_dims()} axes but is indexed by {len(access.rows)}"
                )
            if i >= num_ins and not access.is_injective:
                raise VerifyException(
                    f"{where}: an out must be indexed by at most one dimension per axis, each dimension once"
                )
            pad = self.pad_of(i) if i < num_ins else None
            if pad is not None:
                self._verify_pad(where, pad, type.element_type)
            elif not empty:
                self._verify_in_bounds(where, access.extent(extents), type)

    def _verify_pad(self, where: str, pad: Attribute, element: Attribute) -> None:
        if not isinstance(pad, FloatAttr | IntegerAttr) or pad.get_type() != element:
            raise VerifyException(f"{where}: pad value {pad} is no number of element type {element}")

    def _verify_in_bounds(
        self, where: str, ranges: Sequence[tuple[int, int]], type: TensorType[Attribute]
    ) -> None:
        for axis, (size, (low, high)) in enumerate(zip(type.get_shape(), ranges, strict=True)):
            if size >= 0 and (low < 0 or high >= size):
                raise VerifyException(
                    f"{where}: axis {axis} of size {size} is accessed from {low} to {high}, which is out of bounds"
                )

    def _verify_body(self) -> None:
        expected = [tensor_type(value).element_type for value in self.operands]
        found = [arg.type for arg in self.body.args]
        if expected != found:
            raise VerifyException(
                f"body arguments must be the elements of ins and outs ({', '.join(map(str, expected))}), "
                f"found ({', '.join(map(str, found))})"
            )
        terminator = self.body.last_op
        results = [tensor_type(value).element_type for value in self.outs]
        if not isinstance(terminator, YieldOp) or [v.type for v in terminator.values] != results:
            raise VerifyException(f"the body must end with kernel.yield of {', '.join(map(str, results))}")

    @abstractmethod
    def _verify_kind(self) -> None:
        """What this kind of op asks beyond the common rules."""

    # Text

    @classmethod
    def parse(cls, parser: Parser):
        bounds = parse_bounds(parser)
        ins = parse_accessed_operands(parser, "ins", bounds)
        outs = parse_accessed_operands(parser, "outs", bounds)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region() if cls.HAS_BODY else None
        return cls._build(bounds, ins, outs, body, attributes.data if attributes else {})

    @classmethod
    def _build(
        cls,
        bounds: Mapping[str, int],
        ins: AccessedOperands,
        outs: AccessedOperands,
        body: Region | None,
        attributes: Mapping[str, Attribute],
    ):
        return cls.create(
            operands=[*ins.values, *outs.values],
            result_types=[value.type for value in outs.values],
            properties={
                "bounds": DenseArrayBase.from_list(i64, list(bounds.values())),
                "dim_names": ArrayAttr([StringAttr(name) for name in bounds]),
                "indexing_maps": ArrayAttr([*ins.maps, *outs.maps]),
                "pads": ArrayAttr(ins.pads),
                "operandSegmentSizes": DenseArrayBase.from_list(_i32, [len(ins.values), len(outs.values)]),
            },
            attributes=dict(attributes),
            regions=[body] if body is not None else [],
        )

    def print(self, printer: Printer) -> None:
        maps = [attr.data for attr in self.indexing_maps]
        split = len(self.ins)
        print_bounds(printer, self.names, self.extents)
        print_accessed_operands(printer, "ins", self.ins, maps[:split], self.pads.data, self.names)
        print_accessed_operands(
            printer, "outs", self.outs, maps[split:], [NO_PAD] * len(self.outs), self.names
        )
        printer.print_op_attributes(self.attributes, print_keyword=True)
        if self.HAS_BODY:
            printer.print_string(" ")
            printer.print_region(self.regions[0])


_i32 = IntegerType(32)


@irdl_op_definition
class MapOp(StructuredOp):
    """For every point of the iteration space, `outs = body(ins..., outs...)`; all dimensions are parallel.

    An element of an out that no point writes keeps its value. A map whose body yields its only input is a
    *movement* (transpose, slice, broadcast, copy).

    ```mlir
    %y = kernel.map bounds [m = 4, n = 8] ins(%x[n, m], %b[n] : tensor<8x4xf32>, tensor<8xf32>)
                                          outs(%e[m, n] : tensor<4x8xf32>) {
    ^bb0(%a: f32, %c: f32, %old: f32):
      %s = arith.addf %a, %c : f32
      kernel.yield %s : f32
    }
    ```
    """

    name = "kernel.map"
    region = region_def("single_block")

    def _verify_kind(self) -> None:
        dims = frozenset(range(len(self.extents)))
        for i, access in enumerate(self.out_accesses):
            missing = [self.names[d] for d in sorted(dims - access.dims)]
            if missing:
                raise VerifyException(
                    f"outs {i} of a map must use every dimension, but does not use {', '.join(missing)} "
                    "(a reduction is a kernel.reduce)"
                )

    @property
    def is_movement(self) -> bool:
        """Whether the body only yields its single input."""
        terminator = self.body.first_op
        return (
            len(self.ins) == 1
            and len(self.outs) == 1
            and isinstance(terminator, YieldOp)
            and terminator.values[0] is self.body.args[0]
        )


@irdl_op_definition
class ReduceOp(StructuredOp):
    """Folds into `outs`: the body gets the ins' elements and the value so far, and yields the next value.

    Dimensions that no out map uses are reduced; the fold starts at the init and its order is not specified (the body
    must be associative and commutative up to rounding).

    ```mlir
    %max = kernel.reduce bounds [m = 4, n = 8] ins(%x[m, n] : tensor<4x8xf32>) outs(%init[m] : tensor<4xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %r = arith.maximumf %acc, %a : f32
      kernel.yield %r : f32
    }
    ```
    """

    name = "kernel.reduce"
    region = region_def("single_block")

    def _verify_kind(self) -> None:
        if not self.reduction_dims:
            raise VerifyException(
                "a reduce needs a dimension that no out uses (otherwise it is a kernel.map)"
            )
        dims = [access.dims for access in self.out_accesses]
        if any(other != dims[0] for other in dims):
            raise VerifyException("all outs of a reduce must use the same dimensions")


@irdl_op_definition
class ContractOp(StructuredOp):
    """`out += a * b` over the iteration space: matrix products, convolutions, any sum of products.

    Products and sums are computed in the element type of the out, to which narrower inputs are extended: integers as
    signed numbers, and also to a float that holds all of them.

    ```mlir
    %y = kernel.contract bounds [m = 4, n = 8, k = 16] ins(%a[m, k], %b[k, n] : tensor<4x16xf32>, tensor<16x8xf32>)
                                                       outs(%zero[m, n] : tensor<4x8xf32>)
    ```
    """

    name = "kernel.contract"
    HAS_BODY: ClassVar[bool] = False

    def _verify_body(self) -> None:
        pass

    def _verify_kind(self) -> None:
        if len(self.ins) != 2 or len(self.outs) != 1:
            raise VerifyException(
                f"a contract has two ins and one out, found {len(self.ins)} and {len(self.outs)}"
            )
        a, b, out = (tensor_type(value).element_type for value in self.operands)
        if not (_extends(a, out) and _extends(b, out)):
            raise VerifyException(f"a contract of {a} and {b} can't accumulate in {out}")


def _access_of(attr: AffineMapAttr) -> Access:
    access = Access.from_map(attr.data)
    if access is None:
        raise VerifyException(f"index map {attr.data} is not linear in the iteration dimensions")
    return access


_INTEGER_BITS = {32: 25, 64: 54}
"""The width of the signed integers that f32 and f64 hold, by their own."""


def _extends(narrow: Attribute, wide: Attribute) -> bool:
    """Whether every number of type `narrow` is one of type `wide`: floats, integers, or integers in floats."""
    if narrow == wide:
        return True
    if isinstance(narrow, IntegerType) and isinstance(wide, AnyFloat):
        return narrow.bitwidth <= _INTEGER_BITS.get(wide.bitwidth, 0)
    if isinstance(narrow, AnyFloat) and isinstance(wide, AnyFloat):
        return narrow.bitwidth < wide.bitwidth
    if isinstance(narrow, IntegerType) and isinstance(wide, IntegerType):
        return narrow.bitwidth < wide.bitwidth
    return isinstance(narrow, IndexType) and isinstance(wide, IndexType)
