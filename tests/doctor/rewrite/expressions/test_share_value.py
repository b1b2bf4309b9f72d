"""What is computed twice gets a name, unless something changes in between."""

import pytest
import torch

HEAD = "import torch\nimport torch.nn.functional as F\n\n\ndef f(x, y):\n"


def text(body: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in body.split("\n"))


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.linspace(-2, 3, 20).reshape(4, 5), torch.linspace(1, 2, 20).reshape(4, 5)


SHARED = {
    "a function twice in a line": (
        "return torch.exp(x) + y * torch.exp(x)",
        ["exp_x = torch.exp(x)", "return exp_x + y * exp_x"],
    ),
    "a method in two statements": (
        "a = x.sigmoid() * y\nreturn a + x.sigmoid()",
        ["sigmoid_x = x.sigmoid()", "a = sigmoid_x * y", "return a + sigmoid_x"],
    ),
    "what has a name already": ("e = torch.exp(x)\nreturn e + y * torch.exp(x)", ["return e + y * e"]),
    "the larger of two": (
        "return torch.exp(x - y) * 2 + torch.exp(x - y).sum(1, keepdim=True)",
        ["exp_difference = torch.exp(x - y)", "return exp_difference * 2 + exp_difference.sum(1, keepdim=True)"],
    ),
    "a matrix product in parentheses": (
        "return (x @ y.T).exp() + (x @ y.T)",
        ["product = x @ y.T", "return product.exp() + product"],
    ),
    "three times": (
        "a = F.softplus(x)\nb = y - F.softplus(x)\nreturn a * b * F.softplus(x)",
        ["b = y - a", "return a * b * a"],
    ),
    "the last one binds what it reads": (
        "a = torch.exp(x)\nx = torch.exp(x) + y\nreturn a * x",
        ["x = a + y"],
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_the_second_time_is_the_first_one_s_name(name: str, rewritten) -> None:
    body, lines = SHARED[name]
    done = rewritten("recomputed", text(body), *inputs())
    assert done is not None and done.lines == lines
    assert done.agrees(*inputs())
    assert done.agrees(*(one.flip(0) * 3 for one in inputs()))


KEPT = {
    "what it reads is bound anew": "a = torch.exp(x)\nx = x + 1\nreturn a * torch.exp(x)",
    "what it reads is written into": "x = x.clone()\na = torch.exp(x)\nx[0] = 0\nreturn a * torch.exp(x)",
    "an in-place method stands between": "x = x.clone()\na = torch.exp(x)\nx.add_(1)\nreturn a * torch.exp(x)",
    "the named one is written into": "a = torch.exp(x)\na[0] = 0\nreturn a * torch.exp(x)",
    "the named one changes later": "a = torch.exp(x)\nb = torch.exp(x)\na += 1\nreturn a * b",
    "a branch may not compute it": "a = torch.exp(x) if y.sum() > 0 else x\nreturn a * torch.exp(x)",
    "it draws numbers": "return F.dropout(x) + F.dropout(x)",
    "it is no function of torch's": "return x.tolist() + x.tolist()",
}


@pytest.mark.parametrize("body", KEPT.values(), ids=list(KEPT))
def test_what_may_differ_is_computed_again(body: str, rewritten) -> None:
    assert rewritten("recomputed", text(body), *inputs()) is None


def test_a_name_that_is_taken_is_not_used_again(rewritten) -> None:
    done = rewritten("recomputed", text("exp_x = y\nreturn torch.exp(x) + exp_x * torch.exp(x)"), *inputs())
    assert done.lines[0] == "exp_x_2 = torch.exp(x)"
    assert done.agrees(*inputs())


def test_a_comment_and_the_line_ends_stay(rewritten) -> None:
    body = text("a = torch.exp(x)  # what comes\nreturn a * torch.exp(x)").replace("\n", "\r\n")
    done = rewritten("recomputed", body, *inputs())
    assert done.lines == ["return a * a"]


def test_a_module_is_not_taken_for_a_method(rewritten) -> None:
    """`net.norm(x)` may be a batch norm, which counts its calls."""
    net = "import torch\n\n\nclass net:\n    norm = torch.nn.BatchNorm1d(5)\n\n\n"
    looks = f"{net}def f(x, y):\n    return net.norm(x) + net.norm(x)\n"
    assert rewritten("recomputed", looks, *inputs()) is None
