"""Is a gradient right? The oracles, the verdict and its cause; what a Function's contract asks beside the values."""

from gradwright.check.context import (
    StandInContext,
    bound_arguments,
    input_names,
    is_function,
    run_backward,
    run_forward,
    uses_setup_context,
)
from gradwright.check.contract import count_gradients
from gradwright.check.mutation import find_mutations
from gradwright.check.twin import PlainTwin, plain_forward, plain_twin, saved_bytes
from gradwright.check.values import judge_values
from gradwright.check.verdict import InputVerdict, Mutation

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
    "uses_setup_context",
]
