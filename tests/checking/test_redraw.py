"""Other values of the same kind."""

import torch

from gradwright.checking.redraw import redrawn


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def again(tensor, **options):
    return redrawn(tensor, torch.Generator().manual_seed(3), **options)


def test_they_stay_in_the_range_and_have_the_same_signs():
    positive, mixed = draw(50).abs(), draw(50)
    assert positive.min() <= again(positive).min() and again(positive).max() <= positive.max()
    assert bool((again(positive) > 0).all())
    assert again(mixed).min() < 0 < again(mixed).max()


def test_integers_among_floats_stay_integers():
    labels = torch.tensor([0.0, 1.0, 1.0, 0.0, 3.0])
    assert set(again(labels).tolist()) <= {0.0, 1.0, 3.0}


def test_shape_dtype_and_kind_are_kept():
    for tensor in (draw(3, 4).float(), draw(3, 4).mT, torch.complex(draw(4), draw(4)), torch.nn.Parameter(draw(3))):
        other = again(tensor)
        assert (other.shape, other.dtype, type(other)) == (tensor.shape, tensor.dtype, type(tensor))
        assert not torch.equal(other, tensor)


def test_symmetry_can_be_broken():
    symmetric = draw(4, 4) + draw(4, 4).mT
    assert not torch.equal(again(symmetric, structured=False), again(symmetric, structured=False).mT)
