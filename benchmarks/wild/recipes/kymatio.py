"""kymatio 0.3.0: the modulus of the scattering transform."""

from collections.abc import Iterator

import torch

from wild.case import Case, case
from wild.loading import load


def cases() -> Iterator[Case]:
    function = load("kymatio.backend.torch_backend", "kymatio").ModulusStable
    yield case(function, torch.randn(3, 4, 2))
