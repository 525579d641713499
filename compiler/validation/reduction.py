"""A small module on which a pass still goes wrong: delta debugging by running the pass on parts of a function.

A part is some of the operations in the function's block. What they use of the others comes in as arguments, with the
values that it had; what others used of them goes out as results. The search, each step kept if the pass still changes
a result:

1. only the output that differs, and what it needs;
2. the shortest beginning of the function, then the shortest end of that (binary searches);
3. chunks of operations left out, halves first, then smaller ones down to single operations;
4. a single result.

Operations without operands (constants) are taken along with what uses them: patterns look for them. It ends after
`MAX_TRIALS` trials, each of which runs the pass once and evaluates what is before and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from mlopt.diagnostics import MloptError, Place
from mlopt.interface import argument_attributes, result_attributes
from mlopt.ir.locations import place_of_op
from mlopt.validation.evaluation import Array, Evaluator, level
from mlopt.validation.seeding import function_inputs
from mlopt.validation.trial import Suspect, try_on

MAX_TRIALS = 120
"""How often the pass is run at most."""


@dataclass(frozen=True)
class Case:
    """A pass, a module on which it goes wrong, and the inputs of the function that show it."""

    suspect: Suspect
    module: ModuleOp
    function: str
    inputs: Mapping[str, Array]

    @cached_property
    def func(self) -> FuncOp:
        """The function."""
        for op in self.module.ops:
            if isinstance(op, FuncOp) and op.sym_name.data == self.function:
                return op
        raise LookupError(self.function)

    @property
    def size(self) -> int:
        """How many operations are in the function's block, the terminator aside."""
        return sum(1 for _ in self.func.body.block.ops) - 1

    @property
    def place(self) -> Place:
        """Where the last operation came from, which is where the first wrong value comes out."""
        *_, last = [self.func, *list(self.func.body.block.ops)[:-1]]
        return place_of_op(last)


Shows = Callable[[Case], bool]
"""Whether a case shows a fault."""


def is_changed(case: Case) -> bool:
    """Whether the pass changes what the function computes."""
    verdict = try_on(case.suspect, case.module, case.function, case.inputs)
    return verdict is not None and verdict.difference is not None


def reduce_case(case: Case, shows: Shows, output: str | None = None, *, trials: int = MAX_TRIALS) -> Case:
    """The smallest case found, of parts of the function of `case`, that shows the same fault; at worst that itself.

    `output` is the output in which it shows, if it does in one; `trials` is how many parts are tried. At the memref
    level, where values are memory, the module stays as it is.
    """
    if level(case.module) == "memref":
        return case
    return _Reducer(shows, trials).reduce(case, output)


@dataclass
class _Reducer:
    shows: Shows
    trials: int

    def reduce(self, case: Case, output: str | None) -> Case:
        """Steps 1 to 4 of the module's documentation."""
        if output is not None:
            case = self._keep(case, self._one_output(case, output))
        case = self._search(case, lambda whole, n: range(n))
        case = self._search(case, lambda whole, n: range(whole.size - n, whole.size))
        case = self._leave_out(case)
        return self._single_result(case)

    def _one_output(self, case: Case, output: str) -> Case | None:
        """What makes one output, and that alone."""
        names = [attributes.get("mlopt.name") for attributes in result_attributes(case.func)]
        position = next(
            (i for i, name in enumerate(names) if name == StringAttr(output) or output == f"result{i}"), 0
        )
        terminator = case.func.body.block.last_op
        assert terminator is not None
        return self._part(case, range(case.size), [terminator.operands[position]])

    def _fails(self, case: Case) -> bool:
        if not self.trials:
            return False
        self.trials -= 1
        return self.shows(case)

    def _keep(self, case: Case, smaller: Case | None) -> Case:
        """The smaller case if it still fails, else the other."""
        return case if smaller is None or not self._fails(smaller) else smaller

    def _search(self, case: Case, part: Callable[[Case, int], range]) -> Case:
        """The part of the fewest operations that fails, if it is so that larger ones fail too."""
        too_few, enough = 0, case.size
        best = case
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            smaller = self._part(case, part(case, middle))
            if smaller is not None and self._fails(smaller):
                enough, best = middle, smaller
            else:
                too_few = middle
        return best

    def _part(
        self, case: Case, kept: Collection[int], results: Sequence[SSAValue] | None = None
    ) -> Case | None:
        """A part of a case (see `_part`); None if what it would need can't be computed."""
        try:
            return _part(case, kept, results)
        except MloptError:
            return None

    def _leave_out(self, case: Case) -> Case:
        chunk = max(1, case.size // 2)
        while True:
            start = 0
            while start < case.size:
                kept = [i for i in range(case.size) if not start <= i < start + chunk]
                smaller = self._keep(case, self._part(case, kept)) if kept else case
                if smaller is case:
                    start += chunk
                case = smaller
            if chunk == 1:
                return case
            chunk = max(1, chunk // 2)

    def _single_result(self, case: Case) -> Case:
        terminator = case.func.body.block.last_op
        assert terminator is not None
        if len(terminator.operands) > 1:
            for value in terminator.operands:
                smaller = self._part(case, range(case.size), [value])
                if smaller is not None and self._fails(smaller):
                    return smaller
        return case


def _part(case: Case, kept: Collection[int], results: Sequence[SSAValue] | None) -> Case | None:
    """The case with the operations at the positions `kept`, what results need, and no others.

    `results` are values of the function; None: what the operations left out, or the function's results, use of those
    that are kept. None if there is no result.
    """
    func = case.func
    block = func.body.block
    ops = list(block.ops)[:-1]
    chosen = {ops[i] for i in kept}
    if results is None:
        results = _results_of(block, chosen)
    results = [value for value in results if isinstance(value.type, TensorType)]
    if not results:
        return None
    live = _live(ops, chosen, results)
    outside = _uses_of(live, results)
    carried = [value for value in outside if not isinstance(value, BlockArgument)]
    names: dict[SSAValue, str] = {each.argument: each.name for each in function_inputs(func)}
    values = {name: case.inputs[name] for value, name in names.items() if value in outside}
    fresh = _Names(names.values())
    for value in carried:
        names[value] = fresh.take(_name_of(value, {}))
    if carried:
        values |= _values(case, {names[value]: value for value in carried})
    module = _module(case, live, outside, results, names)
    # The function stands alone in its module.
    suspect = replace(case.suspect, path=(0, *case.suspect.path[1:])[: len(case.suspect.path)])
    return Case(suspect, module, case.function, values)


def _results_of(block: Block, chosen: Collection[Operation]) -> list[SSAValue]:
    """The results of chosen operations that something else uses."""

    def is_used_outside(value: SSAValue) -> bool:
        return any(block.find_ancestor_op_in_block(use.operation) not in chosen for use in value.uses)

    found = [result for op in block.ops if op in chosen for result in op.results if is_used_outside(result)]
    return [value for value in found if isinstance(value.type, TensorType)]


def _live(
    ops: Sequence[Operation], chosen: Collection[Operation], results: Sequence[SSAValue]
) -> list[Operation]:
    """The chosen operations that the results need, in order; constants and what makes scalars are always chosen."""
    needed = set(results)
    live: list[Operation] = []
    for op in reversed(ops):
        if not any(result in needed for result in op.results):
            continue
        is_tensor = all(isinstance(result.type, TensorType) for result in op.results)
        if op in chosen or not is_tensor or not _operands_inside(op):
            live.append(op)
            needed.update(_operands_inside(op))
    return live[::-1]


def _operands_inside(op: Operation) -> list[SSAValue]:
    """What an operation, its regions included, uses from outside of itself."""
    return list(
        dict.fromkeys(
            operand for inner in op.walk() for operand in inner.operands if not op.is_ancestor(operand.owner)
        )
    )


def _uses_of(live: Sequence[Operation], results: Sequence[SSAValue]) -> list[SSAValue]:
    """The values from elsewhere that operations and results use: arguments first, in order."""
    made = {result for op in live for result in op.results}
    used = dict.fromkeys(value for op in live for value in _operands_inside(op) if value not in made)
    used.update(dict.fromkeys(value for value in results if value not in made))
    arguments = [value for value in used if isinstance(value, BlockArgument)]
    rest = [value for value in used if not isinstance(value, BlockArgument)]
    arguments.sort(key=lambda argument: argument.index)
    return [*arguments, *rest]


def _values(case: Case, wanted: Mapping[str, SSAValue]) -> dict[str, Array]:
    """What the function computes for some of its values, by the names they are to have."""
    ops = list(case.func.body.block.ops)[:-1]
    results = list(wanted.values())
    live = _live(ops, ops, results)
    outside = _uses_of(live, results)
    names: dict[SSAValue, str] = {each.argument: each.name for each in function_inputs(case.func)}
    inputs = {names[value]: case.inputs[names[value]] for value in outside}
    module = _module(case, live, outside, results, {**names, **{v: name for name, v in wanted.items()}})
    return Evaluator(module, case.suspect.ctx.weights).run(case.function, inputs)


def _module(
    case: Case,
    live: Sequence[Operation],
    outside: Sequence[SSAValue],
    results: Sequence[SSAValue],
    names: Mapping[SSAValue, str],
) -> ModuleOp:
    """A module of one function of some operations: what is `outside` comes in as its arguments."""
    block = Block(arg_types=[value.type for value in outside])
    mapper: dict[SSAValue, SSAValue] = dict(zip(outside, block.args, strict=True))
    for value, argument in mapper.items():
        argument.name_hint = value.name_hint
    for op in live:
        block.add_op(op.clone(mapper))
    block.add_op(ReturnOp(*(mapper[value] for value in results)))
    attributes = argument_attributes(case.func)
    given: dict[SSAValue, dict[str, Attribute]] = dict(
        zip(case.func.body.block.args, attributes, strict=True)
    )
    arg_attrs = [
        DictionaryAttr({**given.get(value, {}), "mlopt.name": StringAttr(names[value])}) for value in outside
    ]
    fresh = _Names()
    res_attrs = [
        DictionaryAttr({"mlopt.name": StringAttr(fresh.take(_name_of(value, names)))}) for value in results
    ]
    func = FuncOp(
        case.function,
        ([value.type for value in outside], [value.type for value in results]),
        Region(block),
        arg_attrs=ArrayAttr(arg_attrs),
        res_attrs=ArrayAttr(res_attrs),
    )
    func.location = case.func.location
    return ModuleOp([func])


def _name_of(value: SSAValue, names: Mapping[SSAValue, str]) -> str:
    return names.get(value) or value.name_hint or "value"


class _Names:
    """Names that are given once each."""

    def __init__(self, taken: Collection[str] = ()):
        self._taken = set(taken)

    def take(self, name: str) -> str:
        """The name, with a number behind it if it is taken."""
        unique, number = name, 0
        while unique in self._taken:
            number += 1
            unique = f"{name}_{number}"
        self._taken.add(unique)
        return unique
