"""The Jaccard loss."""

import torch
from torch.nn import functional as F

from gradwright.losses.segmentation.jaccard import jaccard_loss, reference


def test_it_is_one_minus_intersection_over_union() -> None:
    predicted, true = torch.tensor([[1.0, 1.0, 0.0, 0.0]]), torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    torch.testing.assert_close(jaccard_loss(predicted, true, from_logits=False), torch.tensor(2 / 3))


def test_the_reference_agrees() -> None:
    logits = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(14).view(2, 7) % 3
    t = F.one_hot(labels, 3).movedim(-1, 1).float()
    for options in ({}, {"smooth": 2.0}, {"log_loss": True}):
        torch.testing.assert_close(
            jaccard_loss(logits, labels, "multiclass", reduction="none", **options),
            reference(logits.softmax(1), t, **options),
        )


def test_a_class_that_no_target_belongs_to_has_no_loss() -> None:
    each = jaccard_loss(torch.zeros(1, 3, 4), torch.tensor([[0, 1, 0, 1]]), "multiclass", reduction="none")
    assert (each > 0).tolist() == [True, True, False]


def test_many_pixels_are_summed_exactly() -> None:
    """Summed in float32, 1e7 ones would be fewer."""
    value = jaccard_loss(torch.ones(1).expand(10_000_000), torch.ones(1).expand(10_000_000), from_logits=False)
    assert value == 0
    half = jaccard_loss(torch.full((1,), 0.75).expand(10_000_000), torch.ones(1).expand(10_000_000), from_logits=False)
    assert half == 0.25
