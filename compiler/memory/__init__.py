"""Placing buffers with known lifetimes in one arena: pure algorithms on intervals and sizes, no IR, no numpy."""

from mlopt.memory.buffers import Buffer, PlanError, align_up, check_plan, max_live
from mlopt.memory.planner import GAP, OPTIMAL, STRATEGIES, Plan, Strategy, plan

__all__ = [
    "GAP",
    "OPTIMAL",
    "STRATEGIES",
    "Buffer",
    "Plan",
    "PlanError",
    "Strategy",
    "align_up",
    "check_plan",
    "max_live",
    "plan",
]
