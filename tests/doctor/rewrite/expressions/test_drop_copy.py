"""A copy that is only read goes; one that somebody could notice stays."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:To copy construct from a tensor")


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
    "x.t().contiguous() @ x": "x.t() @ x",
    "torch.mv(x.t().contiguous(), x[:, 0])": "torch.mv(x.t(), x[:, 0])",
    "torch.tensor(x) * b": "x.detach() * b",
}


@pytest.mark.parametrize("expression", DROPPED)
def test_a_copy_that_is_only_read_goes(expression: str, rewritten) -> None:
    done = rewritten("copy", text(f"return {expression}"), *inputs())
    assert done is not None and done.lines == [f"return {DROPPED[expression]}"]
    assert done.agrees(*inputs()) and done.agrees(*inputs(1)) and done.agrees(*inputs(0))


def test_a_clone_that_has_a_name_and_is_only_read_goes(rewritten) -> None:
    done = rewritten("copy", text("y = x.clone()\nz = y.exp() + y.shape[0]\nreturn z - y"), *inputs())
    assert done is not None and done.lines == ["y = x"]
    assert done.agrees(*inputs()) and done.agrees(*inputs(0))


KEPT = {
    "what has its name is returned": "y = x.clone()\nz = y * 2\nreturn z, y",
    "what has its name is viewed": "y = x.clone()\nz = y[0]\nz.zero_()\nreturn y * 2",
    "its name means something else as well": "y = x.clone()\nz = y * 2\ny = b\nreturn y * z",
    "its name is read by a function": "y = x.clone()\nz = lambda: y\nreturn z() * y",
    "its name's original is written into": "x = x + 1\ny = x.clone()\nx += 1\nreturn y * x",
    "the layout of what follows hangs on it": "return x.t().contiguous() * 2",
    "it is contiguous": "return x.contiguous() @ x.t()",
    "a tensor of numbers is made": "return torch.tensor([1.0, 2.0]) * x[:, :2]",
    "a tensor is made of an array": "return torch.tensor(x.numpy()) * b",
    "a tensor is made to be written into": "y = torch.tensor(x)\ny[0] = 1\nreturn y * 2",
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
