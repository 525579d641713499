"""The page of documentation that lists the run-time functions, from their classes."""

from __future__ import annotations

import inspect

from mlopt.interpreter.runtime.base import RuntimeFunction, kind_of
from mlopt.interpreter.runtime.table import FUNCTIONS

_HEAD = """# Run-time functions

Algorithms without structured form are functions of the engine. At the kernel level `kernel.call` calls them, with
their parameters as its attributes; at the memref level `func.call` does, of a declaration that says what it stands for:

```mlir
func.func private @mlopt_rt_scan(memref<8xf32>, memref<8xf32>) -> () attributes {
  mlopt.runtime = "mlopt_rt_scan", mlopt.written = array<i64: 1>,
  mlopt.parameters = {axis = 0 : i64, operation = "add"}}
```

`mlopt.written` holds the positions of the operands that the function writes, after those that it only reads; what it
writes it may read too. With `mlopt.workspace` its last argument is scratch, as many bytes as the function wants
(`plan-workspaces` asks the engine); it allocates nothing that grows with its operands. Integers are signless, so that a
parameter says where unsigned ones are meant. Values that a function can't compute on, such as an index out of bounds,
are an error of the run at the node, before anything is written.

This page is printed by `python -m mlopt.interpreter.runtime`; a test compares.

## Adding one
A function is a class in the file of its family in `compiler/interpreter/runtime/`, and stands in `table.py`; `base.py`
says all that a class may state. Its docstring is its documentation here.

```python
class Squares(RuntimeFunction):
    \"\"\"`result` is `source` times itself; an error if that is more than `limit`.\"\"\"

    NAME = "mlopt_rt_squares"
    READS = ("source",)
    WRITES = ("result",)
    PARAMETERS: ClassVar[Mapping[str, type]] = {"limit": int}

    def check(self) -> None:
        source, result = self.operands["source"], self.operands["result"]
        self.require(source == result, f"expected a result like the source {source}, found {result}")

    def scratch(self) -> Sequence[Buffer]:
        return (self.operands["source"],)

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (source,), (result,), (square,) = reads, writes, scratch
        np.multiply(source, source, out=square)
        if square.size and square.max() > self.integer("limit"):
            raise RunError(f"a square is more than {self.integer('limit')}")
        np.copyto(result, square)
```

The conversion of a graph operation calls it by `conversion.call(op, "squares", [op.input], {"limit": op.limit})`
(`passes/convert_graph_to_kernel/calls.py`). Nothing else has to know it: the declaration, what it writes and its
workspace follow from the class.
"""


def page() -> str:
    """The text of `docs/run-time-functions.md`."""
    return "\n".join([_HEAD, *(section(function) for function in sorted(FUNCTIONS, key=lambda f: f.NAME))])


def section(function: type[RuntimeFunction]) -> str:
    """One function: its operands, its parameters, and what it computes."""
    reads, writes = (
        ", ".join(f"`{name}`" for name in names) or "nothing" for names in (function.READS, function.WRITES)
    )
    parameters = ", ".join(f"`{name}` ({kind_of(type)})" for name, type in function.PARAMETERS.items())
    return (
        f"## {function.NAME}\nReads {reads}; writes {writes}. Parameters: {parameters or 'none'}.\n\n"
        f"{inspect.cleandoc(function.__doc__ or '')}\n"
    )
