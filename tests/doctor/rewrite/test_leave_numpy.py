"""What NumPy computed, torch computes: the same values and dtypes, and nothing where one of them might differ."""

import ast
from pathlib import Path
from typing import Any

import pytest
import torch

from gradwright.doctor.rewrite import propose
from gradwright.doctor.session.facts import NumpyDetour
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.place import Location
from gradwright.doctor.source.numpy_detours import detours
from gradwright.doctor.source.statements import Origins

HEAD = "import numpy as np\nimport torch\n\n\ndef f(x, y):\n"


def rewritten(text: str) -> str | None:
    found = next(detours(ast.parse(text), Origins(ast.parse(text))), None)
    if found is None:
        return None
    at = Location("a.py", found.first.lineno, found.first.col_offset)
    finding = Finding("GW310", "numpy-detour", "speed", "warning", "f", at, "", "", evidence=("n",))
    fact = NumpyDetour(id="n", subject="s", location=at, text="", share_of_step=1.0, tried_on="")
    proposals = propose("leave_numpy", finding, (fact,), text)
    return proposals[0].new_text if proposals else None


def run(text: str, *inputs: torch.Tensor) -> Any:
    room: dict[str, Any] = {}
    exec(compile(text, "a.py", "exec"), room)
    return room["f"](*(one.clone() for one in inputs))


def body(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines)


SAME = {
    "a running sum": ["a = x.numpy()", "return torch.from_numpy(np.cumsum(a, axis=1))"],
    "a running product": ["a = x.detach().cpu().numpy()", "return torch.tensor(a.cumprod(0))"],
    "a running sum of all": ["return torch.tensor(np.cumsum(x.numpy()))"],
    "a bound": ["return torch.from_numpy(np.minimum(np.maximum(x.numpy(), -0.5), 0.5)) * 2"],
    "the larger of two": ["return torch.from_numpy(np.maximum(x.numpy(), y.numpy()))"],
    "clip": ["return torch.from_numpy(np.clip(x.numpy(), -1, 0.25))"],
    "a choice": ["a, b = x.numpy(), y.numpy()", "return torch.from_numpy(np.where(a > b, a, 0))"],
    "a choice of numbers, which is float64": ["return torch.from_numpy(np.where(x.numpy() > 0, 1.0, 0.0))"],
    "a softmax": [
        "z = np.asarray(x)",
        "e = np.exp(z - np.max(z, axis=1, keepdims=True))",
        "return torch.from_numpy(e / e.sum(axis=-1, keepdims=True))",
    ],
    "a deviation, divided by n": ["return torch.tensor(x.numpy().std(axis=0) + np.var(y.numpy(), 0))"],
    "a deviation, divided by n - 1": ["return torch.tensor(np.std(x.numpy(), axis=0, ddof=1))"],
    "numbers of arrays": [
        "a = x.numpy()",
        "return torch.tensor(a.sum()), float(np.mean(a)), a.size, a.shape, len(a), a.max().item()",
    ],
    "a written copy": ["a = x.numpy().copy()", "a[y.numpy() <= 0] = 0", "a *= 2", "return torch.from_numpy(a)"],
    "zeros, which are float64": [
        "a = x.numpy()",
        "out = np.zeros(a.shape)",
        "out[:, 1:] = a[:, :-1]",
        "return torch.from_numpy(out)",
    ],
    "zeros of a dtype": [
        "a = x.numpy()",
        "out = np.zeros((a.shape[0], 2), dtype=a.dtype)",
        "out[:, 0] = a.sum(1)",
        "return torch.from_numpy(out)",
    ],
    "a dtype": ["return torch.from_numpy(x.numpy().astype(np.float64) / 3), torch.tensor(y.numpy().astype('int64'))"],
    "a matrix product": [
        "return torch.from_numpy(x.numpy() @ y.numpy().T), torch.tensor(np.dot(x.numpy(), y.numpy().T))"
    ],
    "parts joined": ["return torch.from_numpy(np.concatenate([x.numpy(), y.numpy()], axis=1))"],
    "parts stacked": ["return torch.tensor(np.stack((x.numpy(), y.numpy()), axis=-1))"],
    "a norm": ["return torch.tensor(np.linalg.norm(x.numpy(), axis=1, keepdims=True))"],
    "a Fourier transform": ["return x.new_tensor(abs(np.fft.rfft(x.numpy())))"],
    "sorted rows": ["return torch.from_numpy(np.sort(x.numpy()))"],
    "a new axis": ["return torch.from_numpy(x.numpy()[:, None] - y.numpy()[np.newaxis])"],
    "moved axes": ["return torch.tensor(np.transpose(x.numpy(), (1, 0))), torch.tensor(y.numpy().transpose(1, 0))"],
    "another dtype on the way back": ["return torch.tensor(x.numpy() * 2, dtype=torch.float16)"],
    "a condition": [
        "a = x.numpy()",
        "if a.min() < 0 and not np.isnan(a).any():",
        "    a = a - a.min()",
        "return torch.from_numpy(a)",
    ],
    "a product of parentheses": ["return 3 * torch.from_numpy(x.numpy() + 1) ** 2"],
    "rows repeated": [
        "return torch.from_numpy(np.repeat(x.numpy(), 2, axis=0)), torch.tensor(np.roll(x.numpy(), 1, axis=1))"
    ],
}


@pytest.mark.parametrize("lines", SAME.values(), ids=SAME.keys())
def test_torch_computes_what_numpy_did(lines: list[str]) -> None:
    text = body(*lines)
    new = rewritten(text)
    assert new is not None and "numpy()" not in new
    for dtype in (torch.float32, torch.float64):
        x, y = (torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)).to(dtype) for seed in (0, 1))
        before, after = run(text, x, y), run(new, x, y)
        pairs = zip(before, after, strict=True) if isinstance(before, tuple) else [(before, after)]
        for one, other in pairs:
            if isinstance(one, torch.Tensor):
                torch.testing.assert_close(other, one)
            else:
                assert other == pytest.approx(one) and type(other) in (type(one), torch.Size)


def test_what_was_copied_is_a_copy_still() -> None:
    text = body("a = x.numpy()", "b = torch.tensor(a)", "b[0] = 0", "return torch.from_numpy(a)")
    new = rewritten(text)
    assert new is not None
    x = torch.ones(2, 2)
    torch.testing.assert_close(run(new, x, x), run(text, x, x))


def test_what_was_no_copy_is_none(tmp_path: Path) -> None:
    text = body("a = x.detach().numpy()", "a[0] = 5", "return x + 1, torch.from_numpy(a * 1)")
    new = rewritten(text)
    assert new is not None
    x = torch.ones(2, 2)
    torch.testing.assert_close(run(new, x, x), run(text, x, x))


def test_a_backward_that_could_not_be_differentiated_can_be() -> None:
    text = (
        "import numpy\nimport torch\n\n\nclass Cube(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        ctx.save_for_backward(x)\n"
        "        return torch.from_numpy(numpy.power(x.detach().numpy(), 3))\n\n"
        "    @staticmethod\n    def backward(ctx, g):\n        (x,) = ctx.saved_tensors\n"
        "        return torch.tensor(3 * g.numpy() * x.detach().numpy() ** 2)\n\n\nf = Cube.apply\n"
    )
    new = rewritten(text)
    assert new is not None and "numpy()" not in new
    assert "return 3 * g * x.detach() ** 2" in new  # detached by its author: it stays so


def test_an_array_that_waits_on_ctx_becomes_a_tensor_in_both_methods() -> None:
    text = (
        "import numpy as np\nimport torch\n\n\nclass Relu(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        a = x.detach().numpy()\n        ctx.mask = a > 0\n"
        "        return torch.from_numpy(np.maximum(a, 0))\n\n"
        "    @staticmethod\n    def backward(ctx, g):\n        return torch.from_numpy(g.numpy() * ctx.mask)\n\n\n"
        "def f(x, y):\n    x.requires_grad_()\n    (Relu.apply(x) * y).sum().backward()\n    return x.grad\n"
    )
    new = rewritten(text)
    assert new is not None and "numpy()" not in new
    x, y = torch.randn(3, 2), torch.randn(3, 2)
    torch.testing.assert_close(run(new, x, y), run(text, x, y))


DECLINED = {
    "it is returned as an array": ["a = x.numpy()", "return a, torch.from_numpy(a + 1)"],
    "it goes to somebody else": ["a = x.numpy()", "print(a)", "return torch.from_numpy(a + 1)"],
    "it is formatted": ["a = x.numpy()", "s = f'{a.sum()}'", "return torch.from_numpy(a + 1)"],
    "random numbers": ["a = x.numpy()", "return torch.from_numpy(a + np.random.randn(*a.shape))"],
    "a function that torch has not": ["return torch.from_numpy(np.nextafter(x.numpy(), 1))"],
    "a median, which is another one": ["return torch.tensor(np.median(x.numpy()))"],
    "the order of ties": ["return torch.from_numpy(np.argsort(x.numpy()))"],
    "a name that is a tensor elsewhere": ["a = x.numpy()", "b = torch.from_numpy(a + 1)", "a = b", "return a"],
    "a reversed view": ["return torch.tensor(x.numpy()[::-1])"],
    "an unknown keyword": ["return torch.tensor(np.sum(x.numpy(), dtype=np.float64))"],
    "out=": ["a = x.numpy()", "np.exp(a, out=a)", "return torch.from_numpy(a)"],
    "a function inside": ["a = x.numpy()", "g = lambda i: a[i]", "return torch.from_numpy(a + g(0))"],
    "an array that is looped over": [
        "a = x.numpy()",
        "s = 0",
        "for row in a:",
        "    s = s + row",
        "return torch.from_numpy(a)",
    ],
}


@pytest.mark.parametrize("lines", DECLINED.values(), ids=DECLINED.keys())
def test_nothing_is_proposed_where_a_tensor_might_not_do(lines: list[str]) -> None:
    assert rewritten(body(*lines)) is None


def test_a_comment_is_not_lost() -> None:
    text = body("a = x.numpy()  # as it comes", "return torch.from_numpy(", "    np.exp(  # e", "        a)", ")")
    new = rewritten(text)
    assert new is None or ("# as it comes" in new and "# e" in new)
