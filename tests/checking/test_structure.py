"""Which structures are recognised, and that what is restored has them."""

import pytest
import torch

from gradwright.checking.redraw import redrawn
from gradwright.checking.structure import STRUCTURES, structure_of


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


EXAMPLES = {
    "positive definite": draw(4, 4) @ draw(4, 4).mT + torch.eye(4, dtype=torch.float64),
    "orthogonal": torch.linalg.qr(draw(4, 4)).Q,
    "symmetric": draw(4, 4) + draw(4, 4).mT,
    "lower triangular": draw(4, 4).tril(),
    "upper triangular": draw(4, 4).triu(),
    "one-hot": torch.nn.functional.one_hot(torch.tensor([2, 0, 3, 1, 2]), 4).double(),
    "sums to one": draw(5, 4).softmax(-1),
    "log of what sums to one": draw(5, 4).log_softmax(-1),
    "unit norm": torch.nn.functional.normalize(draw(5, 4), dim=-1),
    "sorted": draw(5, 4).sort(-1).values,
}


def test_every_structure_has_an_example():
    assert set(EXAMPLES) == {kind.name for kind in STRUCTURES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_recognised_and_survives_other_values(name):
    given = EXAMPLES[name]
    other = redrawn(given, torch.Generator().manual_seed(1))
    assert structure_of(given).name == structure_of(other).name == name
    assert not torch.equal(given, other)


@pytest.mark.parametrize("plain", [draw(4, 4), draw(5), torch.ones(3, 3), torch.zeros(4), torch.tensor([1, 2, 3, 4])])
def test_random_numbers_and_constants_have_none(plain):
    assert structure_of(plain) is None
