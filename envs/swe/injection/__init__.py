"""Bug injection on concrete syntax trees: make bugs of one line, and search for their repair."""

from agentic_gym.envs.swe.injection.inject import (
    OPERATORS,
    Mutation,
    NodeOperator,
    Operator,
    mutate_all,
)
from agentic_gym.envs.swe.injection.repair import inverse_candidates, inverse_changes

__all__ = [
    "OPERATORS",
    "Mutation",
    "NodeOperator",
    "Operator",
    "inverse_candidates",
    "inverse_changes",
    "mutate_all",
]
