"""Is a gradient right? The oracles, the verdict and its cause; what a Function's contract asks beside the values."""

from gradwright.checking.context import (
    StandInContext,
    bound_arguments,
    input_names,
    is_function,
    run_backward,
    run_forward,
    unbound,
    uses_setup_context,
)
from gradwright.checking.contract import count_gradients
from gradwright.checking.mutation import find_mutations
from gradwright.checking.twin import PlainTwin, plain_forward, plain_twin, saved_bytes
from gradwright.checking.values import judge_values
from gradwright.checking.verdict import InputVerdict, Mutation

__all__ = [
    "InputVerdict",
    "Mutation",
    "PlainTwin",
    "StandInContext",
    "bound_arguments",
    "count_gradients",
    "find_mutations",
    "input_names",
    "is_function",
    "judge_values",
    "plain_forward",
    "plain_twin",
    "run_backward",
    "run_forward",
    "saved_bytes",
    "unbound",
    "uses_setup_context",
]
