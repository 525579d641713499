"""What launches and run-time functions work in and how long they take, found out by lowering each on its own."""

from __future__ import annotations

from math import inf

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Region

from mlopt.dialects.kernel import CopyOp, LaunchOp, SymbolicKernel
from mlopt.ir.context import CompilerContext, ScratchNeed, Target
from mlopt.memory import align_up
from mlopt.passes.convert_kernel_to_memref import ConvertKernelToMemrefPass
from mlopt.passes.convert_kernel_to_memref.emitter import memref_of
from mlopt.passes.convert_kernel_to_memref.module_state import Key, structural_key
from mlopt.passes.kernel.block_steps import temporaries_of
from mlopt.passes.memref.plan_workspaces import DEFAULT_ALIGNMENT, workspace_need


class WorkspaceNeeds:
    """The workspaces that `plan-workspaces` will find out that kernels need.

    Equal kernels are lowered once. What a kernel does must not change after it was asked for. With `scarce`, the least
    workspace is that with which a kernel runs at all, else that with which it is not much slower.
    """

    def __init__(self, target: Target | None):
        self.alignment = DEFAULT_ALIGNMENT if target is None else target.alignment
        self.scarce = False
        self._granted: dict[SymbolicKernel, int] = {}
        self._at_most: dict[SymbolicKernel, int] = {}
        self._target = target
        self._known: dict[Key, ScratchNeed] = {}
        self._of: dict[SymbolicKernel, ScratchNeed] = {}
        self._copies: dict[Attribute, float] = {}

    def need(self, kernel: SymbolicKernel) -> ScratchNeed:
        """The least and the best workspace of a kernel, and its time in them."""
        found = self._of.get(kernel)
        if found is None:
            key = structural_key(kernel)
            if key not in self._known:
                self._known[key] = self._lower(kernel)
            found = self._of[kernel] = self._known[key]
        return found

    def least(self, kernel: SymbolicKernel) -> int:
        """The bytes that a kernel needs at least."""
        need = self.need(kernel)
        if self.scarce:
            return need.least
        return min(need.minimum, self._granted.get(kernel, need.minimum))

    def grant(self, kernel: SymbolicKernel, nbytes: int) -> None:
        """Let a kernel run in so many bytes, fewer than those with which it runs well."""
        self._granted[kernel] = nbytes

    def price(self, kernel: SymbolicKernel, nbytes: int) -> float:
        """The nanoseconds that a call takes longer in so many bytes than in the least; infinite if it can't run."""
        need = self.need(kernel)
        if nbytes < need.least:
            return inf
        return 0.0 if need.nanoseconds is None else need.nanoseconds(nbytes) - self.nanoseconds(kernel)

    def at_most(self, kernel: SymbolicKernel) -> int:
        """No less than what it needs at least, quickly known: of launches from their operations and extents alone."""
        found = self._of.get(kernel)
        if found is not None:
            return found.minimum
        if not isinstance(kernel, LaunchOp):
            return self.least(kernel)
        if kernel not in self._at_most:
            scratch = 0 if self._target is None else self._target.scratch_bound(kernel)
            own = temporaries_of(kernel, self.alignment)
            self._at_most[kernel] = own + align_up(scratch, self.alignment)
        return self._at_most[kernel]

    def nanoseconds(self, kernel: SymbolicKernel) -> float:
        """How long a call takes in the least workspace, roughly; 0 if nothing is known of that."""
        need = self.need(kernel)
        return 0.0 if need.nanoseconds is None else need.nanoseconds(self.least(kernel))

    def nanoseconds_in(self, kernel: SymbolicKernel, nbytes: int) -> float:
        """How long a call takes in so many bytes of those with which it runs well; 0 if nothing is known of that."""
        need = self.need(kernel)
        return (
            0.0 if need.nanoseconds is None else need.nanoseconds(max(need.least, min(nbytes, need.minimum)))
        )

    def copy_nanoseconds(self, copy: CopyOp) -> float:
        """How long it takes to copy a tensor, roughly; 0 if nothing is known of that."""
        type_ = copy.result.type
        if type_ not in self._copies:
            block = Block(arg_types=[memref_of(type_), memref_of(type_)])
            block.add_ops([memref.CopyOp(*block.args), func.ReturnOp()])
            function = func.FuncOp("copy", (block.arg_types, []), Region(block))
            ModuleOp([function])
            need = ScratchNeed(0, 0) if self._target is None else self._target.scratch_need(function)
            self._copies[type_] = 0.0 if need.nanoseconds is None else need.nanoseconds(need.minimum)
        return self._copies[type_]

    def _lower(self, kernel: SymbolicKernel) -> ScratchNeed:
        block = Block(arg_types=[operand.type for operand in kernel.operands])
        copy = kernel.clone(dict(zip(kernel.operands, block.args, strict=True)))
        for operand, argument in enumerate(block.args):
            copy.operands[operand] = argument  # an operand may be given twice
        block.add_ops([copy, func.ReturnOp(*copy.results)])
        types = [result.type for result in copy.results]
        main = func.FuncOp("main", ([operand.type for operand in kernel.operands], types), Region(block))
        module = ModuleOp([main])
        ConvertKernelToMemrefPass().run(CompilerContext(), module)
        functions = [op for op in module.ops if isinstance(op, func.FuncOp) and op.sym_name.data != "main"]
        return workspace_need(functions[0], self._target, self.alignment)
