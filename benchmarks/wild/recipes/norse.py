"""norse 1.1.0: spikes with surrogate gradients."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    module = load("norse.torch.functional.threshold", "norse")
    superspike = load("norse.torch.functional.superspike", "norse")
    x, meant = torch.randn(4, 5), "a step with the slope of a smooth function"
    yield case(
        superspike.SuperSpike, x, 100.0, truth="surrogate", why=meant + "; the steepness alpha is ignored since 1.1.0"
    )
    yield case(module.HeaviErfc, x, 2.0, truth="surrogate", why=meant)
    yield case(module.HeaviTanh, x, 2.0, truth="surrogate", why=meant)
    yield case(module.Logistic, x, 2.0, truth="surrogate", why=meant + "; the spike is drawn")
    yield case(module.HeaviCirc, x, 2.0, truth="surrogate", why=meant)
    yield case(module.CircDist, x, 2.0, truth="surrogate", why=meant + "; the spike is drawn")
    yield case(module.Triangle, x, 2.0, truth="surrogate", why=meant)
