"""A loss of the whole batch in small pieces: contrastive learning, each sample against all others of a large batch.

InfoNCE of 256 pairs is no sum over micro-batches: in one of 32 pairs each sample meets 31 others in place of 255.
Adding the micro-batches' losses up is another loss, and is refused. `coupled_update` embeds all pairs without a graph,
differentiates the loss of all embeddings once, and runs each micro-batch again with its part of that.
"""

import torch
from torch import Tensor, nn

import gradwright as gw

PAIRS, PIECE, SIZE = 256, 32, 32


def pairs(seed: int) -> tuple[Tensor, Tensor]:
    """Two noisy views of each of PAIRS things, the first rotated."""
    generator = torch.Generator().manual_seed(seed)
    things = torch.randn(PAIRS, SIZE, generator=generator)
    left, right = (things + 0.4 * torch.randn(PAIRS, SIZE, generator=generator) for _ in range(2))
    return left.roll(1, dims=1), right


class Encoders(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.left, self.right = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        left, right = self.left(batch[0]), self.right(batch[1])
        return nn.functional.normalize(left, dim=1), nn.functional.normalize(right, dim=1)


def contrastive(left: Tensor, right: Tensor) -> Tensor:
    return gw.losses.info_nce_loss(left, right, temperature=0.1)


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def accumulator(model: nn.Module, rate: float) -> gw.training.GradientAccumulator:
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    return gw.training.GradientAccumulator(model, optimizer, micro_batch_size=PIECE, normalize="samples")


def main() -> None:
    model = Encoders()
    contrastive(*model(pairs(0))).backward()
    exact = gradient(model)

    model = Encoders()
    acc = accumulator(model, rate=0.0)
    for window in acc.windows([pairs(0)]):
        try:
            acc.update(window, lambda batch: contrastive(*model(batch)), reduction="mean")
        except gw.AccumulationError as error:
            print("refused:", str(error).splitlines()[0])
            acc.skip()

    model = Encoders()
    acc = accumulator(model, rate=0.0)
    for window in acc.windows([pairs(0)]):
        gw.training.coupled_update(acc, window, model, contrastive)
    print(f"coupled_update differs from the large batch by {(gradient(model) - exact).norm() / exact.norm():.1e}")

    acc = accumulator(model, rate=1e-2)
    for epoch in range(60):
        for window in acc.windows([pairs(epoch)]):
            update = gw.training.coupled_update(acc, window, model, contrastive)
    with torch.no_grad():
        left, right = model(pairs(1000))
        found = (left @ right.T).argmax(dim=1) == torch.arange(PAIRS)
    print(
        f"update {acc.updates}  loss {update.loss:.3f}  of 256 unseen pairs {found.float().mean():.0%} find each other"
    )


if __name__ == "__main__":
    main()
