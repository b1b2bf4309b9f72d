"""A copy that is only read goes; one that somebody could notice stays."""

import pytest
import torch


def text(body: str) -> str:
    return "import torch\n\n\ndef f(x, b):\n" + "".join(f"    {line}\n" for line in body.split("\n"))


def inputs(rows: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(rows * 5.0).reshape(rows, 5), torch.arange(5.0) + 1


DROPPED = {
    "x.clone() * 2": "x * 2",
    "torch.exp(x.clone())": "torch.exp(x)",
    "x.clone().sum(0)": "x.sum(0)",
    "(x * 2).clone()": "x * 2",
    "(x * 2).clone() + 1": "(x * 2) + 1",
    "x + b.repeat(x.shape[0], 1)": "x + b.expand(x.shape[0], -1)",
    "x * b.repeat((x.shape[0], 1))": "x * b.expand(x.shape[0], -1)",
    "x - b[None].repeat(len(x), 1)": "x - b[None].expand(len(x), -1)",
    "x - x.mean(1, keepdim=True).repeat(1, 5)": "x - x.mean(1, keepdim=True).expand(-1, 5)",
    "x.unsqueeze(-1).repeat(1, 1, 3) * 2": "x.unsqueeze(-1).expand(-1, -1, 3) * 2",
}


@pytest.mark.parametrize("expression", DROPPED)
def test_a_copy_that_is_only_read_goes(expression: str, rewritten) -> None:
    done = rewritten("copy", text(f"return {expression}"), *inputs())
    assert done is not None and done.lines == [f"return {DROPPED[expression]}"]
    assert done.agrees(*inputs()) and done.agrees(*inputs(1)) and done.agrees(*inputs(0))


KEPT = {
    "it is returned": "return x.clone()",
    "it has a name": "y = x.clone()\ny[0] = 0\nreturn y * 2",
    "the original is written into": "x = x + 1\ny = x.clone() * 2\nx[0] = 0\nreturn y + x",
    "it is handed on": "return list((x.clone(), x))[0]",
    "it really is repeated": "return x[:, :2].repeat(1, 2) * 2",
    "nothing says that the axis is 1 long": "return b.view(1, 5).repeat(4, 1) * x",
    "a module may write into it": "act = torch.nn.ReLU(inplace=True)\nreturn act(x.clone()) + x",
}


@pytest.mark.parametrize("body", KEPT.values(), ids=list(KEPT))
def test_a_copy_that_matters_stays(body: str, rewritten) -> None:
    assert rewritten("copy", text(body), *inputs()) is None
