"""An element loop in a plain function, differentiated by autograd itself."""

import argparse

import torch


def smooth_absolute(x, width):
    rows = []
    for i in range(x.shape[0]):
        row = []
        for j in range(x.shape[1]):
            row.append(torch.sqrt(x[i, j] ** 2 + width**2) - width)
        rows.append(torch.stack(row))
    return torch.stack(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--size", type=int, default=50)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.randn(args.size, args.size))
    target = torch.rand(args.size, args.size)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    for _ in range(args.steps):
        optimizer.zero_grad()
        loss = (smooth_absolute(weight, 0.1) - target).square().mean()
        loss.backward()
        optimizer.step()
    print(float(loss.item()).hex(), float(weight.double().sum().item()).hex())


if __name__ == "__main__":
    main()
