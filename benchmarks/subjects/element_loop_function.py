"""A custom Function that loops over 100x100 elements, forward and backward."""

import argparse

import torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        rows, cols = x.shape
        out = torch.empty_like(x)
        for row in range(rows):
            for col in range(cols):
                out[row, col] = x[row, col] ** 3
        return out

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        rows, cols = x.shape
        grad = torch.empty_like(x)
        for row in range(rows):
            for col in range(cols):
                grad[row, col] = 3 * x[row, col] ** 2 * cotangent[row, col]
        return grad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--size", type=int, default=100)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.randn(args.size, args.size))
    target = torch.randn(args.size, args.size)
    optimizer = torch.optim.SGD([weight], lr=0.01)
    for _ in range(args.steps):
        optimizer.zero_grad()
        loss = (Cube.apply(weight) - target).square().mean()
        loss.backward()
        optimizer.step()
    print(float(loss.item()).hex(), float(weight.double().sum().item()).hex())


if __name__ == "__main__":
    main()
