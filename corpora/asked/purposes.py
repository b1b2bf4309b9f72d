"""When do I want accumulation on purpose? Four situations that are named for it, each measured."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from corpora.asked.answer import NOTES, Answer, Rows, claim
from corpora.asked.measuring import error, in_turn, peak_bytes, ratio


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])


def deep() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(128, 128), nn.Tanh())))


def large_batch(rows: Rows) -> tuple[bool, str]:
    """512 samples at once, and 16 at a time."""
    model, x = deep(), torch.randn(512, 128)

    def at_once() -> None:
        model.zero_grad()
        model(x).square().mean().backward()

    def in_pieces() -> None:
        model.zero_grad()
        for piece in x.split(16):
            (model(piece).square().mean() * len(piece) / len(x)).backward()

    at_once()
    true = gradient(model)
    in_pieces()
    off = error(gradient(model), true)
    peaks = [peak_bytes(job) / 2**20 for job in (at_once, in_pieces)]
    rows["large batch, small memory: 512 samples"] = {
        "at once": f"{peaks[0]:.1f} MiB",
        "accumulated": f"{peaks[1]:.1f} MiB",
        "gradient's error": off,
    }
    return peaks[1] < peaks[0] and float(off) < 1e-5, f"{peaks[0]:.1f} MiB at once, {peaks[1]:.1f} MiB in pieces of 16"


def several_losses(rows: Rows, rounds: int) -> tuple[bool, str]:
    """One trunk, two heads: a backward for each loss, or one of their sum."""
    trunk, heads = deep(), [nn.Linear(128, 4), nn.Linear(128, 4)]
    x = torch.randn(64, 128)

    def losses() -> list[Tensor]:
        trunk.zero_grad()
        shared = trunk(x)
        return [head(shared).square().mean() for head in heads]

    def one() -> None:
        torch.stack(losses()).sum().backward()

    def each() -> None:
        first, second = losses()
        first.backward(retain_graph=True)
        second.backward()

    one()
    true = gradient(trunk)
    each()
    off = error(gradient(trunk), true)
    took = in_turn({"one": one, "each": each}, rounds)
    slower = ratio(took["each"], took["one"])
    rows["several losses on one trunk"] = {
        "at once": "one backward of the sum",
        "accumulated": f"a backward each: {slower:.2f} times the time",
        "gradient's error": off,
    }
    return float(
        off
    ) < 1e-5, f"the same gradient from one backward of the sum; a backward each takes {slower:.2f} times the time"


def ranks(rows: Rows) -> tuple[bool, str]:
    """Two ranks (or pipeline micro-batches) of 300 and 40 tokens: a mean of means is no mean."""
    torch.manual_seed(0)
    model, x, y = nn.Linear(16, 1), torch.randn(340, 16), torch.randn(340, 1)
    pieces = list(zip(x.split([300, 40]), y.split([300, 40]), strict=True))

    def taken(share: Callable[[Tensor], float]) -> Tensor:
        model.zero_grad()
        for given, wanted in pieces:
            ((model(given) - wanted).square().mean() * share(given)).backward()
        return gradient(model)

    model.zero_grad()
    (model(x) - y).square().mean().backward()
    true = gradient(model)
    means = error(taken(lambda given: 1 / 2), true)
    counted = error(taken(lambda given: len(given) / 340), true)
    rows["parallel: ranks of 300 and 40 samples"] = {
        "at once": "one mean over 340",
        "accumulated": f"mean of means: {means} off",
        "gradient's error": f"{counted}, weighted by counts",
    }
    return float(counted) < 1e-5, f"weighted by counts {counted} off, as a mean of means {means}"


def noisy(rows: Rows, samples: int) -> tuple[bool, str]:
    """A linear model whose measurements are noisy, at one learning rate: how far from the truth it ends, over seeds."""
    truth = torch.linspace(-1, 1, 20).unsqueeze(1)

    def distance(pieces: int, rate: float, smoothing: float = 0.0) -> float:
        found = []
        for seed in range(5):
            generator = torch.Generator().manual_seed(seed)
            weight, mean = torch.zeros(20, 1), torch.zeros(20, 1)
            for _ in range(samples // (8 * pieces)):
                x = torch.randn(8 * pieces, 20, generator=generator)
                y = x @ truth + 5 * torch.randn(8 * pieces, 1, generator=generator)
                slope = x.T @ (x @ weight - y) / len(x)
                mean = smoothing * mean + (1 - smoothing) * slope
                weight = weight - rate * mean
            found.append(float((weight - truth).norm() / truth.norm()))
        return sum(found) / len(found)

    each, windows, average = distance(1, 0.02), distance(16, 0.02), distance(1, 0.02, 0.9)
    slower = distance(1, 0.02 / 16)
    name = f"noisy gradients: {samples:,} samples, distance from the truth"
    rows[name] = {
        "at once": f"steps of 8: {each:.0%}; at 1/16 of the rate {slower:.0%}",
        "accumulated": f"windows of 128: {windows:.0%}; moving average: {average:.0%}",
        "gradient's error": "-",
    }
    return windows < each, (
        f"steps of 8 end {each:.0%} from the truth, windows of 128 {windows:.0%}, steps of 8 at 1/16 of the "
        f"learning rate {slower:.0%}, a moving average {average:.0%}"
    )


def measure(rounds: int, quick: bool) -> Answer:
    rows: Rows = {}
    memory, several, uneven = large_batch(rows), several_losses(rows, rounds), ranks(rows)
    smooth = noisy(rows, 4_096 if quick else 32_768)
    return Answer(
        "Four purposes of accumulation",
        rows,
        {
            "accumulate where the batch does not fit into memory": claim(NOTES, *memory),
            "accumulate where an update has several losses": claim(
                NOTES, *several, so_far="one backward of the sum does"
            ),
            "accumulate where devices share the work": claim(NOTES, *uneven, so_far="if weighted by counts"),
            "accumulate where gradients are noisy": claim(NOTES, *smooth, so_far="as a smaller learning rate does"),
        },
    )
