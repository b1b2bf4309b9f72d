"""A product with a mask is a choice; where it is NaN that the mask leaves out, it is told, and written as one."""

import pytest
import torch


def text(body: str) -> str:
    return "import torch\n\n\ndef f(x, g):\n" + "".join(f"    {line}\n" for line in body.split("\n"))


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    x, g = torch.linspace(-1, 1, 12).reshape(3, 4), torch.arange(12.0).reshape(3, 4)
    g[0, 0], g[0, 1], g[2, 3] = float("inf"), float("nan"), float("inf")
    return x, g


CHOSEN = {
    "g * (x > 0).float()": "torch.where(x > 0, g, 0)",
    "(x > 0) * g": "torch.where(x > 0, g, 0)",
    "2 * g * (x > 0).to(g.dtype)": "torch.where(x > 0, 2 * g, 0)",
    "g * (x > 0) * x": "torch.where(x > 0, g, 0) * x",
    "x + (x.abs() < 0.5).type_as(x) * g": "x + torch.where(x.abs() < 0.5, g, 0)",
}


@pytest.mark.parametrize("expression", CHOSEN)
def test_a_product_with_a_mask_becomes_a_choice(expression: str, rewritten) -> None:
    done = rewritten("mask product", text(f"return {expression}"), *inputs())
    assert done is not None and done.lines == [f"return {CHOSEN[expression]}"]
    x, g = inputs()
    assert done.agrees(x, g.nan_to_num(1, 1)), "the same, where everything is finite"
    assert done.before(x, g).isnan().any() and not done.after(x, g)[x < -0.5].isnan().any()


def test_a_mask_with_a_name_is_a_mask_if_nothing_else_has_that_name(rewritten) -> None:
    done = rewritten("mask product", text("m = x > 0\nreturn m * g"), *inputs())
    assert done.lines == ["return torch.where(m, g, 0)"]
    assert rewritten("mask product", text("m = x > 0\nm = m * 1.0\nreturn m * g"), *inputs()) is None


def test_a_product_of_finite_numbers_is_no_finding(rewritten) -> None:
    x, g = inputs()
    assert rewritten("mask product", text("return g * (x > 0)"), x, g.nan_to_num(1, 1)) is None


def test_nan_where_the_mask_is_true_is_not_the_mask_s_fault(rewritten) -> None:
    x, g = inputs()
    assert rewritten("mask product", text("return g * (x > -2)"), x, g) is None
