"""Scale and shift of normalisations: against a loop, first and second order."""

import pytest
import torch
from tests.derivatives.per_sample.judge import Case, ids, judge, of_module
from torch import Tensor, nn


def evaluated(net: nn.Module) -> nn.Module:
    """With running statistics that are not 0 and 1."""
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean = torch.linspace(-1, 1, module.num_features)
            module.running_var = torch.linspace(0.5, 2, module.num_features)
    return net.eval()


class TimeFirst(nn.Module):
    """LayerNorm on [T, B, E] and GroupNorm on merged frames [T * B, C, L]."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.group = nn.LayerNorm(6), nn.GroupNorm(2, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x.transpose(0, 1)).tanh()
        x = self.group(x.reshape(-1, 6, 1) * torch.linspace(1, 2, 4, dtype=x.dtype)).tanh()
        return x.view(3, 4, 6, 4).transpose(0, 1)


def between(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.Tanh())


CASES = [
    of_module("LayerNorm", lambda: between(nn.Linear(5, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 2)), 4, 3, 5),
    of_module("LayerNorm, no bias", lambda: between(nn.LayerNorm(5, bias=False)), 4, 3, 5),
    of_module("LayerNorm of two axes", lambda: between(nn.Linear(5, 5), nn.LayerNorm((3, 5))), 4, 3, 5),
    of_module("GroupNorm", lambda: between(nn.Conv2d(3, 4, 2), nn.GroupNorm(2, 4)), 3, 3, 4, 4),
    of_module("InstanceNorm", lambda: between(nn.Conv1d(3, 4, 2), nn.InstanceNorm1d(4, affine=True)), 3, 3, 6),
    of_module("RMSNorm", lambda: between(nn.Linear(5, 4), nn.RMSNorm(4)), 4, 3, 5),
    of_module("BatchNorm, eval", lambda: evaluated(between(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4))), 3, 3, 4, 4),
    of_module("BatchNorm of vectors, eval", lambda: evaluated(between(nn.Linear(5, 4), nn.BatchNorm1d(4))), 3, 5),
    of_module("time first", TimeFirst, 4, 3, 6),
]


@pytest.mark.parametrize("case", ids(CASES))
def test_scale_and_shift_are_those_of_a_loop(case: Case) -> None:
    judge(case)


def test_batch_norm_in_training_has_exact_weights_where_nothing_lies_before_it() -> None:
    """Its statistics are the data's then: no sample's parameters reach another's loss."""
    judge(of_module("first", lambda: between(nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2)), 4, 5))
