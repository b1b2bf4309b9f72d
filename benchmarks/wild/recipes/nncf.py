"""nncf 3.4.0."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    functions = load("nncf.torch.functions", "nncf", absent=("nncf.torch.dynamic_graph",))
    yield case(functions.STThreshold, torch.rand(3, 4), 0.5, truth="surrogate", why="straight through")
