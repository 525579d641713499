"""Running pipelines: anchors, verification, conditions, statistics, errors, and the dumps."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from xdsl.dialects.arith import AddiOp, ConstantOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from mlopt.diagnostics import PassFailure, PipelineError, Place, VerifyFailure
from mlopt.ir import CompilerContext, make_context, parse_module, print_module
from mlopt.passmanager import Condition, IRPrinting, Pass, PassManager, Pipeline, no_ops_of
from mlopt.passmanager.conditions import GRAPH_LEVEL
from mlopt.passmanager.reports import PASSES_PHASE, statistics_report, timing_report

TEXT = """
func.func @f() {
  %a = arith.constant 1 : i32
  func.return
}
func.func @g() {
  func.return
}
"""


@dataclass(frozen=True)
class DropConstants(Pass):
    """Erase every constant."""

    name = "drop-constants"
    anchor = None

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        constants = [nested for nested in op.walk() if isinstance(nested, ConstantOp)]
        for constant in constants:
            constant.detach()
            constant.erase(safe_erase=False)
        ctx.count(self.name, "constants", len(constants))
        return bool(constants)


@dataclass(frozen=True)
class Breaks(Pass):
    """Leave a use before its definition, and say so or not."""

    name = "breaks"
    anchor = None

    honest: bool = True

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        constant = next(nested for nested in op.walk() if isinstance(nested, ConstantOp))
        add = AddiOp(constant, constant)
        add.location = constant.location
        block = constant.parent
        assert block is not None
        block.insert_op_before(add, constant)
        return self.honest


@dataclass(frozen=True)
class Raises(Pass):
    name = "raises"
    anchor = None

    error: type[Exception] = PassFailedException

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        raise self.error("it broke")


@dataclass(frozen=True)
class WantsNoFunc(DropConstants):
    name = "wants-no-func"
    requires: ClassVar[tuple[Condition, ...]] = (no_ops_of("func"),)


@dataclass(frozen=True)
class PromisesNoFunc(DropConstants):
    name = "promises-no-func"
    ensures: ClassVar[tuple[Condition, ...]] = (no_ops_of("func"),)


def module() -> ModuleOp:
    return parse_module(TEXT, make_context(), "x.mlir")


def run(pipeline: Pipeline, **options: object) -> tuple[ModuleOp, PassManager]:
    parsed = module()
    manager = PassManager(make_context(), pipeline, **options)
    manager.run(parsed)
    return parsed, manager


def pipeline(*elements: Pass | Pipeline, anchor: str = "builtin.module") -> Pipeline:
    return Pipeline(anchor, elements)


def test_a_result_for_each_pass_in_order() -> None:
    nested = pipeline(DropConstants(), anchor="func.func")
    results = PassManager(make_context(), pipeline(nested, DropConstants())).run(module())
    assert [(result.name, result.changed, result.statistics) for result in results] == [
        ("drop-constants", True, {"constants": 1}),
        ("drop-constants", False, {"constants": 0}),
    ]
    assert [result.path for result in results] == [("builtin.module", "func.func"), ("builtin.module",)]


@pytest.mark.parametrize(
    ("nested", "left"),
    [("func.func", 0), ("any", 0), ("scf.for", 1), ("arith.constant", 1)],
)
def test_nested_anchors(nested: str, left: int) -> None:
    parsed, _ = run(pipeline(pipeline(DropConstants(), anchor=nested)))
    assert print_module(parsed).count("arith.constant") == left


@dataclass(frozen=True)
class OnModules(DropConstants):
    name = "on-modules"
    anchor: ClassVar[str | None] = "builtin.module"


@dataclass(frozen=True)
class OnFuncs(DropConstants):
    name = "on-funcs"
    anchor: ClassVar[str | None] = "func.func"


def test_a_pipeline_for_any_runs_on_what_all_its_passes_take() -> None:
    """As in MLIR: what a pass is not made for is passed over inside, and an error at the top."""
    for element, left in ((OnFuncs(), 0), (OnModules(), 1), (DropConstants(), 0)):
        parsed, _ = run(pipeline(pipeline(element, anchor="any")))
        assert print_module(parsed).count("arith.constant") == left
    run(pipeline(OnModules(), anchor="any"))
    with pytest.raises(PipelineError, match=r"can't run 'any' pass manager on 'builtin.module' op"):
        run(pipeline(OnFuncs(), anchor="any"))


def test_the_outermost_anchor_must_be_the_modules() -> None:
    with pytest.raises(PipelineError, match=r"can't run 'func.func' pass manager on 'builtin.module' op"):
        run(pipeline(DropConstants(), anchor="func.func"))


def test_broken_ir_is_found_after_the_pass_that_left_it() -> None:
    with pytest.raises(VerifyFailure) as failure:
        run(pipeline(Breaks()))
    assert failure.value.message == "operand #0 (%a) does not dominate this use"
    assert failure.value.place == Place("x.mlir", 3, 8)
    assert failure.value.notes[-1].message == "pass 'breaks' left this IR"
    run(pipeline(Breaks()), verify_each=False)
    run(pipeline(Breaks(honest=False)))


def test_conditions() -> None:
    with pytest.raises(VerifyFailure) as failure:
        run(pipeline(WantsNoFunc()))
    assert failure.value.message == "expected no operation of dialect 'func' to be left, found 'func.func'"
    assert failure.value.place == Place("x.mlir", 2, 1)
    assert failure.value.notes[-1].message == "pass 'wants-no-func' requires this"
    with pytest.raises(VerifyFailure) as failure:
        run(pipeline(PromisesNoFunc()))
    assert failure.value.notes[-1].message == "pass 'promises-no-func' ensures this"


def test_a_condition_is_asked_again_only_after_a_change() -> None:
    """By hand: before the first pass, after the change of the second, and nowhere else."""
    asked: list[int] = []

    def condition(root: Operation) -> None:
        asked.append(sum(1 for _ in root.walk()))

    @dataclass(frozen=True)
    class Watched(DropConstants):
        name = "watched"
        requires: ClassVar[tuple[Condition, ...]] = (condition,)
        ensures: ClassVar[tuple[Condition, ...]] = (condition,)

    @dataclass(frozen=True)
    class Idle(Watched):
        name = "idle"

        def run(self, ctx: CompilerContext, op: Operation) -> bool:
            return False

    run(pipeline(Idle(), Watched(), Idle(), Watched()))
    assert asked == [6, 5]


@pytest.mark.parametrize("found", ["memref.alloc", "kernel.launch"])
def test_passes_of_the_graph_level_say_that_they_come_too_late(found: str) -> None:
    """At a lower level they would find nothing to do, and say nothing of it."""
    text = f'func.func @f() {{\n  "{found}"() : () -> ()\n  func.return\n}}\n'
    ctx = make_context(allow_unregistered=True)
    for condition in GRAPH_LEVEL:
        error = condition(parse_module(text.replace(found, "other.op"), ctx, "x.mlir"))
        assert error is None
    error = GRAPH_LEVEL[0](parse_module(text.replace(found, f"{found}_like"), ctx, "x.mlir"))
    assert error is not None
    assert error.message.startswith(f"expected a module at the graph level, found '{found}_like': ")
    assert error.place == Place("x.mlir", 2, 3)


def test_errors_of_passes() -> None:
    with pytest.raises(PassFailure, match="pass 'raises' failed: it broke"):
        run(pipeline(Raises()))
    with pytest.raises(PassFailure, match="nested too deeply"):
        run(pipeline(Raises(RecursionError)))
    with pytest.raises(ZeroDivisionError) as fault:
        run(pipeline(Raises(ZeroDivisionError)))
    assert "while running pass 'raises' on 'builtin.module'" in fault.value.__notes__[0]


def dumps(elements: tuple[Pass | Pipeline, ...], **options: object) -> str:
    stream = io.StringIO()
    printing = IRPrinting(stream=stream, **options)
    run(pipeline(*elements), instrumentations=[printing])
    return stream.getvalue()


def headers(text: str) -> list[str]:
    return [
        line.removeprefix("// -----// IR Dump ")
        for line in text.splitlines()
        if line.startswith("// -----//")
    ]


ON_FUNCS = pipeline(DropConstants(), anchor="func.func")


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({"after": True}, ["After DropConstants (drop-constants) //----- //"] * 3),
        ({"before": True}, ["Before DropConstants (drop-constants) //----- //"] * 3),
        ({"after": frozenset({"drop-constants"})}, ["After DropConstants (drop-constants) //----- //"] * 3),
        ({"after": frozenset({"cse"})}, []),
        ({"after": True, "only_changed": True}, ["After DropConstants (drop-constants) //----- //"]),
        (
            {"after": True, "module_scope": True},
            [
                "After DropConstants (drop-constants) ('func.func' operation: @f) //----- //",
                "After DropConstants (drop-constants) ('func.func' operation: @g) //----- //",
                "After DropConstants (drop-constants) ('builtin.module' operation) //----- //",
            ],
        ),
    ],
)
def test_headers_of_dumps(options: dict[str, object], want: list[str]) -> None:
    assert headers(dumps((ON_FUNCS, DropConstants()), **options)) == want


def test_dumps_hold_the_operation_that_the_pass_ran_on() -> None:
    first, second = dumps((ON_FUNCS,), after=True).split("// -----// IR Dump After")[1:]
    assert "@f" in first and "@g" not in first and "arith" not in first
    assert "@g" in second


def test_a_dump_after_failure() -> None:
    stream = io.StringIO()
    with pytest.raises(VerifyFailure):
        run(pipeline(DropConstants(), anchor="any"), instrumentations=[])
        run(pipeline(Breaks()), instrumentations=[IRPrinting(on_failure=True, stream=stream)])
    assert headers(stream.getvalue()) == ["After Breaks Failed (breaks) //----- //"]


def test_the_tree_of_files_is_named_as_by_mlir(tmp_path: Path) -> None:
    dumps((ON_FUNCS, DropConstants()), after=True, tree=tmp_path)
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.mlir"))
    root = "builtin_module_no-symbol-name"
    assert files == [
        f"{root}/1_drop-constants.mlir",
        f"{root}/func_func_f/0_0_drop-constants.mlir",
        f"{root}/func_func_g/0_0_drop-constants.mlir",
    ]
    parse_module((tmp_path / files[0]).read_text(), make_context())


def test_a_symbol_can_not_lead_out_of_the_tree(tmp_path: Path) -> None:
    text = TEXT.replace("@f", '@"../../f"')
    printing = IRPrinting(after=True, tree=tmp_path / "tree")
    PassManager(make_context(), pipeline(ON_FUNCS), instrumentations=[printing]).run(
        parse_module(text, make_context())
    )
    assert [path.name for path in tmp_path.iterdir()] == ["tree"]


def test_reports() -> None:
    results = PassManager(make_context(), pipeline(ON_FUNCS, DropConstants())).run(module())
    statistics = statistics_report(results).splitlines()[3:]
    assert statistics == [
        "'func.func' Pipeline",
        "  DropConstants",
        "    (S) 1 constants",
        "DropConstants",
        "  (S) 0 constants",
    ]
    timing = timing_report(results, {"Parser": 0.5, PASSES_PHASE: 0.0, "Output": 0.25}, 1.0)
    names = [line[21:].strip() for line in timing.splitlines() if "%" in line]
    assert names == [
        "Parser",
        "'func.func' Pipeline",
        "DropConstants",
        "DropConstants",
        "Output",
        "Rest",
        "Total",
    ]
    assert "0.5000 ( 50.0%)  Parser" in timing and "1.0000 (100.0%)  Total" in timing


def test_a_pass_works_with_tools_of_xdsl() -> None:
    parsed = module()
    DropConstants().apply(make_context(), parsed)
    assert "arith" not in print_module(parsed)


def test_condition_type() -> None:
    condition: Callable[[Operation], object] = no_ops_of("scf", "graph")
    assert condition(module()) is None
