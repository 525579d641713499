"""Verification of operations against their IRDL definitions, by quick questions. Loaded before any dialect is.

xDSL 0.75 derives anew for each operation what its definition says: which definitions are variadic, where the segments
of operands begin, which traits have a verifier. Here that is read once for a definition, into a `Plan`, without the
constraints that anything satisfies. A plan only ever says that an operation is right: for what it is not sure of,
xDSL's own code runs, and says what is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import constraints, operations
from xdsl.irdl.constraints import VerificationContext
from xdsl.irdl.operations import AttrSizedSegments, OpDef, VarIRConstruct
from xdsl.traits import IsolatedFromAbove, OpTrait, SameOperandsAndResultType
from xdsl.utils.exceptions import VerifyException

UNBOUNDED = 2**31
"""More operands than there are in an operation."""


Check = tuple[type[Attribute] | None, constraints.AttrConstraint | None]
"""What one attribute or type must be: an instance of a class, or else what a constraint says."""


def _check_of(constraint: constraints.AttrConstraint) -> Check | None:
    """The check that a constraint stands for; None if anything satisfies it."""
    if isinstance(constraint, constraints.AnyAttr):
        return None
    return (constraint.attr, None) if type(constraint) is constraints.BaseAttr else (None, constraint)


def _holds(check: Check, attribute: Attribute, context: VerificationContext) -> bool:
    """Whether an attribute is of the class; raises `VerifyException` where a constraint does not hold."""
    kind, constraint = check
    if kind is not None:
        return type(attribute) is kind or isinstance(attribute, kind)
    if constraint is not None:
        constraint.verify(attribute, context)
    return True


@dataclass(eq=False, repr=False, slots=True)
class Segment:
    """The values of one operand or result definition: how many there may be, and what each or all must be."""

    least: int
    most: int
    each: Check | None
    all: constraints.RangeConstraint | None

    @staticmethod
    def of(definition: operations.OperandDef | operations.ResultDef) -> Segment:
        """What a definition says."""
        least, most = 1, 1
        if isinstance(definition, operations.VariadicDef):
            least, most = 0, 1 if isinstance(definition, operations.OptionalDef) else UNBOUNDED
        constraint = definition.constr
        if isinstance(constraint, constraints.RangeLengthConstraint) and _allows(
            constraint.length, least, most
        ):
            constraint = constraint.constraint
        if type(constraint) is constraints.RangeOf:
            return Segment(least, most, _check_of(constraint.constr), None)
        return Segment(least, most, None, constraint)

    def verify(self, values: Iterable[SSAValue], context: VerificationContext) -> bool:
        """Whether the types are right; raises `VerifyException` where a constraint does not hold."""
        if self.all is not None:
            self.all.verify([value.type for value in values], context)
        elif self.each is not None:
            for value in values:
                if not _holds(self.each, value.type, context):
                    return False
        return True


def _allows(length: constraints.IntConstraint, least: int, most: int) -> bool:
    """Whether a constraint holds for each number in a range anyway, so that it need not be asked."""
    if isinstance(length, constraints.AnyInt):
        return True
    return isinstance(length, constraints.EqIntConstraint) and least == most == length.value


@dataclass(eq=False, repr=False, slots=True)
class Values:
    """All operands or all results: the segments, and what tells their sizes.

    `sizes_in`: the attribute that holds them; `varies`: else the positions of the segments whose size is not 1. `asked`
    holds the segments, with their positions, that ask anything of the types.
    """

    segments: tuple[Segment, ...]
    asked: tuple[tuple[int, Segment], ...]
    sizes_in: AttrSizedSegments | None
    varies: tuple[int, ...]
    ones: tuple[int, ...]

    @staticmethod
    def of(op_def: OpDef, construct: VarIRConstruct) -> Values:
        """What a definition says of its operands or results."""
        definitions = op_def.operands if construct is VarIRConstruct.OPERAND else op_def.results
        segments = tuple(Segment.of(definition) for _, definition in definitions)
        asked = tuple((i, s) for i, s in enumerate(segments) if s.each is not None or s.all is not None)
        option = operations.get_attr_size_option(construct)
        sizes_in = next((one for one in op_def.options if isinstance(one, option)), None)
        assert sizes_in is None or isinstance(sizes_in, AttrSizedSegments)
        varies = tuple(i for i, segment in enumerate(segments) if segment.most != segment.least)
        return Values(segments, asked, sizes_in, varies, (1,) * len(segments))

    def verify(self, op: Operation, values: tuple[SSAValue, ...], context: VerificationContext) -> bool:
        """Whether there are as many values as there should be, of the right types.

        Raises `VerifyException` where a constraint does not hold.
        """
        if not self.varies:
            if len(values) != len(self.ones):
                return False
            return all(segment.verify((values[at],), context) for at, segment in self.asked)
        sizes = self._sizes(op, len(values))
        if sizes is None:
            return False
        for position, segment in self.asked:
            begin = sum(sizes[:position])
            if not segment.verify(values[begin : begin + sizes[position]], context):
                return False
        return True

    def _sizes(self, op: Operation, count: int) -> Sequence[int] | None:
        """How many of `count` values belong to each segment where some vary; None if that is wrong, or not sure."""
        if self.sizes_in is not None:
            sizes = _given_sizes(self.sizes_in.container(op).get(self.sizes_in.attribute_name))
            right = len(sizes) == len(self.segments) and sum(sizes) == count
            for size, segment in zip(sizes, self.segments, strict=right):
                right = right and segment.least <= size <= segment.most
            return sizes if right else None
        if len(self.varies) > 1:
            return None
        position = next(iter(self.varies))
        segment = self.segments[position]
        size = count - len(self.ones) + 1
        if not segment.least <= size <= segment.most:
            return None
        return (*self.ones[:position], size, *self.ones[position + 1 :])


@cache
def unpack_segment_sizes(data: bytes) -> tuple[int, ...]:
    """The 32-bit numbers of an attribute such as `operandSegmentSizes`, unpacked once for equal ones."""
    return struct.unpack(f"<{len(data) // 4}i", data)


def _given_sizes(attribute: Attribute | None) -> tuple[int, ...]:
    """The sizes that an attribute holds; none if it does not hold any."""
    from xdsl.dialects.builtin import DenseArrayBase, i32  # which is made of definitions itself

    if isinstance(attribute, DenseArrayBase) and attribute.elt_type == i32:  # pyright: ignore[reportUnknownMemberType] - as in xDSL
        return unpack_segment_sizes(attribute.data.data)
    return ()


@dataclass(eq=False, repr=False, slots=True)
class Entry:
    """A property or attribute that a definition names."""

    name: str
    optional: bool
    check: Check | None


@dataclass(eq=False, repr=False, slots=True)
class Plan:
    """What a definition asks of an operation.

    `single_blocks` says of each region whether it is to have one block; it is None where regions vary in number or
    their arguments are constrained.
    """

    op_def: OpDef
    operands: Values
    results: Values
    single_blocks: tuple[bool, ...] | None
    successors: int | None
    properties: tuple[Entry, ...]
    property_names: frozenset[str]
    attributes: tuple[Entry, ...]
    traits: tuple[Callable[[Operation], None], ...]

    @staticmethod
    def of(op_def: OpDef) -> Plan:
        """The plan of a definition, made when it is first asked for."""
        plan = _plans.get(id(op_def))
        if plan is None:
            plan = _plans[id(op_def)] = Plan(
                op_def,
                Values.of(op_def, VarIRConstruct.OPERAND),
                Values.of(op_def, VarIRConstruct.RESULT),
                _single_blocks(op_def),
                None if _has_variadic(op_def.successors) else len(op_def.successors),
                _entries(op_def.properties),
                frozenset(op_def.properties),
                _entries(op_def.attributes),
                tuple(map(_trait_verifier, filter(_has_verifier, op_def.traits))),
            )
        return plan

    def verify(self, op: Operation) -> bool:
        """Whether an operation is as its definition says, traits aside.

        False if not, or if that is not sure; raises `VerifyException` where a constraint does not hold.
        """
        context = VerificationContext()
        return (
            self.operands.verify(op, tuple(op.operands), context)
            and self.results.verify(op, tuple(op.results), context)
            and self._regions_right(op.regions)
            and len(op.successors) == self.successors
            and (not self.properties or _entries_right(self.properties, op.properties, context))
            and self.property_names.issuperset(op.properties)
            and (not self.attributes or _entries_right(self.attributes, op.attributes, context))
        )

    def _regions_right(self, regions: Sequence[Region]) -> bool:
        if not regions:
            return self.single_blocks == ()
        if self.single_blocks is None or len(regions) != len(self.single_blocks):
            return False
        for region, single in zip(regions, self.single_blocks, strict=True):
            if single and (region.first_block is None or region.first_block is not region.last_block):
                return False
        return True


_plans: dict[int, Plan] = {}
"""By the identity of a definition, which its plan keeps alive: definitions can't be hashed."""


def _single_blocks(op_def: OpDef) -> tuple[bool, ...] | None:
    if _has_variadic(op_def.regions):
        return None
    if not all(_takes_any(definition.entry_args) for _, definition in op_def.regions):
        return None
    return tuple(isinstance(one, operations.SingleBlockRegionDef) for _, one in op_def.regions)


def _takes_any(constraint: constraints.RangeConstraint) -> bool:
    return type(constraint) is constraints.RangeOf and isinstance(constraint.constr, constraints.AnyAttr)


def _has_variadic(definitions: Iterable[tuple[str, object]]) -> bool:
    return any(isinstance(definition, operations.VariadicDef) for _, definition in definitions)


def _entries(definitions: Mapping[str, operations.AttrOrPropDef]) -> tuple[Entry, ...]:
    optional = (operations.OptPropertyDef, operations.OptAttributeDef)
    return tuple(
        Entry(name, isinstance(definition, optional), _check_of(definition.constr))
        for name, definition in definitions.items()
    )


def _entries_right(
    entries: Sequence[Entry], given: Mapping[str, Attribute], context: VerificationContext
) -> bool:
    for entry in entries:
        attribute = given.get(entry.name)
        if attribute is None:
            if not entry.optional:
                return False
        elif entry.check is not None and not _holds(entry.check, attribute, context):
            return False
    return True


def _has_verifier(trait: OpTrait) -> bool:
    return type(trait).verify is not OpTrait.verify


def _trait_verifier(trait: OpTrait) -> Callable[[Operation], None]:
    if type(trait) is SameOperandsAndResultType:
        return partial(_verify_same_types, trait)
    if type(trait) is IsolatedFromAbove:
        return partial(_verify_isolated, trait)
    return trait.verify


def _verify_same_types(trait: OpTrait, op: Operation) -> None:
    types = [*op.result_types, *op.operand_types]
    if not op.results or not op.operands or any(type != types[0] for type in types):
        trait.verify(op)


def _verify_isolated(trait: OpTrait, op: Operation) -> None:
    """All that is used inside is defined inside: the values of both kinds compared as sets."""
    used: set[SSAValue] = set()
    defined: set[SSAValue] = set()
    regions = list(op.regions)
    while regions:
        for block in regions.pop().blocks:
            defined.update(block.args)
            for child in block.ops:
                defined.update(child.results)
                used.update(child.operands)
                if child.regions and not child.has_trait(IsolatedFromAbove):
                    regions += child.regions
    if not used <= defined:
        trait.verify(op)


_verify_definition = OpDef.verify


def verify_definition(self: OpDef, op: Operation) -> None:
    """Raise `VerifyException` unless an operation is as its definition says."""
    plan = Plan.of(self)
    try:
        right = plan.verify(op)
    except VerifyException:
        right = False
    if not right:
        _verify_definition(self, op)
    else:
        for verify in plan.traits:
            verify(op)


def _install() -> None:
    definition: Any = OpDef
    definition.verify = verify_definition


_install()
