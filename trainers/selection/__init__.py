"""Which task comes next, and which groups and trajectories train: pure state machines, without torch."""

from agentic_gym.trainers.selection.base import (
    GroupResult,
    TaskFacts,
    TaskSelector,
    UniformTasks,
    facts_of,
    group_results,
)
from agentic_gym.trainers.selection.registry import (
    make_selector,
    selection_options,
    selector_names,
)

__all__ = [
    "GroupResult",
    "TaskFacts",
    "TaskSelector",
    "UniformTasks",
    "facts_of",
    "group_results",
    "make_selector",
    "selection_options",
    "selector_names",
]
