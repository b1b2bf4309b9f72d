"""A float64 constant takes the dtype of what it meets; what is float64 on purpose stays."""

import pytest
import torch

HEAD = "import torch\n\nTABLE = torch.linspace(0, 1, 5, dtype=torch.float64)\n\n\ndef f(x, y):\n"


def text(body: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in body.split("\n"))


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(4, 5, generator=draw), torch.randn(4, 5, generator=draw)


KEPT = {
    "a global": ("return (x * TABLE).to(x.dtype)", "return (x * TABLE.to(x.dtype)).to(x.dtype)"),
    "on the left": ("return (TABLE - x).float()", "return (TABLE.to(x.dtype) - x).float()"),
    "made above": (
        "w = torch.arange(5, dtype=torch.float64)\nreturn (x * w).to(x.dtype)",
        "w = torch.arange(5, dtype=x.dtype)",
    ),
    "made on the spot": (
        "return (x * torch.tensor([1, 2, 3, 4, 5], dtype=torch.double)).float()",
        "return (x * torch.tensor([1, 2, 3, 4, 5], dtype=x.dtype)).float()",
    ),
    "read twice": (
        "w = torch.arange(5, dtype=torch.float64)\nreturn (x * w).float(), w.sum()",
        "return (x * w.to(x.dtype)).float(), w.sum()",
    ),
    "a name that is bound after the constant": (
        "w = torch.ones(5, dtype=torch.float64)\nz = x + y\nreturn (z * w).float()",
        "return (z * w.to(z.dtype)).float()",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_constant_takes_the_dtype_of_what_it_meets(name: str, rewritten) -> None:
    body, line = KEPT[name]
    done = rewritten("promoted", text(body), *inputs())
    assert done is not None and done.lines == [line]
    assert done.agrees(*inputs())
    wide = [one.double() for one in inputs()]
    assert done.agrees(*wide), "float64 inputs stay as exact as they were"


SILENT = {
    "a tensor without axes": "return x * torch.tensor(2.0, dtype=torch.float64)",
    "float64 on purpose": "return (x.double() * TABLE).sum().to(x.dtype)",
    "what has no name": "return ((x + y) * TABLE).float()",
    "an integer meets it": "return x.long() * TABLE",
}


@pytest.mark.parametrize("body", SILENT.values(), ids=list(SILENT))
def test_what_is_meant_or_free_stays(body: str, rewritten) -> None:
    assert rewritten("promoted", text(body), *inputs()) is None
