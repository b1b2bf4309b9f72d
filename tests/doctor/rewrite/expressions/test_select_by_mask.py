"""A write through a mask becomes torch.where, where nobody else holds the tensor and every element stands alone."""

import pytest
import torch

HEAD = "import torch\n\n\nclass F(torch.autograd.Function):\n    @staticmethod\n    def f(x, y):\n"


def text(body: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in body.split("\n"))


def inputs(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(6, 5, generator=draw), torch.randn(6, 5, generator=draw)


CHOSEN = {
    "into zeros": (
        "out = torch.zeros_like(x)\nout[x > 0] = y[x > 0]\nreturn out",
        ["out = torch.where(x > 0, y, 0)"],
    ),
    "into ones, of an expression": (
        "m = x > 0\nout = torch.ones_like(x)\nout[m] = torch.exp(x[m]) * y[m] / 2\nreturn out",
        ["out = torch.where(m, torch.exp(x) * y / 2, 1)"],
    ),
    "both halves": (
        "m = x > 0\nout = torch.empty_like(x)\nout[m] = x[m]\nout[~m] = 0.1 * x[~m]\nreturn out",
        ["out = torch.where(m, x, 0.1 * x)"],
    ),
    "the other half first": (
        "m = x > 0\nout = torch.empty_like(x)\nout[~m] = -x[~m]\nout[m] = y[m] ** 2\nreturn out",
        ["out = torch.where(m, y ** 2, -x)"],
    ),
    "into a copy": (
        "out = x.clone()\nout[x < 0] = y[x < 0]\nreturn out",
        ["out = torch.where(x < 0, y, out)"],
    ),
    "of itself": (
        "out = x * 1\nout[out < 0] = out[out < 0] * 0.01\nreturn out",
        ["out = torch.where(out < 0, out * 0.01, out)"],
    ),
    "times something": (
        "m = x < 0\nout = x * y\nout[m] *= y[m]\nreturn out",
        ["out = torch.where(m, out * y, out)"],
    ),
    "the difference of two": (
        "out = torch.zeros_like(x)\nout[x > y] = (x - y)[x > y]\nreturn out",
        ["out = torch.where(x > y, x - y, 0)"],
    ),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_write_through_a_mask_becomes_a_choice(name: str, rewritten) -> None:
    body, lines = CHOSEN[name]
    done = rewritten("masked write", text(body), *inputs())
    assert done is not None and done.lines == lines
    assert done.agrees(*inputs()) and done.agrees(*inputs(1))
    x, y = inputs(2)
    x[0], x[1], y[2], x[3, 3], y[4, 4] = 0.0, float("nan"), float("inf"), float("-inf"), float("nan")
    assert done.agrees(x, y), "what is not chosen does not matter, NaN or not"
    assert done.agrees(x[:0], y[:0])


KEPT = {
    "the tensor is handed in": "x[x > 0] = y[x > 0]\nreturn x",
    "somebody may hold it": "out = x.clone()\nheld = out\nout[x > 0] = y[x > 0]\nreturn held",
    "a view of somebody else's": "out = x.view(6, 5)\nout[x > 0] = y[x > 0]\nreturn out",
    "a mask of rows": "m = x[:, 0] > 0\nout = torch.zeros_like(x)\nout[m] = y[m]\nreturn out",
    "what is read is sorted": "m = x > 0\nout = torch.zeros_like(x)\nout[m] = y[m].sort().values\nreturn out",
    "a sum of what is chosen": "m = x > 0\nout = torch.zeros_like(x)\nout[m] = y[m] / y[m].sum()\nreturn out",
    "an index, no mask": "m = torch.arange(3)\nout = torch.zeros_like(x)\nout[m] = y[m]\nreturn out",
}


@pytest.mark.parametrize("body", KEPT.values(), ids=list(KEPT))
def test_what_is_no_such_write_stays(body: str, rewritten) -> None:
    assert rewritten("masked write", text(body), *inputs()) is None


def test_where_a_graph_is_recorded_a_root_of_what_is_left_out_would_send_back_nan(rewritten) -> None:
    plain = "import torch\n\n\ndef f(x, y):\n    out = torch.zeros_like(x)\n    out[x > 0] = {0}\n    return out\n"
    assert rewritten("masked write", plain.format("torch.sqrt(x[x > 0])"), *inputs()) is None
    done = rewritten("masked write", plain.format("torch.tanh(x[x > 0])"), *inputs())
    assert done.lines == ["out = torch.where(x > 0, torch.tanh(x), 0)"]


def test_the_comparison_rejects_the_wrong_half(rewritten) -> None:
    done = rewritten("masked write", text(CHOSEN["into zeros"][0]), *inputs())
    wrong = type(done)([], done.before, lambda x, y: torch.where(x > 0, 0, y))
    assert not wrong.agrees(*inputs())
