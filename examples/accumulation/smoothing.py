"""Noisy gradients: how noisy they are, how large a batch is worth it, and what averaging over updates gives.

A linear model learns from measurements whose noise is as large as what is measured. The micro-batches of a window tell
how far their gradients scatter: the noise scale, from which the batch size follows that is worth its price. Near the
solution the gradient fades and the noise stays, so it grows. With windows of 256 samples the weights end twice as near
to the truth, after as many samples. A moving average of the gradients is no stand-in for that: it makes the path
smooth, but in the end each gradient enters the weights whole, only later.
"""

import torch
from torch import Tensor, nn

import gradwright as gw

SIZE, PIECE, SAMPLES, NOISE = 50, 8, 32_000, 5.0


def measurements(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.randn(count, SIZE, generator=generator)
    return x, x @ truth() + NOISE * torch.randn(count, 1, generator=generator)


def truth() -> Tensor:
    return torch.linspace(-1, 1, SIZE).unsqueeze(1)


def train(pieces: int, rate: float, smoothing: gw.training.GradientEMA | None = None) -> list[str]:
    """Learns from SAMPLES measurements, ``pieces`` micro-batches for each update: how far from the truth it ends."""
    model, generator = nn.Linear(SIZE, 1, bias=False), torch.Generator().manual_seed(0)
    nn.init.zeros_(model.weight)
    noise = gw.training.GradientNoiseScale()
    acc = gw.training.GradientAccumulator(
        model,
        torch.optim.SGD(model.parameters(), lr=rate),
        micro_batch_size=PIECE,
        normalize="samples",
        smoothing=smoothing,
        monitors=[noise] if pieces > 1 else [],
    )
    updates, said = SAMPLES // (pieces * PIECE), []
    for batch in (measurements(pieces * PIECE, generator) for _ in range(updates)):
        for window in acc.windows([batch]):
            for x, y in window:
                acc.backward(0.5 * (model(x) - y).square().sum(), reduction="sum")
            acc.step()
        if pieces > 1 and acc.updates in (20, updates):
            said.append(f"    after {acc.updates:4} updates: {noise.estimate()}")
    distance = (model.weight.detach().T - truth()).norm() / truth().norm()
    return [f"{updates:5} updates of {pieces * PIECE:4} samples: {distance:.1%} from the truth", *said]


def main() -> None:
    print("\n".join(train(pieces=1, rate=0.01)))
    print("\n".join(train(pieces=32, rate=0.05)))
    print("with a moving average over updates")
    print("\n".join(train(pieces=1, rate=0.01, smoothing=gw.training.GradientEMA(0.99))))


if __name__ == "__main__":
    main()
