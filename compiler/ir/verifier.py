"""The verifier: operations against their definitions, every use against SSA dominance, every user against the module.

xDSL verifies operations but not dominance, and reports an error by printing the whole module. Here an error is one
sentence with the operation's place. Time is linear in the number of operations and operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.ir import Block, BlockArgument, ErasedSSAValue, Operation, OpResult, Region, SSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, OpTrait
from xdsl.utils.exceptions import VerifyException

from mlopt.diagnostics import Diagnostic, MloptError, Severity, VerifyFailure
from mlopt.ir.dominance import dominator_children
from mlopt.ir.locations import place_of, place_of_op
from mlopt.ir.upstream_rules import verify_upstream_rules


def verify_module(module: ModuleOp) -> None:
    """Verify `module` and all that is in it; raise `VerifyFailure` for the first error found.

    Every region is held to dominance, the module's own too (MLIR lets a module's body be in any order).
    """
    verify_op(module)


def verify_op(op: Operation) -> None:
    """Verify `op` and all that is in it, as `verify_module` does.

    Values from outside `op` may be used inside unless it is isolated.
    """
    _Verifier(op).run()


class _Verifier:
    """Walks the operations in dominance order; `visible` has the `id`s of values that dominate the current point."""

    def __init__(self, root: Operation):
        self.root = root
        self.outside_allowed = not op_is_isolated(root)
        self.visible: set[int] = set()

    def run(self) -> None:
        _verify_living(self.root)
        self._verify_structure(self.root)
        for region in self.root.regions:
            self._verify_region(region)
        self._verify_definition(self.root)

    def _verify_region(self, region: Region) -> None:
        """Verify the blocks of a region along its dominator tree, unreachable ones without dominance."""
        entry = region.blocks.first
        if entry is None:
            return
        if entry is region.blocks.last:
            added = self._verify_block(entry, region, single=True)
            self.visible.difference_update(added)
            return
        children = dominator_children(region)
        stack: list[Block | list[int]] = [entry]
        while stack:
            item = stack.pop()
            if isinstance(item, list):
                self.visible.difference_update(item)
                continue
            stack.append(self._verify_block(item, region, single=False))
            stack.extend(reversed(children[item]))
        for block in region.blocks:
            if block not in children:
                self._verify_unreachable(block, region)

    def _verify_block(self, block: Block, region: Region, *, single: bool) -> list[int]:
        """Verify one block; returns the values it made visible."""
        self._verify_terminator(block, region, single=single)
        added = list(map(id, block.args))
        self.visible.update(added)
        if region.parent is not None:
            _verify_users(region.parent, block.args)
        for op in block.ops:
            self._verify_structure(op)
            self._verify_operands(op)
            if op.regions:
                self._verify_regions_of(op)
            self._verify_definition(op)
            if op.results:
                _verify_users(op, op.results)
                results = list(map(id, op.results))
                self.visible.update(results)
                added += results
        return added

    def _verify_regions_of(self, op: Operation) -> None:
        if not op_is_isolated(op):
            for region in op.regions:
                self._verify_region(region)
            return
        saved = self.visible, self.outside_allowed
        self.visible, self.outside_allowed = set(), False
        for region in op.regions:
            self._verify_region(region)
        self.visible, self.outside_allowed = saved

    def _verify_unreachable(self, block: Block, region: Region) -> None:
        self._verify_terminator(block, region, single=False)
        for op in block.ops:
            for each in op.walk():
                _verify_living(each)
                self._verify_structure(each)
                self._verify_definition(each)

    def _verify_operands(self, op: Operation) -> None:
        for index, operand in enumerate(op.operands):
            if id(operand) in self.visible:
                continue
            _verify_living(op)
            if self.outside_allowed and not self._is_inside_root(operand):
                continue
            raise _dominance_failure(op, index, operand)

    def _is_inside_root(self, value: SSAValue) -> bool:
        owner = value.owner
        return self.root.is_ancestor(owner)

    def _verify_terminator(self, block: Block, region: Region, *, single: bool) -> None:
        parent = region.parent
        if (
            parent is None
            or (single and _has_trait(type(parent), NoTerminator))
            or isinstance(parent, UnregisteredOp)
        ):
            return
        last = block.last_op
        if last is None:
            raise VerifyFailure(
                f"'{parent.name}' op expects a terminator at the end of each block, but found an empty block",
                place=place_of_op(parent),
            )
        if not isinstance(last, UnregisteredOp) and not _has_trait(type(last), IsTerminator):
            raise VerifyFailure(
                f"'{last.name}' op ends a block of '{parent.name}' but is no terminator",
                place=place_of_op(last),
            )

    def _verify_structure(self, op: Operation) -> None:
        """What holds for every operation: sound successors, terminators at the end."""
        block = op.parent
        if op.successors:
            if block is None or block.last_op is not op:
                raise VerifyFailure(
                    f"'{op_name(op)}' op has successors and must stand at the end of its block",
                    place=place_of_op(op),
                )
            if any(successor.parent is not block.parent for successor in op.successors):
                raise VerifyFailure(
                    f"'{op_name(op)}' op branches to a block of another region", place=place_of_op(op)
                )
        if block is not None and block.last_op is not op and _has_trait(type(op), IsTerminator):
            raise VerifyFailure(
                f"'{op_name(op)}' op must be the last operation in its block", place=place_of_op(op)
            )

    def _verify_definition(self, op: Operation) -> None:
        try:
            op.verify_()
            verify_upstream_rules(op)
        except MloptError:
            raise
        except VerifyException as error:
            raise VerifyFailure(
                f"'{op_name(op)}' op {first_sentence(error)}", place=place_of_op(op)
            ) from error
        except Exception as error:
            raise VerifyFailure(
                f"'{op_name(op)}' op is malformed: {first_sentence(error)}", place=place_of_op(op)
            ) from error


def op_name(op: Operation) -> str:
    """The name of an operation as written in the text, also of an unregistered one."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def op_is_isolated(op: Operation) -> bool:
    """Whether the regions of `op` can't use values from outside."""
    return _has_trait(type(op), IsolatedFromAbove)


@cache
def _has_trait(kind: type[Operation], trait: type[OpTrait]) -> bool:
    """Whether operations of a class are bound by a trait; an unregistered one is bound by none."""
    return kind.has_trait(trait, value_if_unregistered=False)


def first_sentence(error: Exception) -> str:
    """The message of an xDSL exception without dumps of IR: its first lines up to a blank one."""
    lines = str(error).strip().partition("\n\n")[0].splitlines()
    return " ".join(line.strip() for line in lines) or type(error).__name__


def _verify_living(op: Operation) -> None:
    for index, operand in enumerate(op.operands):
        if isinstance(operand, ErasedSSAValue):
            raise VerifyFailure(
                f"'{op_name(op)}' op operand #{index} was erased while still in use", place=place_of_op(op)
            )


def _verify_users(op: Operation, values: Sequence[SSAValue]) -> None:
    """Raise for a value of `op` used by an operation that stands in no block: one that a pass made and left out.

    It would not be printed, but keep the value from being erased, and count as a use.
    """
    for value in values:
        for use in value.uses:
            if use.operation.parent is None:
                raise VerifyFailure(
                    f"a value of '{op.name}' is used by a '{use.operation.name}' that stands nowhere",
                    place=place_of_op(op),
                )


def _dominance_failure(op: Operation, index: int, operand: SSAValue) -> VerifyFailure:
    """The error for a use that its definition does not dominate, worded as MLIR does."""
    owner = operand.owner
    definition = owner if isinstance(owner, Operation) else owner.parent_op()
    isolated = _isolated_ancestor_between(op, operand)
    if isolated is not None:
        note = Diagnostic(Severity.NOTE, "required by region isolation constraints", place_of_op(isolated))
        return VerifyFailure(
            f"'{op_name(op)}' op using value defined outside the region", place=place_of_op(op), notes=(note,)
        )
    name = f" (%{operand.name_hint})" if operand.name_hint else ""
    notes: tuple[Diagnostic, ...] = ()
    if definition is not None:
        what = "operand defined here"
        if isinstance(operand, BlockArgument):
            what = "operand defined as a block argument here"
        elif isinstance(operand, OpResult) and operand.op.parent is op.parent:
            what = "operand defined here (op in the same block)"
        notes = (Diagnostic(Severity.NOTE, what, place_of(definition.location)),)
    return VerifyFailure(
        f"operand #{index}{name} does not dominate this use", place=place_of_op(op), notes=notes
    )


def _isolated_ancestor_between(op: Operation, operand: SSAValue) -> Operation | None:
    """The isolated operation around `op` that `operand` is defined outside of, if there is one."""
    block = operand.owner.parent if isinstance(operand.owner, Operation) else operand.owner
    region = None if block is None else block.parent
    current = op.parent_op()
    while current is not None:
        if op_is_isolated(current) and (region is None or not _is_inside(region, current)):
            return current
        current = current.parent_op()
    return None


def _is_inside(region: Region, op: Operation) -> bool:
    parent = region.parent
    return parent is not None and op.is_ancestor(parent)
