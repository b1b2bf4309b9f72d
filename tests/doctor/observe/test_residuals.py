"""A residual is an output of the Function behind a custom gradient, and nobody hands it a cotangent."""

from collections.abc import Callable
from pathlib import Path

import torch

import gradwright as gw
from gradwright.functions.custom_gradient.call import handed_out

SCRIPT = """
import torch
import gradwright as gw

@gw.custom_gradient
def standard(x, gain):
    r = 1 / x.norm()
    z = x * r
    return z * gain, gw.residuals(z=z, r=r)

@standard.backward
def _(cotangent, gain, z, r):
    of_z = cotangent * gain
    return r * (of_z - z * (of_z * z).sum()), FACTOR * (cotangent * z).sum(0)

x, gain = torch.randn(6, 4, requires_grad=True), torch.ones(4, requires_grad=True)
y = standard(x, ASKED)
raise RuntimeError("before any backward")
"""


def _died(run: Callable, path: Path, factor: str = "1", asked: str = "gain") -> set[str]:
    script = path / "train.py"
    script.write_text(SCRIPT.replace("FACTOR", factor).replace("ASKED", asked))
    return set(run(script, fix_seconds=0.0).codes)


def test_a_script_that_dies_before_its_backward_hears_nothing_of_residuals(run: Callable, tmp_path: Path) -> None:
    assert _died(run, tmp_path) == {"GW901"}


def test_a_wrong_backward_of_residuals_is_found_without_a_backward(run: Callable, tmp_path: Path) -> None:
    assert _died(run, tmp_path, factor="2") == {"GW901", "GW101"}


def test_the_same_where_an_argument_was_given_by_name(run: Callable, tmp_path: Path) -> None:
    assert _died(run, tmp_path, asked="gain=gain") == {"GW901"}


def test_what_a_caller_is_handed_of_a_call() -> None:
    met: list[tuple[bool, ...] | None] = []
    original = torch.autograd.Function.__dict__["apply"]

    @gw.custom_gradient
    def halves(x: torch.Tensor) -> object:
        root = x.abs().sqrt()
        return x / 2, root / 2, gw.residuals(root=root)

    @halves.backward
    def _(cotangents: tuple[torch.Tensor, torch.Tensor], root: torch.Tensor) -> torch.Tensor:
        return cotangents[0] / 2 + cotangents[1] / (4 * root)

    def apply(cls: type[torch.autograd.Function], *args: object) -> object:
        result = original.__get__(None, cls)(*args)
        met.append(handed_out(args, result))
        return result

    torch.autograd.Function.apply = classmethod(apply)  # type: ignore[method-assign, assignment]
    try:
        halves(torch.ones(3, requires_grad=True))
        halves(x=torch.ones(3, requires_grad=True))
    finally:
        torch.autograd.Function.apply = original  # type: ignore[method-assign]
    assert met == [(True, True, False, False), (True, True, False)]
    assert handed_out((1,), (torch.ones(2), torch.ones(2))) is None
    assert handed_out((1,), torch.ones(2)) is None
