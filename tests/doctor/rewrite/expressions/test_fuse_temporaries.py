"""Arithmetic with a tensor on the way to its result is written with torch's fused or in-place operations."""

import pytest
import torch


def text(expression: str) -> str:
    return f"import torch\n\n\ndef f(x, y, z):\n    return {expression}\n"


def inputs(*shape: int) -> list[torch.Tensor]:
    return [torch.randn(shape or (4, 5), generator=torch.Generator().manual_seed(seed)) for seed in range(3)]


FUSED = {
    "2 * x * y": "(x * y).mul_(2)",
    "x * 2 * y": "(x * y).mul_(2)",
    "x * y * z / 3": "(x * y * z).div_(3)",
    "-2 * x * y": "(x * y).mul_(-2)",
    "-1 * x * y": "(x * y).neg_()",
    "0.5 * (x + y) * z": "((x + y) * z).mul_(0.5)",
    "x + 2 * y": "torch.add(x, y, alpha=2)",
    "2 * y + x": "torch.add(x, y, alpha=2)",
    "x - 0.1 * y": "torch.sub(x, y, alpha=0.1)",
    "x + y * z": "torch.addcmul(x, y, z)",
    "x - y * z": "torch.addcmul(x, y, z, value=-1)",
    "x + 3 * y * z": "torch.addcmul(x, y, z, value=3)",
    "x - 3 * y * z": "torch.addcmul(x, y, z, value=-3)",
    "(2 * x * y).sum()": "(x * y).mul_(2).sum()",
}


@pytest.mark.parametrize("expression", FUSED)
def test_a_chain_is_fused(expression: str, rewritten) -> None:
    done = rewritten("temporaries", text(expression), *inputs())
    assert done is not None and done.lines == [f"return {FUSED[expression]}"]
    assert done.agrees(*inputs()) and done.agrees(*inputs(1)) and done.agrees(*inputs(0, 3))


def test_what_is_fused_keeps_its_derivatives(rewritten) -> None:
    for expression in FUSED:
        done = rewritten("temporaries", text(expression), *inputs())
        leaves = [one.double().requires_grad_() for one in inputs()]
        used = [one for one, name in zip(leaves, "xyz", strict=True) if name in expression]
        first = [torch.autograd.grad(f(*leaves).sum(), used, create_graph=True) for f in (done.before, done.after)]
        assert all(torch.allclose(a, b) for a, b in zip(*first, strict=True))


LEFT = {
    "one step": "2 * x",
    "no number": "x * y * z",
    "two numbers": "2 * x * 3 * y",
    "a quotient of tensors": "2 * x / y",
    "a number first": "1 - 2 * x",
    "an operand that is long": "x + (y - z) * (y + z)",
    "the number times a small tensor": "2 * x[:1] * y",
}


@pytest.mark.parametrize("expression", LEFT.values(), ids=list(LEFT))
def test_what_is_no_such_chain_is_left(expression: str, rewritten) -> None:
    assert rewritten("temporaries", text(expression), *inputs()) is None


def test_integers_are_left_alone(rewritten) -> None:
    whole = [torch.arange(6).reshape(2, 3)] * 3
    assert rewritten("temporaries", text("2 * x * y"), *whole) is None
