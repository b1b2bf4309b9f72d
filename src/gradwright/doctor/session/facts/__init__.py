"""Facts: what was seen or measured, one class per kind. Rules read these and nothing else.

A fact is observed (while the script ran), probed (a subject tried alone on its specimens) or read (from the text).
Its ``id`` is stable within a session: a later fact with the same id replaces the earlier one, so that counters can be
written to the journal as they grow. Seconds are wall time; bytes are bytes.
"""

from gradwright.doctor.session.facts.costs import (
    ArrayTwin,
    CostlyExpression,
    FreshBuffers,
    KnownLoss,
    LineCost,
    LoopShape,
    NumpyDetour,
    OpsPerLine,
    PlainTwin,
    SavedNotNeeded,
    TensorOnContext,
    TorchTwin,
    UndefinedGradient,
    UnneededGradient,
)
from gradwright.doctor.session.facts.fact import Fact, Phase, Verdict
from gradwright.doctor.session.facts.observed import (
    FunctionCalls,
    GradientCalls,
    LoopRun,
    LossValues,
    OptimizerSteps,
    PageFaults,
    ScriptDied,
    ScriptKilled,
)
from gradwright.doctor.session.facts.text import BuiltinAsTensor, DirectForward, MaskPair, PlainBackward
from gradwright.doctor.session.facts.verdicts import DeclaredSurrogate, Flaw, GradientCount, GradientVerdict, Mutated

__all__ = [
    "ArrayTwin",
    "BuiltinAsTensor",
    "CostlyExpression",
    "DeclaredSurrogate",
    "DirectForward",
    "Fact",
    "Flaw",
    "FreshBuffers",
    "FunctionCalls",
    "GradientCalls",
    "GradientCount",
    "GradientVerdict",
    "KnownLoss",
    "LineCost",
    "LoopRun",
    "LoopShape",
    "LossValues",
    "MaskPair",
    "Mutated",
    "NumpyDetour",
    "OpsPerLine",
    "OptimizerSteps",
    "PageFaults",
    "Phase",
    "PlainBackward",
    "PlainTwin",
    "SavedNotNeeded",
    "ScriptDied",
    "ScriptKilled",
    "TensorOnContext",
    "TorchTwin",
    "UndefinedGradient",
    "UnneededGradient",
    "Verdict",
]
