"""Time a square and a matrix product whose backward is written by hand: element by element, vectorised, with einsum."""

import argparse
import time

import torch


class SlowSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        for row in range(x.shape[0]):
            for col in range(x.shape[1]):
                out[row, col] = x[row, col] ** 2
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        for row in range(x.shape[0]):
            for col in range(x.shape[1]):
                grad_x[row, col] = grad_output[row, col] * 2 * x[row, col]
        return grad_x


class FastSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 2 * x


class EinsumProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.einsum("nk,km->nm", a, b)

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        grad_a = torch.einsum("nm,km->nk", grad_output, b)
        grad_b = torch.einsum("nk,nm->km", a, grad_output)
        return grad_a, grad_b


def timed(name, function, *inputs):
    started = time.perf_counter()
    out = function.apply(*inputs)
    middle = time.perf_counter()
    out.sum().backward()
    ended = time.perf_counter()
    print(f"{name:15} forward {middle - started:8.3f} s   backward {ended - middle:8.3f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1000, help="rows and columns of the matrices")
    args = parser.parse_args()

    torch.manual_seed(0)
    x = torch.randn(args.size, args.size, requires_grad=True)
    a = torch.randn(args.size, args.size, requires_grad=True)
    b = torch.randn(args.size, args.size, requires_grad=True)

    timed("SlowSquare", SlowSquare, x)
    slow = x.grad.clone()
    x.grad = None
    timed("FastSquare", FastSquare, x)
    timed("EinsumProduct", EinsumProduct, a, b)
    print(f"the two squares differ by {(slow - x.grad).abs().max().item():.1e}")


if __name__ == "__main__":
    main()
