"""Several forward passes before one update: a GAN's two players over one window, triplets, kept exact."""

import copy

import torch
import torch.nn.functional as F
from tests.training.several.players import LATENT, Batch, full_step, judged, play, players
from tests.training.several.two_heads import flat, relative

from gradwright.training import GradientAccumulator

SIZES = (2, 5, 1)


def drawn() -> list[Batch]:
    torch.manual_seed(1)
    return [(torch.randn(size, 2).double(), torch.randn(size, LATENT).double()) for size in SIZES]


def test_two_accumulators_over_one_window_make_the_full_batchs_step() -> None:
    (maker, judge), (full_maker, full_judge) = players(), players()
    batches = drawn()
    for _ in range(3):
        play(maker, judge, batches)
        full_step(full_maker, full_judge, *(torch.cat(parts) for parts in zip(*batches, strict=True)))
    assert relative(flat(judge.parameters()), flat(full_judge.parameters())) <= 1e-12
    assert relative(flat(maker.parameters()), flat(full_maker.parameters())) <= 1e-12


def test_what_the_makers_backward_leaves_in_the_judge_is_gone_in_the_next_window() -> None:
    """Otherwise the judge would be trained to be fooled."""
    _, judge = players()
    judging = GradientAccumulator(judge, torch.optim.SGD(judge.parameters(), 0.0), micro_batch_size=2)
    for parameter in judge.parameters():
        parameter.grad = torch.full_like(parameter, 1e6)
    window = judging.window(drawn())
    judging.update(window, lambda batch: (judged(judge(batch[0]), True), len(batch[0])), reduction="sum")  # type: ignore[return-value]
    assert all(float(one.grad.abs().max()) < 10 for one in judge.parameters() if one.grad is not None)


def test_windows_of_a_second_accumulator_are_numbered() -> None:
    maker, _ = players()
    making = GradientAccumulator(maker, torch.optim.SGD(maker.parameters(), 0.1), micro_batch_size=2)
    numbers = []
    for _ in range(3):
        window = making.window(drawn())
        numbers.append(making.update(window, lambda batch: (maker(batch[1]).square().sum(), 2), reduction="sum").window)  # type: ignore[return-value]
    assert numbers == [0, 1, 2]


def test_three_forward_passes_for_one_backward_are_the_full_batchs() -> None:
    """A triplet's anchor, its like and its unlike pass the same network."""
    net, _ = players()
    full = copy.deepcopy(net)
    torch.manual_seed(2)
    batches = [tuple(torch.randn(size, LATENT).double() for _ in range(3)) for size in SIZES]
    acc = GradientAccumulator(
        net, torch.optim.SGD(net.parameters(), 0.0), accumulation_steps=len(SIZES), normalize="samples"
    )
    acc.update(
        acc.window(batches),
        lambda batch: F.triplet_margin_loss(*(net(one) for one in batch), reduction="sum"),
        reduction="sum",
    )
    F.triplet_margin_loss(*(full(torch.cat(parts)) for parts in zip(*batches, strict=True))).backward()
    found, expected = (flat(one.grad for one in players.parameters()) for players in (net, full))
    assert relative(found, expected) <= 1e-12
