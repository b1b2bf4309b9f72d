"""How do I know that my backward is right? Planted faults, and who finds them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import gradwright as gw
from corpora.asked.answer import TUTORIAL, Answer, claim


def function_of(backward_of: Callable[[Tensor, Tensor], Tensor], *, detached: bool = False) -> Any:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            ctx.kept = x.detach()
            return x**3

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return backward_of(grad_output, ctx.kept if detached else x)

    return Cube


FAULTS: dict[str, Any] = {
    "right": function_of(lambda g, x: 3 * x**2 * g),
    "the 3 is forgotten": function_of(lambda g, x: x**2 * g),
    "the cotangent is left out": function_of(lambda g, x: 3 * x**2),
    "the cotangent is changed in place": function_of(lambda g, x: g.mul_(3 * x**2)),
    "the cotangent is taken as contiguous: view(-1)": function_of(
        lambda g, x: (3 * x.reshape(-1) ** 2 * g.view(-1)).reshape(x.shape)
    ),
    "the input is kept without its graph": function_of(lambda g, x: 3 * x**2 * g, detached=True),
    "computed in float16": function_of(
        lambda g, x: (3 * x.half() ** 2 * g.half()).to(x.dtype) if x.dtype != torch.float64 else 3 * x**2 * g
    ),
}


def gradcheck_says(function: Any, x: Tensor, *, second: bool) -> str:
    """At torch's own settings, on float64."""
    given = x.double().requires_grad_()
    checks = [torch.autograd.gradcheck] + [torch.autograd.gradgradcheck] * second
    try:
        passes = all(check(function.apply, given, raise_exception=False) for check in checks)
    except RuntimeError:  # of the backward's, in gradgradcheck
        return "raises"
    return "passes" if passes else "fails"


def measure(rounds: int, quick: bool) -> Answer:
    torch.manual_seed(0)
    x = torch.randn(4, 3)
    rows: dict[str, dict[str, object]] = {}
    gradcheck_says(FAULTS["right"], x, second=True)  # the first calls load what they need
    gw.check(FAULTS["right"], x)
    for name, function in FAULTS.items():
        started = time.process_time()
        once = gradcheck_says(function, x, second=False)
        half = time.process_time()
        twice = gradcheck_says(function, x, second=True)
        middle = time.process_time()
        report = gw.check(function, x)
        ended = time.process_time()
        rows[name] = {
            "gradcheck": once,
            "with gradgradcheck": twice,
            "gw.check": ", ".join(dict.fromkeys(finding.code for finding in report.findings)) or "passes",
            "gradcheck_ms": round((half - started) * 1e3, 1),
            "gw.check_ms": round((ended - middle) * 1e3),
        }
    assert rows["right"]["gw.check"] == "passes", rows["right"]
    wrong = [name for name in rows if name != "right"]
    missed = sum(rows[name]["gradcheck"] == "passes" for name in wrong)
    found = sum(rows[name]["gw.check"] != "passes" for name in wrong)
    told = f"of {len(wrong)} wrong backwards gradcheck finds {len(wrong) - missed}, gw.check {found}"
    return Answer(
        "Who finds a wrong backward",
        rows,
        {
            "prints in the backward show whether it is right": claim(
                TUTORIAL, missed == 0, f"{told}; a print shows numbers, not whether they are right"
            )
        },
    )
