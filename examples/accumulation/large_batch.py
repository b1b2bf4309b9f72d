"""A large batch on small memory: sentences of different lengths, four at a time, with the gradient of all of them.

The usual loop divides each micro-batch's mean by the number of micro-batches. A micro-batch of few tokens then weighs
as much as one of many: that is another gradient than the large batch's. What has to be divided by is the number of
tokens of all micro-batches, which is known after the last one only; `windows` fetches them first and counts.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import gradwright as gw

IGNORED, WORDS, STEPS = -100, 50, 8


def sentences(seed: int) -> list[tuple[Tensor, Tensor]]:
    """Micro-batches of four padded sentences: tokens, and the next token for each, or IGNORED."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for longest in torch.randint(3, 40, (STEPS,), generator=generator).tolist():
        tokens = torch.randint(WORDS, (4, longest), generator=generator)
        following = (3 * tokens + 1) % WORDS
        lengths = torch.randint(1, longest + 1, (4, 1), generator=generator)
        batches.append((tokens, following.masked_fill(torch.arange(longest) >= lengths, IGNORED)))
    return batches


def new_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(WORDS, 32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, WORDS))


def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor], reduction: str) -> Tensor:
    tokens, following = batch
    return F.cross_entropy(model(tokens).flatten(0, 1), following.flatten(), ignore_index=IGNORED, reduction=reduction)


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def of_the_large_batch(batches: list[tuple[Tensor, Tensor]]) -> Tensor:
    model = new_model()
    total = sum(int((following != IGNORED).sum()) for _, following in batches)
    (sum(loss_of(model, batch, "sum") for batch in batches) / total).backward()
    return gradient(model)


def of_the_usual_loop(batches: list[tuple[Tensor, Tensor]]) -> Tensor:
    model = new_model()
    for batch in batches:
        (loss_of(model, batch, "mean") / len(batches)).backward()
    return gradient(model)


def accumulated(batches: list[tuple[Tensor, Tensor]]) -> Tensor:
    model = new_model()
    acc = accumulator(model, torch.optim.SGD(model.parameters(), lr=0.0))
    for window in acc.windows(batches):
        for batch in window:
            acc.backward(loss_of(model, batch, "sum"), reduction="sum")
        acc.step()
    return gradient(model)


def accumulator(model: nn.Module, optimizer: torch.optim.Optimizer) -> gw.training.GradientAccumulator:
    return gw.training.GradientAccumulator(
        model, optimizer, accumulation_steps=STEPS, count=lambda batch: (batch[1] != IGNORED).sum(), max_norm=1.0
    )


def main() -> None:
    batches = sentences(seed=0)
    exact = of_the_large_batch(batches)
    for name, way in (("mean of means", of_the_usual_loop), ("GradientAccumulator", accumulated)):
        error = (way(batches) - exact).norm() / exact.norm()
        print(f"{name:20}  differs from the large batch by {error:.1e}")

    model = new_model()
    acc = accumulator(model, torch.optim.AdamW(model.parameters(), lr=1e-2))
    for epoch in range(30):
        for window in acc.windows(sentences(seed=epoch)):
            for batch in window:
                acc.backward(loss_of(model, batch, "sum"), reduction="sum")
            update = acc.step()
        if epoch % 10 == 9:
            print(f"update {acc.updates:3}  loss {update.loss:.4f}  over {update.items['loss']:.0f} tokens")


if __name__ == "__main__":
    main()
