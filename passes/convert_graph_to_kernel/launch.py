"""Building one `kernel.launch`: its arguments, the structured ops in it, and their iteration spaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import LocationAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlopt.dialects.kernel import (
    NO_PAD,
    Access,
    ContractOp,
    FillOp,
    IndexOp,
    LaunchOp,
    LinearExpr,
    MapOp,
    ReduceOp,
    YieldOp,
    tensor_type,
)
from mlopt.ir.names import set_name
from mlopt.passes.convert_graph_to_kernel.scalars import Number, Scalars, number_attr, signless_type

Index: TypeAlias = LinearExpr | str | int
"""What stands in one axis of an access: an expression, a dimension by its name, or a constant."""

Body: TypeAlias = Callable[..., SSAValue]
"""Builds a body: `(scalars, *elements of ins, element of out) → the element to yield`."""


Bodies: TypeAlias = Callable[..., Sequence[SSAValue]]
"""Builds a body with several outs: `(scalars, *elements of ins, *elements of outs) → the elements to yield`."""


class Space:
    """An iteration space: named dimensions and their extents."""

    def __init__(self, bounds: Mapping[str, int]):
        self.bounds = dict(bounds)
        self._positions = {name: i for i, name in enumerate(self.bounds)}

    @classmethod
    def over(cls, shape: Sequence[int], prefix: str = "d") -> Space:
        """Dimensions `d0`, `d1`, ... over all elements of a shape."""
        return cls({f"{prefix}{i}": size for i, size in enumerate(shape)})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions, in order."""
        return tuple(self.bounds)

    def __getitem__(self, name: str) -> LinearExpr:
        """The dimension of that name as an expression, to calculate with."""
        return LinearExpr.dim(self._positions[name], len(self.bounds))

    def position(self, name: str) -> int:
        """The number of the dimension of that name."""
        return self._positions[name]

    def access(self, *axes: Index) -> Access:
        """An access with one expression per axis of the operand."""
        return Access(len(self.bounds), tuple(self._row(axis) for axis in axes))

    def identity(self) -> Access:
        """Axis `i` is dimension `i`."""
        return Access.identity(len(self.bounds))

    def broadcast(self, shape: Sequence[int], over: Sequence[str] | None = None) -> Access:
        """An operand of that shape broadcast, as numpy does, to the dimensions `over` (default: all)."""
        names = self.names if over is None else tuple(over)
        aligned = names[len(names) - len(shape) :]
        return self.access(
            *(
                0 if size == 1 != self.bounds[name] else name
                for size, name in zip(shape, aligned, strict=True)
            )
        )

    def _row(self, axis: Index) -> LinearExpr:
        if isinstance(axis, str):
            return self[axis]
        return LinearExpr((0,) * len(self.bounds), axis) if isinstance(axis, int) else axis


class Operand(NamedTuple):
    """An operand of a structured op: a value inside the launch, how it is indexed, what is read out of bounds."""

    value: SSAValue
    access: Access
    pad: Attribute = NO_PAD


class Launch:
    """A `kernel.launch` under construction. Operands become arguments when they are first used."""

    def __init__(
        self,
        name: str,
        out_types: Sequence[TensorType[Attribute]],
        location: LocationAttr,
        convert: Callable[[SSAValue], SSAValue],
        *,
        unsigned: bool = False,
    ):
        """`convert` gives the kernel-level value of a graph-level one; `unsigned`: how bodies mean their integers."""
        self.name = name
        self.unsigned = unsigned
        self._convert = convert
        self._location = location
        self._block = Block(arg_types=out_types)
        self._ins: dict[SSAValue, SSAValue] = {}
        for i, arg in enumerate(self._block.args):
            set_name(arg, "O" if len(out_types) == 1 else f"O{i}")

    @property
    def out(self) -> SSAValue:
        """The argument that the only result is written into."""
        return self._block.args[len(self._ins)]

    @property
    def outs(self) -> Sequence[SSAValue]:
        """The arguments that the results are written into."""
        return self._block.args[len(self._ins) :]

    def use(self, value: SSAValue, name: str) -> SSAValue:
        """The argument for a graph-level tensor from outside; `name` is for the reader."""
        outside = self._convert(value)
        if outside not in self._ins:
            arg = self._block.insert_arg(signless_type(tensor_type(outside)), len(self._ins), self._location)
            set_name(arg, name)
            self._ins[outside] = arg
        return self._ins[outside]

    # Ops inside

    def _add(self, op: Operation) -> SSAValue:
        self._block.add_op(op)
        return op.results[0]

    def empty(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        """An uninitialised temporary."""
        return self._add(tensor.EmptyOp([], TensorType(element, shape)))

    def filled(self, value: Number, dest: SSAValue) -> SSAValue:
        """`dest` with every element set to a number."""
        constant = self._add(arith.ConstantOp(number_attr(value, tensor_type(dest).element_type)))
        return self._add(FillOp(constant, dest))

    def map(self, space: Space, ins: Sequence[Operand], out: Operand, body: Body) -> SSAValue:
        """A `kernel.map` with one out."""
        return self._add(MapOp(*self._operands(space, ins, out), self._body(ins, out, body), pads=_pads(ins)))

    def maps(
        self, space: Space, ins: Sequence[Operand], outs: Sequence[Operand], body: Bodies
    ) -> Sequence[SSAValue]:
        """A `kernel.map` with several outs."""
        every = (*ins, *outs)
        block = Block(arg_types=[tensor_type(o.value).element_type for o in every])
        block.add_op(YieldOp(*body(Scalars(block, unsigned=self.unsigned), *block.args)))
        op = MapOp(
            space.bounds,
            [o.value for o in ins],
            [o.value for o in outs],
            [o.access for o in every],
            Region(block),
            pads=_pads(ins),
        )
        self._block.add_op(op)
        return op.results

    def reduce(self, space: Space, ins: Sequence[Operand], out: Operand, body: Body) -> SSAValue:
        """A `kernel.reduce` with one out; over dimensions of which none is reduced, a map of the same body."""
        op = ReduceOp if set(range(len(space.bounds))) - out.access.dims else MapOp
        return self._add(op(*self._operands(space, ins, out), self._body(ins, out, body), pads=_pads(ins)))

    def contract(self, space: Space, a: Operand, b: Operand, out: Operand) -> SSAValue:
        """A `kernel.contract`."""
        return self._add(ContractOp(*self._operands(space, (a, b), out), pads=_pads((a, b))))

    def move(self, space: Space, source: Operand, out: Operand) -> SSAValue:
        """A movement: a map whose body yields its input."""

        def body(s: Scalars, x: SSAValue, _: SSAValue) -> SSAValue:
            return x

        return self.map(space, [source], out, body)

    def _operands(
        self, space: Space, ins: Sequence[Operand], out: Operand
    ) -> tuple[dict[str, int], list[SSAValue], list[SSAValue], list[Access]]:
        accesses = [o.access for o in (*ins, out)]
        return space.bounds, [o.value for o in ins], [out.value], accesses

    def _body(self, ins: Sequence[Operand], out: Operand, body: Body) -> Region:
        block = Block(arg_types=[tensor_type(o.value).element_type for o in (*ins, out)])
        result = body(Scalars(block, unsigned=self.unsigned), *block.args)
        block.add_op(YieldOp(result))
        return Region(block)

    # The end

    def finish(self, *yielded: SSAValue) -> tuple[list[Operation], LaunchOp]:
        """End the region; the ops that make the destinations, and the launch, all to be inserted."""
        self._block.add_op(YieldOp(*yielded))
        outs = self._block.args[len(self._ins) :]
        empties = [tensor.EmptyOp([], arg.type) for arg in outs]
        launch = LaunchOp(
            self.name, list(self._ins), [empty.tensor for empty in empties], Region(self._block)
        )
        for op in (*empties, *launch.walk()):
            op.location = self._location
        return [*empties], launch


def _pads(ins: Sequence[Operand]) -> list[Attribute]:
    return [o.pad for o in ins]


def named(value: SSAValue, name: str) -> SSAValue:
    """The value, with a name for the reader."""
    set_name(value, name)
    return value


def position(s: Scalars, space: Space, name: str) -> SSAValue:
    """The position along a dimension of the space whose body is being built, as an index."""
    return s.emit(IndexOp(space.position(name)))


def linear_position(s: Scalars, space: Space, expression: LinearExpr) -> SSAValue:
    """A linear expression in the dimensions of the space whose body is being built, in i64."""
    signed = Scalars(s.block)
    total = s.number(expression.constant, i64)
    for dim in expression.dims:
        at = s.index_cast(position(s, space, space.names[dim]), i64)
        total = signed.add(total, signed.mul(at, s.like(expression.coefficients[dim], at)))
    return total
