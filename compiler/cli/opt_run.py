"""What `mlopt-opt` does: parse, verify, run passes over textual IR, and print it, piece by piece."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from mlopt.arrays import read_npz
from mlopt.cli.arguments import check_disabled
from mlopt.cli.listing import dialect_list, pass_list, pattern_list
from mlopt.cli.opt_arguments import OptArguments, parse_arguments
from mlopt.cli.remarks import check_remark_options, finish_remarks
from mlopt.compilation import level_of
from mlopt.diagnostics import (
    Diagnostic,
    InputError,
    MloptError,
    PipelineError,
    Place,
    Remark,
    Severity,
    print_diagnostic,
    remarks_as_text,
    select_remarks,
)
from mlopt.diagnostics.expected import ExpectedDiagnostics
from mlopt.engine import attach_engine
from mlopt.files import check_writable, write_text
from mlopt.ir.context import CompilerContext
from mlopt.ir.parser import parse_module
from mlopt.ir.printer import print_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passes.pipelines import OPTIMISATION_LEVELS, Level, named_pipeline
from mlopt.passes.registry import PASSES, load_pass
from mlopt.passmanager import (
    Element,
    IRPrinting,
    PassManager,
    PassResult,
    Pipeline,
    make_pass,
    parse_options,
    parse_pipeline,
)
from mlopt.passmanager.pipeline import dump_text
from mlopt.passmanager.reports import PASSES_PHASE, statistics_report, timing_report
from mlopt.save import used_weights
from mlopt.weights import WeightStore
from mlopt.weights.safetensors_file import check_replaceable

if TYPE_CHECKING:
    from mlopt.validation import Validator

_WEIGHT_MARK = "mlopt.weight<"


def run(given: Sequence[str], sources: dict[str, str]) -> int:
    """Do what a command line asks for and return the exit code; the texts that are read are put into `sources`."""
    arguments = parse_arguments(given, PASSES, OPTIMISATION_LEVELS)
    if arguments.list_passes:
        print(pass_list(), end="")
        return 0
    if arguments.list_patterns:
        print(pattern_list(), end="")
        return 0
    if arguments.show_dialects:
        print(dialect_list(), end="")
        return 0
    check_disabled(arguments.disable_pass, arguments.disable_pattern)
    _pipeline(arguments, "graph")  # a faulty one is an error whatever the input is
    if arguments.output != "-":
        check_writable(Path(arguments.output))
    check_remark_options(arguments)
    for flag in arguments.idle_flags:
        wanted = "--mlir-print-ir-after-all or --mlir-print-ir-after=PASS"
        message = f"{flag} prints nothing by itself: it goes with {wanted}"
        print_diagnostic(Diagnostic(Severity.WARNING, message))
    name, text = _read(arguments.input)
    sources[name] = text
    return _Run(arguments, name, text, sources).run()


@dataclass
class _Run:
    """One run of the command over one input, piece by piece if it is split."""

    arguments: OptArguments
    name: str
    text: str
    sources: dict[str, str]
    results: list[PassResult] = field(default_factory=list[PassResult])
    remarks: list[Remark] = field(default_factory=list[Remark])
    validator: Validator | None = None
    undone: bool = False
    """Whether a pass was undone: what is printed is right, and the exit code is 1."""
    phases: dict[str, float] = field(
        default_factory=lambda: {"Parser": 0.0, PASSES_PHASE: 0.0, "Output": 0.0}
    )

    def run(self) -> int:
        """Process all pieces; the exit code is that of the worst."""
        start = time.perf_counter()
        outputs: list[str] = []
        codes: list[int] = []
        for first_line, piece in _pieces(self.text, self.arguments.split_input_file):
            output, code = self._piece(piece, first_line)
            codes.append(code)
            outputs.append(output or "")  # so that the rest keeps its places between the markers
        code = max(codes, default=0)
        marker = self.arguments.split_input_file
        finish_remarks(self.arguments, self.remarks)
        self._write(f"{marker}\n".join(outputs), failed=code != 0)
        code = max(code, int(self.undone))
        if self.arguments.statistics:
            print(statistics_report(self.results), file=sys.stderr)
        if self.arguments.timing:
            total = time.perf_counter() - start
            print(timing_report(self.results, self.phases, total), file=sys.stderr)
        return code

    def _piece(self, text: str, first_line: int) -> tuple[str | None, int]:
        """Process one piece: the IR to print, or None if it failed, and the exit code."""
        ctx = make_context(allow_unregistered=self.arguments.allow_unregistered_dialect)
        attach_engine(ctx)
        ctx.disabled_patterns = frozenset(self.arguments.disable_pattern)
        produced: list[Diagnostic] = []
        output, code = None, 0
        try:
            output = self._compile(ctx, text, first_line)
        except MloptError as error:
            produced += error.diagnostics
            code = error.exit_code
        produced = [*self._remarks(ctx), *produced]
        if self.arguments.verify_diagnostics is None:
            self.undone |= self.validator is not None and bool(self.validator.rejections)
            for diagnostic in produced:
                print_diagnostic(diagnostic, sources=self.sources)
            return output, code
        expected = ExpectedDiagnostics.from_text(
            text,
            self.name,
            first_line=first_line,
            only_expected=self.arguments.verify_diagnostics == "only-expected",
        )
        expected.check(produced)
        complaints = expected.complaints()
        for complaint in complaints:
            print_diagnostic(complaint, sources=self.sources)
        return output, int(bool(complaints))

    def _compile(self, ctx: CompilerContext, text: str, first_line: int) -> str:
        """Parse, verify, run the passes; returns the printed result."""
        arguments = self.arguments
        with self._timed("Parser"):
            if _WEIGHT_MARK in text:
                weights = self._weights_file()
                if weights is not None:
                    ctx.weights = WeightStore.load(weights)
            module = parse_module(text, ctx, self.name, first_line=first_line)
            verify_module(module)
        pipeline = _pipeline(arguments, _level(module))
        if arguments.dump_pass_pipeline:
            print(dump_text(pipeline), file=sys.stderr)
        manager = PassManager(
            ctx,
            pipeline,
            verify_each=arguments.verify_each,
            instrumentations=(*_instrumentations(arguments), *self._validators(ctx)),
        )
        self.results += manager.run(module)
        with self._timed("Output"):
            if arguments.output != "-":
                self._save_weights(ctx, module)
            return print_module(
                module,
                elide_larger_than=arguments.elide_larger_than,
                debuginfo=arguments.debuginfo,
                generic=arguments.generic,
            )

    def _validators(self, ctx: CompilerContext) -> list[Validator]:
        """What checks that passes change no answer, if that is asked for."""
        arguments = self.arguments
        if arguments.validate is None and not arguments.bisect:
            return []
        from mlopt.validation import ValidationOptions, Validator  # which brings in all evaluators

        inputs = None if arguments.inputs is None else read_npz(arguments.inputs, "in")
        tolerance = arguments.validate if isinstance(arguments.validate, float) else None
        options = ValidationOptions(tolerance, inputs, arguments.bisect, arguments.reproducers)
        self.validator = Validator(ctx, options)
        return [self.validator]

    def _weights_file(self) -> Path | None:
        """The weights given on the command line, else those beside the input if there are any."""
        if self.arguments.weights is not None:
            return self.arguments.weights
        beside = Path(self.arguments.input).with_suffix(".safetensors")
        return beside if self.arguments.input != "-" and beside.is_file() else None

    def _save_weights(self, ctx: CompilerContext, module: ModuleOp) -> None:
        """Keep the weights that the output names beside it, if this run knows them."""
        names = used_weights(module)
        output = Path(self.arguments.output)
        if names and output.suffix == ".mlir" and all(name in ctx.weights for name in names):
            beside = output.with_suffix(".safetensors")
            check_replaceable(beside)
            ctx.weights.save(beside, names)

    def _remarks(self, ctx: CompilerContext) -> list[Diagnostic]:
        """What passes reported: warnings always, remarks if asked for."""
        self.remarks += ctx.remarks
        remarks = select_remarks(ctx.remarks, self.arguments.remarks, self.arguments.remarks_filter)
        if self.arguments.verify_diagnostics is None:
            return [*ctx.warnings, *remarks_as_text(remarks)]
        return [*ctx.warnings, *(remark.diagnostic for remark in remarks)]

    def _write(self, text: str, *, failed: bool) -> None:
        """Write the result: to stdout what there is, to a file all or nothing."""
        if self.arguments.output == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
        elif not failed:
            write_text(Path(self.arguments.output), text)

    @contextmanager
    def _timed(self, phase: str) -> Generator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[phase] += time.perf_counter() - start


def _level(module: ModuleOp) -> Level:
    """The level that named pipelines start from; a module that is at none is taken the whole way."""
    try:
        return level_of(module)
    except InputError:
        return "graph"


def _pipeline(arguments: OptArguments, level: Level) -> Pipeline:
    """The pipeline that the command line asks for: the text, or the flags of passes and pipelines in their order.

    A named pipeline stands for the passes from `level` down.
    """
    expand = partial(named_pipeline, level=level)
    if arguments.pass_pipeline is not None:
        pipeline = parse_pipeline(arguments.pass_pipeline, expand=expand)
        return pipeline.without(arguments.disable_pass)
    elements: list[Element] = []
    for name, options in arguments.passes:
        if name in OPTIMISATION_LEVELS:
            for option in parse_options(options):
                raise PipelineError(f"pipeline '{name}': no such option {option} (its options: none)")
            elements += parse_pipeline(name, expand=expand, anchor="builtin.module").elements
            continue
        pass_ = make_pass(load_pass(name), parse_options(options))
        elements.append(
            pass_ if pass_.anchor in (None, "builtin.module") else Pipeline(pass_.anchor, (pass_,))
        )
    return Pipeline("builtin.module", tuple(elements)).without(arguments.disable_pass)


def _instrumentations(arguments: OptArguments) -> tuple[IRPrinting, ...]:
    if not (arguments.print_before or arguments.print_after or arguments.print_after_failure):
        return ()
    printing = IRPrinting(
        before=arguments.print_before,
        after=arguments.print_after,
        only_changed=arguments.print_after_change,
        on_failure=arguments.print_after_failure,
        module_scope=arguments.print_module_scope,
        tree=arguments.print_tree,
        elide_larger_than=arguments.elide_larger_than,
        debuginfo=arguments.debuginfo,
        generic=arguments.generic,
    )
    return (printing,)


def _read(name: str) -> tuple[str, str]:
    """The name to show for an input, and its text."""
    if name == "-":
        if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # so it is where it has been closed
            raise InputError("cannot read input: it is closed", place=Place("<stdin>"))
        return "<stdin>", _decode(sys.stdin.buffer.read(), "<stdin>")
    try:
        data = Path(name).read_bytes()
    except FileNotFoundError:
        raise InputError("cannot open input file: no such file", place=Place(name)) from None
    except OSError as error:
        raise InputError(f"cannot open input file: {error.strerror}", place=Place(name)) from error
    except ValueError as error:
        raise InputError(
            f"cannot open input file: {error}", place=Place(name.replace("\0", "\\0"))
        ) from error
    return name, _decode(data, name)


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InputError(
            f"expected IR as UTF-8 text, found byte 0x{data[error.start]:02X}",
            place=Place(name, line, column),
        ) from error


def _pieces(text: str, marker: str | None) -> Iterator[tuple[int, str]]:
    """The pieces of a text between lines that hold only the marker, with the number of each one's first line."""
    if marker is None:
        yield 1, text
        return
    lines = text.split("\n")
    start = 0
    for i, line in enumerate(lines):
        if line.strip() == marker.strip():
            yield start + 1, "\n".join(lines[start:i])
            start = i + 1
    yield start + 1, "\n".join(lines[start:])
