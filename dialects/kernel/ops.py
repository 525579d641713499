"""The kernel ops that are not structured: fill, reshape, launch, call, constant, index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar, TypeAlias, cast

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    attr_def,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, IsolatedFromAbove, MemoryAllocEffect, Pure
from xdsl.utils.exceptions import VerifyException

from mlopt.dialects.kernel.structured import StructuredOp, tensor_type
from mlopt.dialects.kernel.syntax import parse_operands, parse_optional_result_types, print_operands
from mlopt.dialects.kernel.terminators import YieldOp
from mlopt.dialects.mlopt import WeightAttr

DenseElements: TypeAlias = DenseIntOrFPElementsAttr[Any]
"""A dense constant of integers or floats."""


@irdl_op_definition
class FillOp(IRDLOperation):
    """Every element of the result is the scalar; the contents of the init don't matter.

    `%0 = kernel.fill %zero : f32 outs(%e : tensor<4x8xf32>)`
    """

    name = "kernel.fill"
    value = operand_def()
    init = operand_def(base(TensorType))
    result = result_def(base(TensorType))
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, init: SSAValue):
        super().__init__(operands=[value, init], result_types=[init.type])

    @property
    def ins(self) -> Sequence[SSAValue]:
        return (self.value,)

    @property
    def outs(self) -> Sequence[SSAValue]:
        return (self.init,)

    def verify_(self) -> None:
        element = tensor_type(self.init).element_type
        if self.value.type != element:
            raise VerifyException(
                f"a tensor of {element} can't be filled with a value of type {self.value.type}"
            )
        if self.result.type != self.init.type:
            raise VerifyException("the result must have the type of the out")

    @classmethod
    def parse(cls, parser: Parser):
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        (operand,) = parser.resolve_operands([value], [type], parser.pos)
        position = parser.pos
        outs = parse_operands(parser, "outs")
        if len(outs) != 1:
            parser.raise_error(f"a fill has one out, found {len(outs)}", position, parser.pos)
        attributes = parser.parse_optional_attr_dict()
        op = cls(operand, outs[0])
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)
        print_operands(printer, "outs", self.outs)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """The same elements in row-major order under another shape; a view, no data moves.

    `%y = kernel.reshape %x : tensor<4x6xf32> to tensor<2x12xf32>`
    """

    name = "kernel.reshape"
    source = operand_def(base(TensorType))
    result = result_def(base(TensorType))
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue, shape: Sequence[int]):
        super().__init__(
            operands=[source], result_types=[TensorType(tensor_type(source).element_type, shape)]
        )

    def verify_(self) -> None:
        source, result = tensor_type(self.source), tensor_type(self.result)
        if source.element_type != result.element_type:
            raise VerifyException(
                f"a reshape keeps the element type, found {source.element_type} and {result.element_type}"
            )
        if prod(source.get_shape()) != prod(result.get_shape()):
            raise VerifyException(
                f"a reshape keeps the number of elements, found {prod(source.get_shape())} "
                f"and {prod(result.get_shape())}"
            )


@irdl_op_definition
class CopyOp(IRDLOperation):
    """The same tensor in new memory, of a memory space: 0 is the arena, 1 a second memory (`mlopt.ir.memory_spaces`).

    Kernels work in space 0: what lies elsewhere is used by copies alone.

    `%s = kernel.copy %x to 1 : tensor<4x6xf32>`
    """

    name = "kernel.copy"
    source = operand_def(base(TensorType))
    space = prop_def(IntegerAttr[I64])
    result = result_def(base(TensorType))
    traits = traits_def(MemoryAllocEffect())

    def __init__(self, source: SSAValue, space: int):
        super().__init__(
            operands=[source], result_types=[source.type], properties={"space": IntegerAttr(space, i64)}
        )

    @classmethod
    def parse(cls, parser: Parser):
        source = parser.parse_unresolved_operand()
        parser.parse_characters("to")
        space = parser.parse_integer(allow_boolean=False)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        (operand,) = parser.resolve_operands([source], [parser.parse_type()], parser.pos)
        op = cls(operand, space)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(f" to {self.memory_space}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @property
    def memory_space(self) -> int:
        """The memory space that the result lies in."""
        return self.space.value.data

    def verify_(self) -> None:
        if self.memory_space < 0:
            raise VerifyException(f"a memory space can't be negative, found {self.memory_space}")
        if self.source.type != self.result.type:
            raise VerifyException(
                f"a copy has the type of what it copies, found {self.source.type} and {self.result.type}"
            )
        for use in self.result.uses if self.memory_space else ():
            if not isinstance(use.operation, CopyOp):
                raise VerifyException(
                    f"what lies in memory space {self.memory_space} is used by copies alone, "
                    f"found '{use.operation.name}'"
                )


class SymbolicKernel(IRDLOperation):
    """What `launch` and `call` share: a name, `ins(...)`, `outs(...)` and result types."""

    kernel_name = prop_def(StringAttr)
    ins = var_operand_def()
    outs = var_operand_def(base(TensorType))
    res = var_result_def(base(TensorType))

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    HAS_REGION: ClassVar[bool]

    def _verify_results(self) -> None:
        if [value.type for value in self.outs] != [value.type for value in self.res]:
            raise VerifyException(f"the results of '{self.kernel_name.data}' must have the types of its outs")

    @classmethod
    def parse(cls, parser: Parser):
        name = parser.parse_symbol_name()
        ins = parse_operands(parser, "ins")
        outs = parse_operands(parser, "outs")
        attributes = parser.parse_optional_attr_dict_with_keyword()
        regions = [parser.parse_region()] if cls.HAS_REGION else []
        types = parse_optional_result_types(parser)
        return cls.create(
            operands=[*ins, *outs],
            result_types=types,
            properties={
                "kernel_name": name,
                "operandSegmentSizes": DenseArrayBase.from_list(IntegerType(32), [len(ins), len(outs)]),
            },
            attributes=dict(attributes.data) if attributes else {},
            regions=regions,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.kernel_name.data)
        print_operands(printer, "ins", self.ins)
        print_operands(printer, "outs", self.outs)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        if self.HAS_REGION:
            printer.print_string(" ")
            printer.print_region(self.regions[0])
        if self.res:
            printer.print_string(" -> ")
            printer.print_list(self.res.types, printer.print_attribute)


@irdl_op_definition
class LaunchOp(SymbolicKernel):
    """A fusion group: the ops in its region run as one kernel, which becomes one function at the memref level.

    The region is isolated; its arguments are the `ins`, then the `outs`. It yields one tensor per out, whose chain
    of destinations should end at that out's argument.
    """

    name = "kernel.launch"
    region = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), Pure())
    HAS_REGION: ClassVar[bool] = True

    def __init__(self, name: str, ins: Sequence[SSAValue], outs: Sequence[SSAValue], region: Region):
        super().__init__(
            operands=[ins, outs],
            result_types=[[value.type for value in outs]],
            properties={"kernel_name": StringAttr(name)},
            regions=[region],
        )

    @property
    def body(self) -> Block:
        """The block of the region."""
        return self.region.block

    @property
    def in_args(self) -> tuple[SSAValue, ...]:
        """The region's arguments for `ins`."""
        return tuple(self.body.args[: len(self.ins)])

    @property
    def out_args(self) -> tuple[SSAValue, ...]:
        """The region's arguments for `outs`."""
        return tuple(self.body.args[len(self.ins) :])

    @property
    def yielded(self) -> tuple[SSAValue, ...]:
        """The tensors that the region yields, one per out."""
        terminator = self.body.last_op
        assert isinstance(terminator, YieldOp)
        return tuple(terminator.values)

    def verify_(self) -> None:
        self._verify_results()
        expected = [value.type for value in self.operands]
        found = [arg.type for arg in self.body.args]
        if expected != found:
            raise VerifyException(
                f"the region of launch '{self.kernel_name.data}' must take the ins and outs "
                f"({', '.join(map(str, expected))}), found ({', '.join(map(str, found))})"
            )
        terminator = self.body.last_op
        if not isinstance(terminator, YieldOp) or [v.type for v in terminator.values] != list(self.res.types):
            raise VerifyException(
                f"the region of launch '{self.kernel_name.data}' must yield "
                f"{', '.join(map(str, self.res.types))}"
            )


@irdl_op_definition
class CallOp(SymbolicKernel):
    """A call of a run-time function, for an algorithm without structured form (sort, unique, ...).

    The attributes are its static parameters; `docs/run-time-functions.md` lists the functions.

    ```mlir
    %y = kernel.call @mlopt_rt_scan ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>)
      attributes {axis = 0 : i64, operation = "add"} -> tensor<8xf32>
    ```
    """

    name = "kernel.call"
    traits = traits_def(Pure())
    HAS_REGION: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        parameters: Mapping[str, Attribute] | None = None,
    ):
        super().__init__(
            operands=[ins, outs],
            result_types=[[value.type for value in outs]],
            properties={"kernel_name": StringAttr(name)},
            attributes=parameters,
        )

    def verify_(self) -> None:
        self._verify_results()
        if not self.kernel_name.data.startswith("mlopt_rt_"):
            raise VerifyException(
                f"a run-time function is named mlopt_rt_..., found '{self.kernel_name.data}'"
            )


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A constant tensor: small values in the text, larger ones by their name in the weight store.

    ```mlir
    %c = kernel.constant dense<[1, 2]> : tensor<2xi64>
    %w = kernel.constant #mlopt.weight<"fc1.weight"> : tensor<256x128xf32>
    ```
    """

    name = "kernel.constant"
    value = attr_def(DenseIntOrFPElementsAttr | WeightAttr)
    result = result_def(base(TensorType))
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: DenseElements | WeightAttr, type: Attribute | None = None):
        if type is None:
            assert isinstance(value, DenseIntOrFPElementsAttr)
            type = value.type
        super().__init__(result_types=[type], attributes={"value": value})

    def verify_(self) -> None:
        if isinstance(self.value, DenseIntOrFPElementsAttr) and self.value.type != self.result.type:
            raise VerifyException(f"a constant of type {self.value.type} can't be of type {self.result.type}")

    @classmethod
    def parse(cls, parser: Parser):
        attributes = parser.parse_optional_attr_dict()
        position = parser.pos
        value = parser.parse_attribute()
        if isinstance(value, WeightAttr):
            parser.parse_punctuation(":")
            op = cls(value, parser.parse_type())
        elif isinstance(value, DenseIntOrFPElementsAttr):
            op = cls(cast(DenseElements, value))
        else:
            parser.raise_error(
                f"expected dense<...> or #mlopt.weight<...>, found {value}", position, parser.pos
            )
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes, reserved_attr_names=["value"])
        printer.print_string(" ")
        printer.print_attribute(self.value)
        if isinstance(self.value, WeightAttr):
            printer.print_string(" : ")
            printer.print_attribute(self.result.type)


@irdl_op_definition
class IndexOp(IRDLOperation):
    """The position along one iteration dimension of the enclosing structured op: `%i = kernel.index 2`."""

    name = "kernel.index"
    dim = prop_def(IntegerAttr[IntegerType])
    result = result_def(IndexType)
    traits = traits_def(Pure())

    def __init__(self, dim: int):
        super().__init__(properties={"dim": IntegerAttr(dim, i64)}, result_types=[IndexType()])

    def verify_(self) -> None:
        parent = self.parent_op()
        while parent is not None and not isinstance(parent, StructuredOp | LaunchOp):
            parent = parent.parent_op()
        if not isinstance(parent, StructuredOp):
            raise VerifyException("kernel.index stands only in the body of a structured op")
        if not 0 <= self.dim.value.data < len(parent.extents):
            raise VerifyException(
                f"dimension {self.dim.value.data} is none of the {len(parent.extents)} of the iteration space"
            )

    @classmethod
    def parse(cls, parser: Parser):
        dim = parser.parse_integer(allow_boolean=False, allow_negative=False)
        op = cls(dim)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.dim.value.data}")
        printer.print_op_attributes(self.attributes)
