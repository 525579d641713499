"""What may watch a pass manager at work: the interface, and the printing of IR between passes."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from mlopt.diagnostics import InputError, Place
from mlopt.ir.printer import print_op
from mlopt.passmanager.base import Pass


class Instrumentation:
    """Called around every run of a pass on an operation. Subclasses override what they need."""

    def before_pass(self, pass_: Pass, op: Operation) -> None:
        """The pass is about to run on `op`."""

    def review(self, pass_: Pass, op: Operation, changed: bool) -> bool:
        """The pass ran on `op`, which verifies: whether it is changed. Who undoes the change returns False."""
        return changed

    def after_pass(self, pass_: Pass, op: Operation, changed: bool) -> None:
        """The pass ran on `op`, which verifies, and reported whether it changed anything."""

    def after_failure(self, pass_: Pass, op: Operation) -> None:
        """The pass raised an error, or left IR that does not verify."""

    def recover(self, pass_: Pass, op: Operation, error: Exception) -> bool:
        """The pass failed by a fault of its own. Who undoes what it did to `op` returns True: the run goes on."""
        return False


@dataclass
class IRPrinting(Instrumentation):
    """Prints the IR before and after passes, with MLIR's headers.

    - `before`, `after`: names of passes, or True for all.
    - `only_changed`: print after a pass only if it changed something.
    - `on_failure`: print after a pass that failed, whether `after` names it or not.
    - `module_scope`: print the whole module, not only the operation that the pass ran on.
    - `tree`: a directory; each dump becomes a file named and numbered as MLIR does, instead of going to `stream`.
    """

    before: frozenset[str] | bool = False
    after: frozenset[str] | bool = False
    only_changed: bool = False
    on_failure: bool = False
    module_scope: bool = False
    tree: Path | None = None
    elide_larger_than: int | None = None
    debuginfo: bool = False
    generic: bool = False
    stream: IO[str] = field(default_factory=lambda: sys.stderr)
    _counters: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def before_pass(self, pass_: Pass, op: Operation) -> None:
        if _selected(self.before, pass_):
            self._dump(f"Before {title(pass_)} ({pass_.name})", pass_, op)

    def after_pass(self, pass_: Pass, op: Operation, changed: bool) -> None:
        if _selected(self.after, pass_) and (changed or not self.only_changed):
            self._dump(f"After {title(pass_)} ({pass_.name})", pass_, op)

    def after_failure(self, pass_: Pass, op: Operation) -> None:
        if self.on_failure or _selected(self.after, pass_):
            try:
                self._dump(f"After {title(pass_)} Failed ({pass_.name})", pass_, op)
            except Exception as error:
                # What a failed pass leaves may be beyond printing; its own error matters more.
                self.stream.write(f"// the IR after the failure can't be printed: {error}\n")

    def _dump(self, what: str, pass_: Pass, op: Operation) -> None:
        header = f"// -----// IR Dump {what}"
        printed = op
        if self.module_scope:
            symbol = _symbol(op)
            header += f" ('{op.name}' operation{f': @{symbol}' if symbol else ''})"
            printed = _outermost(op)
        ir = print_op(
            printed, elide_larger_than=self.elide_larger_than, debuginfo=self.debuginfo, generic=self.generic
        )
        text = f"{header} //----- //\n{ir}\n"
        if self.tree is None:
            self.stream.write(text)
            return
        path = self._file(self.tree, pass_, op)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"can't write the IR dump: {error.strerror}", place=Place(str(path))) from error

    def _file(self, tree: Path, pass_: Pass, op: Operation) -> Path:
        """MLIR's name for a dump: a directory per operation from the module down, counters of each level in front."""
        self._counters[op] = self._counters.get(op, -1) + 1
        chain: list[Operation] = []
        current: Operation | None = op
        while current is not None:
            chain.append(current)
            current = current.parent_op()
        chain.reverse()
        counts = "_".join(str(self._counters.setdefault(level, 0)) for level in chain)
        directories = [f"{level.name.replace('.', '_')}_{_safe(_symbol(level))}" for level in chain]
        return tree.joinpath(*directories, f"{counts}_{pass_.name}.mlir")


def title(pass_: Pass) -> str:
    """The name of a pass in headers and reports, as MLIR forms it: its class without `Pass`."""
    return type(pass_).__name__.removesuffix("Pass")


def _selected(passes: frozenset[str] | bool, pass_: Pass) -> bool:
    return passes if isinstance(passes, bool) else pass_.name in passes


def _symbol(op: Operation) -> str | None:
    symbol = op.properties.get("sym_name") or op.attributes.get("sym_name")
    return symbol.data if isinstance(symbol, StringAttr) else None


def _safe(symbol: str | None) -> str:
    """A symbol as part of a file name: nothing that could lead out of the directory."""
    return "no-symbol-name" if symbol is None else re.sub(r"[^\w.-]", "_", symbol)[:100]


def _outermost(op: Operation) -> Operation:
    parent = op.parent_op()
    while parent is not None:
        op, parent = parent, parent.parent_op()
    return op
