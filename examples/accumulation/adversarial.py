"""Several forward passes before one update: a GAN whose two players see the same window, each with its own accumulator.

The discriminator's loss has two terms, of real and of generated points, each with a denominator of its own. Then the
generator answers for the same window: `window(batches)` runs through it once more, in another accumulator. Each
window begins with cleared gradients, so what the generator's backward leaves in the discriminator is gone.
"""

import math

import torch
from torch import Tensor, nn

import gradwright as gw

POINTS, PIECE, LATENT = 256, 32, 4
adversarial = gw.losses.BCEWithLogitsLoss(reduction="sum")


def ring(generator: torch.Generator) -> Tensor:
    """Points near the unit circle."""
    angle = 2 * math.pi * torch.rand(POINTS, generator=generator)
    radius = 1 + 0.05 * torch.randn(POINTS, generator=generator)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)


def main() -> None:
    torch.manual_seed(0)
    draws = torch.Generator().manual_seed(1)
    maker = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    judge = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    judging = gw.training.GradientAccumulator(
        judge, torch.optim.Adam(judge.parameters(), 2e-3, (0.0, 0.99)), micro_batch_size=PIECE, normalize="samples"
    )
    making = gw.training.GradientAccumulator(
        maker, torch.optim.Adam(maker.parameters(), 2e-3, (0.0, 0.99)), micro_batch_size=PIECE, normalize="samples"
    )

    for step in range(400):
        batch = (ring(draws), torch.randn(POINTS, LATENT, generator=draws))
        for window in judging.windows([batch]):
            for real, noise in window:
                fake = maker(noise).detach()
                seen, made = judge(real), judge(fake)
                losses = {
                    "real": adversarial(seen, torch.ones_like(seen)),
                    "fake": adversarial(made, torch.zeros_like(made)),
                }
                judging.backward(losses, reduction="sum")
            judged = judging.step()

            again = making.window(window.batches)
            for _, noise in again:
                made = judge(maker(noise))
                making.backward(adversarial(made, torch.ones_like(made)), reduction="sum")
            making.step()
        if step % 200 == 199:
            with torch.no_grad():
                radius = maker(torch.randn(1000, LATENT)).norm(dim=1)
            told = "  ".join(f"{name} {float(loss):.2f}" for name, loss in judged.losses.items())
            print(f"update {judging.updates:3}  {told}  radius {radius.mean():.2f} ± {radius.std():.2f}")


if __name__ == "__main__":
    main()
