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
from gradwright.doctor.session.facts.dropped import BackwardDropped, TangentDropped
from gradwright.doctor.session.facts.explosions import NormalisedZeros
from gradwright.doctor.session.facts.fact import Fact, Phase, Verdict
from gradwright.doctor.session.facts.flow import (
    AnomalyMode,
    CostlyGraph,
    DeadUnits,
    GradientFlow,
    GraphsKept,
    LoopsTreated,
)
from gradwright.doctor.session.facts.heads import ConstantTerm, LeafRoots, LossBroadcast, LossHead
from gradwright.doctor.session.facts.keeping import SavedTooMuch
from gradwright.doctor.session.facts.machine import MachineLimits
from gradwright.doctor.session.facts.meaning import Counterexample, FunctionFormula
from gradwright.doctor.session.facts.numerics import NonfiniteBegins, OwnLook, WeightsNotFinite
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
from gradwright.doctor.session.facts.order import (
    Accumulation,
    ClipOrder,
    SchedulerOrder,
    StepOrder,
    SynchronisedForwards,
)
from gradwright.doctor.session.facts.parameters import ModeLeft, OutsideParameters, UnreachedParameters
from gradwright.doctor.session.facts.profiling import ProfilerOn
from gradwright.doctor.session.facts.ranks import RankRun, RanksDiffer, ReplicaSums
from gradwright.doctor.session.facts.tests import CalledByTests
from gradwright.doctor.session.facts.text import BuiltinAsTensor, DirectForward, MaskPair, PlainBackward
from gradwright.doctor.session.facts.timeline import Span, Timeline
from gradwright.doctor.session.facts.verdicts import DeclaredSurrogate, Flaw, GradientCount, GradientVerdict, Mutated
from gradwright.doctor.session.facts.waits import HostSync

__all__ = [
    "Accumulation",
    "AnomalyMode",
    "ArrayTwin",
    "BackwardDropped",
    "BuiltinAsTensor",
    "CalledByTests",
    "ClipOrder",
    "ConstantTerm",
    "CostlyExpression",
    "CostlyGraph",
    "Counterexample",
    "DeadUnits",
    "DeclaredSurrogate",
    "DirectForward",
    "Fact",
    "Flaw",
    "FreshBuffers",
    "FunctionCalls",
    "FunctionFormula",
    "GradientCalls",
    "GradientCount",
    "GradientFlow",
    "GradientVerdict",
    "GraphsKept",
    "HostSync",
    "KnownLoss",
    "LeafRoots",
    "LineCost",
    "LoopRun",
    "LoopShape",
    "LoopsTreated",
    "LossBroadcast",
    "LossHead",
    "LossValues",
    "MachineLimits",
    "MaskPair",
    "ModeLeft",
    "Mutated",
    "NonfiniteBegins",
    "NormalisedZeros",
    "NumpyDetour",
    "OpsPerLine",
    "OptimizerSteps",
    "OutsideParameters",
    "OwnLook",
    "PageFaults",
    "Phase",
    "PlainBackward",
    "PlainTwin",
    "ProfilerOn",
    "RankRun",
    "RanksDiffer",
    "ReplicaSums",
    "SavedNotNeeded",
    "SavedTooMuch",
    "SchedulerOrder",
    "ScriptDied",
    "ScriptKilled",
    "Span",
    "StepOrder",
    "SynchronisedForwards",
    "TangentDropped",
    "TensorOnContext",
    "Timeline",
    "TorchTwin",
    "UndefinedGradient",
    "UnneededGradient",
    "UnreachedParameters",
    "Verdict",
    "WeightsNotFinite",
]
