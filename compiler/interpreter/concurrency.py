"""Launches of one wave (`mlopt.ir.waves`) on several threads.

numpy and the BLAS let go of the interpreter while they work, so that threads gain where single calls take long. Handing
work to another thread takes tens of microseconds: a wave in which fewer than two launches take much more than that runs
one after the other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from mlopt.interpreter.numpy_state import numpy_context
from mlopt.interpreter.plan import Plan, PlanBuilder, run_plan
from mlopt.ir.effects import effects_of
from mlopt.ir.waves import wave_of

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from mlopt.interpreter.translate import Frame

LEAST_NANOSECONDS = 100_000.0
"""What a launch must take, by the engine's model of time, to be worth a thread of its own."""

_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


@dataclass(slots=True, eq=False, repr=False)
class AtOnce:
    """Plans that run at the same time, each in a context of its own; the first on the thread of the run.

    Ends when all have ended, whatever interrupts it: they write where the next run will. Of errors the first plan's is
    raised.
    """

    plans: tuple[Plan, ...]
    contexts: tuple[Context, ...]

    def __call__(self) -> None:
        from concurrent.futures import Future

        first, *others = self.plans
        futures = [Future[None]() for _ in others]
        all_handed_over = False
        try:
            for future, context, plan in zip(futures, self.contexts, others, strict=True):
                _workers().submit(_run, future, context, plan)
            run_plan(first)
            all_handed_over = True
        finally:
            _wait_for(futures, cancel=not all_handed_over)
        for future in futures:
            future.result()


def _run(future: Future[None], context: Context, plan: Plan) -> None:
    """Run a plan. Its future is made before it is handed over, and known however that is interrupted."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        context.run(run_plan, plan)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(None)


def _wait_for(futures: Sequence[Future[None]], *, cancel: bool) -> None:
    """Until all have ended; an interrupt meanwhile is raised then. With `cancel`, what has not begun never will."""
    try:
        from concurrent.futures import wait

        for future in futures if cancel else ():
            future.cancel()
        wait([future for future in futures if not future.cancelled()])
    except BaseException:
        _wait_for(futures, cancel=cancel)
        raise


class WaveBuilder:
    """Collects the plans of the launches of one wave, and adds them to the plan that they are a part of."""

    def __init__(self, builder: PlanBuilder):
        self._builder = builder
        self._plans: list[tuple[float, Plan]] = []
        self._shared = builder.memory.shared

    def launch(self, emit: Callable[[PlanBuilder], None]) -> None:
        """Emit the steps of one launch. `emit` is called twice: once only to see how long they take."""
        memory = self._builder.memory
        before = memory.nanoseconds
        with memory.dry():
            emit(self._builder.nested())
        nanoseconds, memory.nanoseconds = memory.nanoseconds - before, before
        nested = self._builder.nested()
        emit(nested)
        self._plans.append((nanoseconds, nested.plan))

    def close(self) -> None:
        """Add what was collected: at once what is long enough, if each launch has all its scratch to itself."""
        memory = self._builder.memory
        long = [plan for nanoseconds, plan in self._plans if nanoseconds >= LEAST_NANOSECONDS]
        if len(long) < 2 or memory.shared != self._shared:
            for _, plan in self._plans:
                for step in plan:
                    self._builder.step(step)
            return
        first, *others = long
        rest = [step for nanoseconds, plan in self._plans if nanoseconds < LEAST_NANOSECONDS for step in plan]
        self._builder.step(AtOnce(([*first, *rest], *others), tuple(numpy_context() for _ in others)))


class OpenWave:
    """The wave whose operations a block is being read of, if it is in one."""

    def __init__(self, frame: Frame, after: Callable[[Operation], None] | None):
        self._frame = frame
        self._after = after
        self._number: int | None = None
        self._builder: WaveBuilder | None = None
        self._taken: list[Operation] = []

    def takes(self, op: Operation) -> bool:
        """Whether `op` runs in a wave, to which it is added then; what it ends is closed."""
        number = wave_of(op)
        if number is None or number != self._number:
            if number is None and not effects_of(op).touches_memory:
                return False
            self.close()
        if number is None:
            return False
        if self._builder is None:
            self._frame.flush_fills()
            self._builder = WaveBuilder(self._frame.builder)
            self._number = number
        self._builder.launch(partial(self._frame.emit_apart, op))
        self._taken.append(op)
        return True

    def close(self) -> None:
        """Add the wave to the plan."""
        if self._builder is None:
            return
        self._builder.close()
        if self._after is not None:
            for op in self._taken:
                self._after(op)
        self._builder, self._number, self._taken = None, None, []


def _workers() -> ThreadPoolExecutor:
    """The threads of this process, made when first needed."""
    global _pool
    from concurrent.futures import ThreadPoolExecutor

    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1), thread_name_prefix="mlopt")
        return _pool


def _forget_workers() -> None:
    """In a process that was forked, whose threads are not there."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
