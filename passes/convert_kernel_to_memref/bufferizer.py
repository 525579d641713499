"""Rewriting one function's block from tensors to buffers, once it is decided where every tensor lives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from xdsl.dialects import memref, scf, tensor
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from mlopt.dialects import kernel
from mlopt.ir.effects import destinations
from mlopt.ir.memory_spaces import ARENA_SPACE
from mlopt.ir.names import copy_name
from mlopt.passes.convert_kernel_to_memref.emitter import Emitter, static_and_dynamic
from mlopt.passes.convert_kernel_to_memref.operands import (
    DestinationOp,
    Loop,
    carried,
    is_tensor,
    needs_init,
    puts_back,
)
from mlopt.passes.convert_kernel_to_memref.placement import Placement, Storage, passed_on
from mlopt.passes.convert_kernel_to_memref.structured import emit_fill, emit_structured


class ModuleState(Protocol):
    """What functions share: constants, shapes of windows, the functions of launches."""

    def constant(self, emitter: Emitter, op: kernel.ConstantOp) -> SSAValue:
        """The buffer of a constant."""
        ...

    def shape_operand(self, emitter: Emitter, shape: Sequence[int], element: Attribute) -> SSAValue:
        """An uninitialised buffer that only states a shape."""
        ...

    def call(self, emitter: Emitter, op: kernel.SymbolicKernel, arguments: Sequence[SSAValue]) -> None:
        """Call the function of a launch, or a run-time function."""
        ...


class Bufferizer:
    """Fills a new function's entry block with the buffer form of a block of tensor ops."""

    def __init__(self, state: ModuleState, placement: Placement, entry: Block):
        self.state = state
        self.placement = placement
        self.emitter = Emitter(entry)
        self.values: dict[SSAValue, SSAValue] = {}
        self._buffers: dict[Storage, SSAValue] = {}

    def bind(self, value: SSAValue, buffer: SSAValue) -> None:
        """`value`, an argument of the block, lives in `buffer`."""
        self.values[value] = buffer
        self._buffers[self.placement.storage(value)] = buffer

    def forward(self, value: SSAValue, target: Storage, buffer: SSAValue) -> bool:
        """Let `value` be computed right in `buffer`; False if it has to be copied there instead."""
        if not self.placement.forward(value, target):
            return False
        self._buffers[self.placement.storage(value)] = buffer
        return True

    def emit_block(self, block: Block) -> None:
        """Emit all ops of a block but its terminator."""
        for op in block.ops:
            if op is not block.last_op:
                self.emitter.location = op.location
                self._emit(op)

    def _emit(self, op: Operation) -> None:
        match op:
            case tensor.EmptyOp():
                self.values[op.tensor] = self._buffer(op.tensor)
            case kernel.ConstantOp():
                self.values[op.result] = self.state.constant(self.emitter, op)
                copy_name(op.result, self.values[op.result])
            case kernel.CopyOp():
                self.values[op.result] = self._buffer(op.result, op.memory_space)
                self.emitter.copy(self.values[op.source], self.values[op.result])
            case kernel.ReshapeOp():
                self._emit_reshape(op)
            case tensor.ExtractSliceOp():
                self.values[op.result] = self._slice_of(op, self.values[op.source], op.result)
            case tensor.InsertSliceOp():
                self._emit_insert(op)
            case kernel.StructuredOp() | kernel.FillOp() | kernel.SymbolicKernel():
                self._emit_destination_op(op)
            case tensor.ExtractOp():
                indices = [self._value(index) for index in op.indices]
                load = self.emitter.add(memref.LoadOp.get(self.values[op.tensor], indices))
                self._replace(op, load)
            case scf.ForOp():
                self._emit_for(op)
            case scf.WhileOp():
                self._emit_while(op)
            case scf.IfOp():
                self._emit_if(op)
            case _:
                self._replace(op, self.emitter.add(op.clone(self.values)))

    # Buffers

    def _value(self, value: SSAValue) -> SSAValue:
        return self.values.get(value, value)

    def _replace(self, op: Operation, new: Operation) -> None:
        for old, result in zip(op.results, new.results, strict=True):
            self.values[old] = result
            result.name_hint = old.name_hint

    def _buffer(self, value: SSAValue, space: int = ARENA_SPACE) -> SSAValue:
        """The buffer of the storage of `value`, allocated now if it is not there yet, in the shape of `value`."""
        storage = self.placement.storage(value)
        if storage not in self._buffers:
            # A destination is named after what is computed into it, not after its own `tensor.empty`.
            named_after = None if isinstance(value.owner, tensor.EmptyOp) else value
            self._buffers[storage] = self.emitter.alloc(value.type, named_after, space)
        return self.emitter.reshape(self._buffers[storage], kernel.tensor_type(value).get_shape())

    def _destination(self, op: DestinationOp | Loop, position: int, result: SSAValue) -> SSAValue:
        """Where `op` writes `result`: into its operand's buffer, or a new one that starts as a copy of it."""
        operand = op.operands[position]
        if self.placement.in_place(op, position):
            return self.values[operand]
        buffer = self._buffer(result)
        keeps = isinstance(op, Loop) or needs_init(op, position)
        if keeps and not self.placement.is_undefined(operand):
            self.emitter.copy(self.values[operand], buffer)
        return buffer

    # Ops

    def _emit_reshape(self, op: kernel.ReshapeOp) -> None:
        source = self.values[op.source]
        if not self.placement.is_whole(op.source):
            contiguous = self.emitter.alloc(op.source.type, op.result)
            self.emitter.copy(source, contiguous)
            source = contiguous
        self.values[op.result] = self.emitter.reshape(source, kernel.tensor_type(op.result).get_shape())

    def _emit_insert(self, op: tensor.InsertSliceOp) -> None:
        source = self.values[op.source]
        if puts_back(op) is not None and self.placement.storage(op.source) is self.placement.storage(op.dest):
            self.values[op.result] = self.values[op.dest]
            return
        buffer = self._destination(op, 1, op.result)
        self.emitter.copy(source, self._slice_of(op, buffer, op.source))
        self.values[op.result] = buffer

    def _slice_of(
        self, op: tensor.ExtractSliceOp | tensor.InsertSliceOp, buffer: SSAValue, part: SSAValue
    ) -> SSAValue:
        offsets = static_and_dynamic(op.static_offsets.get_values(), [self._value(v) for v in op.offsets])
        strides = static_and_dynamic(op.static_strides.get_values(), [self._value(v) for v in op.strides])
        sizes = op.static_sizes.get_values()
        return self.emitter.slice(buffer, offsets, sizes, strides, kernel.tensor_type(part).get_shape())

    def _emit_destination_op(self, op: kernel.StructuredOp | kernel.FillOp | kernel.SymbolicKernel) -> None:
        ins = [self._value(value) for value in op.ins]
        outs: list[SSAValue] = []
        for position, result in destinations(op):
            outs.append(self._destination(op, position, result))
            copy_name(result, outs[-1])
        match op:
            case kernel.FillOp():
                emit_fill(self.emitter, ins[0], outs[0])
            case kernel.SymbolicKernel():
                self.state.call(self.emitter, op, [*ins, *outs])
            case _:
                in_place = [self.placement.in_place(op, position) for position, _ in destinations(op)]
                emit_structured(self.emitter, op, ins, outs, self.values, in_place, self._shape_operand)
        for (_, result), out in zip(destinations(op), outs, strict=True):
            self.values[result] = out

    def _shape_operand(self, shape: Sequence[int], element: Attribute) -> SSAValue:
        return self.state.shape_operand(self.emitter, shape, element)

    # Control flow: tensors are carried by their buffers, only scalars by the ops

    def _emit_carried(self, op: Loop) -> None:
        for position, arg in carried(op):
            self.values[arg] = self._destination(op, position, arg)

    def _emit_for(self, op: scf.ForOp) -> None:
        self._emit_carried(op)
        block = Block(arg_types=[op.body.block.args[0].type])
        self._map_argument(op.body.block.args[0], block.args[0])
        scalars = self._scalar_arguments(op.body.block.args[1:], block)
        with self.emitter.at_end_of(block):
            self.emit_block(op.body.block)
            self._emit_yield(op.body.block, [arg for _, arg in carried(op)])
        lower, upper, step = (self._value(value) for value in (op.lb, op.ub, op.step))
        self.emitter.location = op.location
        loop = scf.ForOp(lower, upper, step, [self._value(op.iter_args[i]) for i in scalars], Region(block))
        self._map_scalar_results(op, self.emitter.add(loop))
        for (_, arg), result in zip(carried(op), filter(is_tensor, op.results), strict=True):
            self.values[result] = self.values[arg]

    def _emit_while(self, op: scf.WhileOp) -> None:
        self._emit_carried(op)
        results = [self._passed_buffer(op, *passing) for passing in passed_on(op)]
        before, after = Block(), Block()
        scalars = self._scalar_arguments(op.before_region.block.args, before)
        passed_scalars = self._scalar_arguments(op.after_region.block.args, after)
        condition = op.before_region.block.last_op
        assert isinstance(condition, scf.ConditionOp)
        with self.emitter.at_end_of(before):
            self.emit_block(op.before_region.block)
            self.emitter.location = condition.location
            targets = [(passed, inside) for passed, inside, _ in passed_on(op)]
            self._emit_copies([(p, i, target) for (p, i), target in zip(targets, results, strict=True)])
            self.emitter.add(
                scf.ConditionOp(
                    self._value(condition.condition),
                    *(self._value(condition.args[i]) for i in passed_scalars),
                )
            )
        with self.emitter.at_end_of(after):
            self.emit_block(op.after_region.block)
            self._emit_yield(op.after_region.block, [arg for _, arg in carried(op)])
        self.emitter.location = op.location
        loop = scf.WhileOp(
            [self._value(op.arguments[i]) for i in scalars],
            [value.type for value in op.results if not is_tensor(value)],
            Region(before),
            Region(after),
        )
        self._map_scalar_results(op, self.emitter.add(loop))

    def _passed_buffer(
        self, op: scf.WhileOp, passed: SSAValue, inside: SSAValue, result: SSAValue
    ) -> SSAValue:
        """The buffer that holds a tensor which `scf.condition` passes on, inside the loop and after it."""
        buffer = self.values[passed] if self.placement.dominates_loop(op, passed) else self._buffer(result)
        self.values[inside] = self.values[result] = buffer
        return buffer

    def _emit_if(self, op: scf.IfOp) -> None:
        results = [result for result in op.results if is_tensor(result)]
        for result in results:
            self.values[result] = self._buffer(result)
        blocks: list[Block] = []
        for region in op.regions:
            blocks.append(Block())
            with self.emitter.at_end_of(blocks[-1]):
                if region.blocks.first is not None:
                    self.emit_block(region.block)
                    self._emit_yield(region.block, results)
                else:
                    self.emitter.add(scf.YieldOp())
        self.emitter.location = op.location
        types = [value.type for value in op.results if not is_tensor(value)]
        otherwise = Region(blocks[1]) if op.false_region.blocks.first is not None else None
        branch = scf.IfOp(self._value(op.cond), types, Region(blocks[0]), otherwise)
        self._map_scalar_results(op, self.emitter.add(branch))

    def _emit_yield(self, block: Block, targets: Sequence[SSAValue]) -> None:
        """Copy what the block yields to where `targets` live, and yield its scalars."""
        terminator = block.last_op
        assert terminator is not None
        self.emitter.location = terminator.location
        tensors = [value for value in terminator.operands if is_tensor(value)]
        self._emit_copies(
            [(value, target, self.values[target]) for value, target in zip(tensors, targets, strict=True)]
        )
        scalars = [self._value(value) for value in terminator.operands if not is_tensor(value)]
        self.emitter.add(scf.YieldOp(*scalars))

    def emit_copies(self, pairs: Iterable[tuple[SSAValue, SSAValue]]) -> None:
        """Copy tensors to where other tensors live, all at once: `(source, target)`."""
        self._emit_copies([(source, target, self.values[target]) for source, target in pairs])

    def _emit_copies(self, moves: Sequence[tuple[SSAValue, SSAValue, SSAValue]]) -> None:
        """`(source, target, buffer of target)`; a source that lives where another move writes is saved first."""
        written = {
            self.placement.storage(target)
            for source, target, _ in moves
            if not self._is_there(source, target)
        }
        pending: list[tuple[SSAValue, SSAValue]] = []
        for source, target, buffer in moves:
            if self._is_there(source, target):
                continue
            value = self.values[source]
            if self.placement.storage(source) in written:
                saved = self.emitter.alloc(source.type, source)
                self.emitter.copy(value, saved)
                value = saved
            pending.append((value, buffer))
        for value, buffer in pending:
            self.emitter.copy(value, buffer)

    def _is_there(self, source: SSAValue, target: SSAValue) -> bool:
        same = self.placement.storage(source) is self.placement.storage(target)
        return same and self.placement.is_whole(source)

    # Scalars

    def _map_argument(self, old: BlockArgument, new: BlockArgument) -> None:
        self.values[old] = new
        new.name_hint = old.name_hint

    def _scalar_arguments(self, args: Sequence[BlockArgument], block: Block) -> list[int]:
        """Give `block` the arguments that are no tensors; returns their positions in `args`."""
        positions = [i for i, arg in enumerate(args) if not is_tensor(arg)]
        for i in positions:
            self._map_argument(args[i], block.insert_arg(args[i].type, len(block.args)))
        return positions

    def _map_scalar_results(self, op: Operation, new: Operation) -> None:
        for old, result in zip((r for r in op.results if not is_tensor(r)), new.results, strict=True):
            self.values[old] = result
            result.name_hint = old.name_hint
