"""Placing buffers with known lifetimes in one arena: pure algorithms on intervals and sizes, no IR, no numpy."""

from mlopt.memory.buffers import Buffer, PlanError, align_up, check_plan, max_live
from mlopt.memory.planner import GAP, OPTIMAL, PROVED, STRATEGIES, Plan, Strategy, plan, status_of

__all__ = [
    "GAP",
    "OPTIMAL",
    "PROVED",
    "STRATEGIES",
    "Buffer",
    "Plan",
    "PlanError",
    "Strategy",
    "align_up",
    "check_plan",
    "max_live",
    "plan",
    "status_of",
]
