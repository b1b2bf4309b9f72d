"""Noisy point pairs are pulled towards an essential matrix through kornia's five-point solver with seven points."""

import argparse

import torch
from kornia.geometry.epipolar import cross_product_matrix
from kornia.geometry.epipolar.essential import run_5point


def scene(pairs, points):
    """Normalised points seen by two cameras, and the essential matrix that relates them."""
    world = torch.rand(pairs, points, 3) * 2 + torch.tensor([-1.0, -1.0, 4.0])
    angle = 0.1 * torch.randn(pairs, 3)
    rotation = torch.linalg.matrix_exp(cross_product_matrix(angle))
    shift = torch.randn(pairs, 3)
    moved = world @ rotation.mT + shift[:, None]
    essential = cross_product_matrix(shift) @ rotation
    essential = essential / essential.flatten(1).norm(dim=1)[:, None, None]
    return world[..., :2] / world[..., 2:], moved[..., :2] / moved[..., 2:], essential


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    left, right, essential = scene(pairs=4, points=7)
    observed = torch.nn.Parameter(right + 1e-3 * torch.randn_like(right))
    optimizer = torch.optim.SGD([observed], lr=1e-4)
    for step in range(args.steps):
        optimizer.zero_grad()
        candidates = run_5point(left, observed)
        candidates = candidates / candidates.flatten(2).norm(dim=2)[..., None, None]
        likeness = (candidates * essential[:, None]).sum(dim=(2, 3)).abs().nan_to_num(0.0)
        loss = (1 - likeness.amax(dim=1)).sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([observed], 1.0)
        optimizer.step()
        if step % 2 == 0:
            print(f"step {step}: loss {loss.item():.7f}")


if __name__ == "__main__":
    main()
