"""`order-in-waves`: what may run at once, and that its memory is apart: in any order, and on threads, the same bits."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

import mlopt
from mlopt.arrays import read_npz
from mlopt.diagnostics import PassFailure, VerifyFailure
from mlopt.interpreter import concurrency
from mlopt.interpreter.graph import evaluate_module
from mlopt.interpreter.memref import Executable
from mlopt.interpreter.numpy_state import numpy_context
from mlopt.interpreter.plan import run_plan
from mlopt.ir import make_context, parse_module, print_module
from mlopt.ir.waves import WAVE, wave_of
from mlopt.passes.memref.assign_buffers import AssignBuffersPass
from mlopt.passes.memref.order_in_waves import OrderInWavesPass
from mlopt.passes.memref.summary import memory_summary
from mlopt.passes.memref.verify_plan import verify_plan
from mlopt.weights import WeightStore
from tests.passes.kernel.test_copies import compiled, random_net, shape
from tests.passes.memref.test_assign_buffers import module_of

MODELS = Path(__file__).parents[2] / "models"


def order(body: str, width: int = 2) -> tuple[list[str], int]:
    """The waves of `@main` as text, `a->b a->c | b->y`, and the bytes of its arena."""
    module = module_of(body)
    OrderInWavesPass(width=width).run(make_context(), module)
    text = print_module(module)
    main = text[text.index("@main") : text.index("func.return")]
    waves: list[list[str]] = []
    last: str | None = None
    for line in main.splitlines():
        call = re.search(r"call @step\((%\w+), (%\w+)\)", line)
        if call is None:
            continue
        wave = re.search(r"mlopt.wave = (\d+)", line)
        number = wave[1] if wave else None
        if number is None or number != last:
            waves.append([])
        waves[-1].append(f"{call[1][1:]}->{call[2][1:]}")
        last = number
    AssignBuffersPass().run(make_context(), module)
    verify_plan(module)
    return " | ".join(" ".join(wave) for wave in waves).split(" | "), memory_summary(module).arena_bytes


TWO = "%a = new\n %b = new\n %c = new\n %d = new\n call %x -> %a\n call %a -> %b\n call %x -> %c\n call %c -> %d\n"


def test_two_chains_run_side_by_side() -> None:
    """One after the other two buffers are live at once, side by side four."""
    waves, arena = order(f"{TWO} call %b -> %y\n call %d -> %y")
    assert waves == ["x->a x->c", "a->b c->d", "b->y", "d->y"]
    assert arena == 4 * 64
    alone = module_of(f"{TWO} call %b -> %y\n call %d -> %y")
    AssignBuffersPass().run(make_context(), alone)
    assert memory_summary(alone).arena_bytes == 3 * 64


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # What reads a buffer and what writes it next can't run at once,
        ("%a = new\n %b = new\n call %x -> %a\n call %a -> %b\n call %x -> %a\n call %a -> %y", 4),
        # two that write one can't,
        ("%a = new\n call %x -> %a\n call %x -> %a\n call %a -> %y", 3),
        # two that read one can.
        ("%a = new\n %b = new\n %c = new\n call %x -> %a\n call %a -> %b\n call %a -> %c", 2),
        # Through a view it is the same buffer.
        (
            "%a = new\n %v = memref.cast %a : memref<16xf32> to memref<16xf32>\n %b = new\n"
            "call %x -> %a\n call %v -> %b\n call %x -> %a",
            3,
        ),
        # A loop runs alone.
        ("%a = new\n scf.for %i = %c0 to %c3 step %c1 {\n call %x -> %a\n }\n %b = new\n call %x -> %b", 2),
    ],
)
def test_what_may_run_at_once(body: str, expected: int) -> None:
    assert len(order(body)[0]) == expected


def test_the_width_limits_a_wave() -> None:
    body = "\n".join(f"%a{i} = new\n call %x -> %a{i}" for i in range(5))
    assert [len(wave.split()) for wave in order(body, 2)[0]] == [2, 2, 1]
    assert [len(wave.split()) for wave in order(body, 4)[0]] == [4, 1]


def test_a_chain_is_left_as_it_is() -> None:
    module = module_of("%a = new\n %b = new\n call %x -> %a\n call %a -> %b\n call %b -> %y")
    before = print_module(module)
    assert not OrderInWavesPass().run(make_context(), module)
    assert print_module(module) == before


def test_faulty_requests_are_refused() -> None:
    module = module_of("%a = new\n call %x -> %a\n call %a -> %y")
    with pytest.raises(PassFailure, match="width of waves must be at least 2, found 1"):
        OrderInWavesPass(width=1).run(make_context(), module)
    AssignBuffersPass().run(make_context(), module)
    with pytest.raises(PassFailure, match="places already: waves must be known before 'assign-buffers'"):
        OrderInWavesPass().run(make_context(), module)


# The verifier


def planned() -> ModuleOp:
    module = module_of(f"{TWO} call %b -> %y\n call %d -> %y")
    context = make_context()
    AssignBuffersPass().run(context, module)
    return module


def set_waves(module: ModuleOp, numbers: list[int | None]) -> None:
    calls = [op for op in module.walk() if op.name == "func.call"]
    for call, number in zip(calls, numbers, strict=True):
        if number is not None:
            call.attributes[WAVE] = IntegerAttr(number, i64)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0, 0, None, None, None, None], "two operations of wave 0 use one buffer that one of them writes"),
        ([None, None, None, None, 3, 3], "two operations of wave 3 use one buffer that one of them writes"),
        ([0, None, 0, None, None, None], "the operations of wave 0 do not stand together"),
        ([1, None, 0, None, None, None], "the operations of wave 0 do not stand together"),
        # `a` lives to the second call, `c` from the third on, in the same bytes.
        ([None, 0, 0, None, None, None], "the memory plan is wrong"),
    ],
)
def test_waves_that_get_in_each_others_way_are_found(numbers: list[int | None], message: str) -> None:
    module = planned()
    verify_plan(module)
    set_waves(module, numbers)
    with pytest.raises(VerifyFailure, match=message):
        verify_plan(module)


def test_a_plan_made_for_one_after_the_other_is_no_plan_for_waves() -> None:
    """As a text: what is printed says what may run at once, and is checked when it is read."""
    module = planned()
    set_waves(module, [None, 0, 0, None, None, None])
    again = parse_module(print_module(module), make_context(), "again.mlir")
    assert [wave_of(op) for op in again.walk() if op.name == "func.call"] == [None, 0, 0, None, None, None]
    with pytest.raises(VerifyFailure, match="the memory plan is wrong"):
        verify_plan(again)


# The engine


class _Reversed(concurrency.AtOnce):
    """Runs the plans of a wave one after the other, the last one first."""

    def __call__(self) -> None:
        for plan in reversed(self.plans):
            run_plan(plan)


@pytest.fixture(params=["threads", "backwards"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every wave runs at once, however short it is; or backwards."""
    monkeypatch.setattr(concurrency, "LEAST_NANOSECONDS", 0.0)
    if request.param == "backwards":
        monkeypatch.setattr(concurrency, "AtOnce", _Reversed)
    return request.param


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("width", [2, 8])
def test_random_graphs_give_the_same_in_any_order(seed: int, width: int, how: str) -> None:
    """Bit for bit as one after the other, with all that is dead poisoned."""
    rng = np.random.default_rng(seed)
    net, outputs = random_net(rng)
    module = net.module(outputs)
    inputs = {f"arg{i}": rng.normal(size=shape(a)).astype(np.float32) for i, a in enumerate(net.block.args)}
    want = Executable(compiled(module.clone(), mlopt.PipelineOptions()), WeightStore()).run(inputs)
    waves = compiled(module.clone(), mlopt.PipelineOptions(waves=width))
    for poison in (False, True):
        got = Executable(waves, WeightStore(), poison=poison).run(inputs)
        for name, value in want.items():
            np.testing.assert_array_equal(got[name], value)
    reference = evaluate_module(module, inputs)
    for name, value in reference.items():
        np.testing.assert_allclose(want[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["clip_tiny_dyn", "llava_concat_tiny_prefill", "bilstm_tagger", "convnext_atto"]
)
def test_models_give_the_same_in_any_order(name: str, how: str) -> None:
    """Stored results of onnxruntime are met as before, and twice in a row."""
    inputs = read_npz(MODELS / f"{name}.npz", "in")
    want = mlopt.compile(MODELS / f"{name}.onnx", inputs=inputs).run(inputs)
    options = mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(waves=3), poison=True)
    model = mlopt.compile(MODELS / f"{name}.onnx", inputs=inputs, options=options)
    for _ in range(2):
        for output, value in model.run(inputs).items():
            np.testing.assert_allclose(value, want[output], rtol=1e-5, atol=1e-6 * np.abs(want[output]).max())


STOPS = """func.func @main(%i: memref<1xi64> {mlopt.input = "i"}, %x: memref<16xf32> {mlopt.input = "x"},
    %y: memref<1xf32> {mlopt.output = "y"}, %z: memref<1xf32> {mlopt.output = "z"}) {
  func.call @take(%i, %x, %y) {mlopt.wave = 0 : i64} : (memref<1xi64>, memref<16xf32>, memref<1xf32>) -> ()
  func.call @take(%i, %x, %z) {mlopt.wave = 0 : i64} : (memref<1xi64>, memref<16xf32>, memref<1xf32>) -> ()
  func.return
}
func.func private @take(%I: memref<1xi64>, %X: memref<16xf32>, %O: memref<1xf32>) {
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%I : memref<1xi64>) outs(%O : memref<1xf32>) {
  ^bb0(%p: i64, %o: f32):
    %k = arith.index_cast %p : i64 to index
    %v = memref.load %X[%k] : memref<16xf32>
    linalg.yield %v : f32
  }
  func.return
}
"""


def test_it_runs_on_threads_and_errors_come_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A position out of bounds in both launches is an error of the run, which waits for both; the next run is right."""
    monkeypatch.setattr(concurrency, "LEAST_NANOSECONDS", 0.0)
    names: set[str] = set()
    real = concurrency.run_plan

    def watched(plan: concurrency.Plan) -> None:
        names.add(threading.current_thread().name)
        real(plan)

    monkeypatch.setattr(concurrency, "run_plan", watched)
    session = Executable(parse_module(STOPS, make_context(), "stops.mlir"), WeightStore())
    x = np.arange(16, dtype=np.float32)
    with pytest.raises(mlopt.MloptError, match="index 16 is out of bounds"):
        session.run({"i": np.array([16]), "x": x})
    results = session.run({"i": np.array([7]), "x": x})
    assert results["y"].tolist() == results["z"].tolist() == [7.0]
    assert len(names) == 2


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals for threads")
def test_an_interrupted_run_ends_when_all_of_a_wave_has_ended() -> None:
    """Nothing writes to the arena any more when the caller gets the interrupt, and may run again."""
    ended: list[int] = []

    def slow() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.1)
        ended.append(1)

    with pytest.raises(KeyboardInterrupt):
        concurrency.AtOnce(([], [slow]), (numpy_context(),))()
    assert ended


def test_what_can_not_be_handed_over_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the interpreter shuts down: threads are refused, and no run hangs."""

    class Refusing:
        def submit(self, *_: object) -> None:
            raise RuntimeError("cannot schedule new futures after shutdown")

    monkeypatch.setattr(concurrency, "_workers", Refusing)
    with pytest.raises(RuntimeError, match="cannot schedule"):
        concurrency.AtOnce(([], [], []), (numpy_context(), numpy_context()))()


FORKS = """
import os, signal, sys
import numpy as np
from mlopt.interpreter import concurrency
from mlopt.interpreter.memref import Executable
from mlopt.ir import make_context, parse_module
from mlopt.weights import WeightStore

concurrency.LEAST_NANOSECONDS = 0.0
session = Executable(parse_module(sys.stdin.read(), make_context(), "stops.mlir"), WeightStore())
inputs = {"i": np.array([3]), "x": np.arange(16, dtype=np.float32)}
session.run(inputs)
child = os.fork()
if not child:
    signal.alarm(60)  # without threads of its own it would wait for ever
    os._exit(0 if session.run(inputs)["z"].tolist() == [3.0] else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """Threads do not come along into a forked process: it makes its own, and does not wait for those."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS], input=STOPS, text=True, timeout=120, check=False
    )
    assert done.returncode == 0
