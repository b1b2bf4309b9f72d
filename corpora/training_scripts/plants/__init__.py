"""All plants, and the two halves that their families were split into before the doctor first ran on them."""

from corpora.training_scripts.plant import Plant
from corpora.training_scripts.plants import errors, flow, losses, nonfinite, order, parameters

PLANTS: list[Plant] = [
    *order.PLANTS, *losses.PLANTS, *parameters.PLANTS, *nonfinite.PLANTS, *errors.PLANTS, *flow.PLANTS
]  # fmt: skip

# The rules may be tuned on the first; the second only counts.
FIRST = frozenset(
    {
        "zero_grad missing",
        "accumulation mis-scaled",
        "scheduler per micro-batch",
        "softmax twice",
        "loss without history",
        "not in the optimizer",
        "NaN at an edge",
        "a count of nothing",
        "changed in place",
        "backward of many numbers",
        "graph kept over steps",
        "anomaly mode left on",
    }
)
SECOND = frozenset(
    {
        "zero_grad misplaced",
        "clip at the wrong time",
        "forward outside no_sync",
        "loss broadcast",
        "never reached",
        "masks that do not complement",
        "mode left wrong",
        "overflow",
        "0 times inf",
        "through a graph twice",
        "gradient calls that die",
        "wrong custom backward",
        "gradients by layer",
        "slow Python",
    }
)


def half_of(plant: Plant) -> str:
    return "first" if plant.family in FIRST else "second"
