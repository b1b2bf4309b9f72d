"""A gradient that is NaN where the values are finite is found, at its operation, and mended: same values everywhere."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gradwright.doctor.probe import boundaries
from gradwright.doctor.probe.attempts import Limits
from gradwright.doctor.rewrite import propose
from gradwright.doctor.rules.numerics.derivative_undefined_at_boundary import judge
from gradwright.doctor.rules.rule import Facts
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location
from gradwright.ground.forked import Outcome


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here needs a process of its own, which takes half a second."""
    monkeypatch.setattr(boundaries, "attempt", lambda work, limits: Outcome("returned", work()))


HEAD = "import torch\n\n\ndef f(x):\n"


def text(body: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in body.split("\n"))


def at_zero() -> torch.Tensor:
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    x[0], x[1, 1] = 0.0, 0.0
    return x.requires_grad_()


def function_of(body: str, path: Path) -> Callable:
    path.write_text(body)
    room: dict = {}
    exec(compile(body, str(path), "exec"), room)
    return room["f"]


def mended(body: str, folder: Path) -> tuple[list[str], Callable, Callable] | None:
    """New lines, the function before and after; None if nothing is found. Raises if it is not mended."""
    subject = Subject("callable:f", "callable", "f", Location("f.py", 4))
    before = function_of(text(body), folder / "before.py")
    facts = list(boundaries.undefined_gradients(subject, before, (at_zero(),), ("x",), Limits()))
    findings = list(judge(subject, Facts(facts, subject)))
    if not findings:
        return None
    (proposal,) = propose(
        "guard_boundary", findings[0], [fact for fact in facts if fact.id in findings[0].evidence], text(body)
    )
    lines = [one[1:].strip() for one in proposal.diff.splitlines() if one[:1] == "+" and one[:3] != "+++"]
    return lines, before, function_of(proposal.new_text, folder / "after.py")


MENDED = {
    "return torch.sqrt((x**2).sum(-1))": ["return torch.linalg.vector_norm(x, dim=-1)"],
    "return (x * x).sum(1, keepdim=True).sqrt()": ["return torch.linalg.vector_norm(x, dim=1, keepdim=True)"],
    "return torch.sum(x.pow(2), dim=-1) ** 0.5": ["return torch.linalg.vector_norm(x, dim=-1)"],
    "d = x[:, None] - x\nreturn torch.square(d).sum(-1).sqrt()": [
        "return torch.linalg.vector_norm(d, dim=-1)",
    ],
    "s = x * x * 3\nreturn torch.sqrt(s)": [
        "return torch.where(s == 0, 0, torch.sqrt(torch.where(s == 0, 1, s)))",
    ],
    "return 1 + torch.sqrt(x * x * 3)": [
        "radicand = x * x * 3",
        "return 1 + torch.where(radicand == 0, 0, torch.sqrt(torch.where(radicand == 0, 1, radicand)))",
    ],
    "return torch.where(x > 0, torch.log(x) * x, 0.0)": [
        "return torch.where(x > 0, torch.log(torch.where(x > 0, x, 1)) * x, 0.0)",
    ],
    "return torch.where(x == 0, torch.ones_like(x), torch.sin(x) / x)": [
        "return torch.where(x == 0, torch.ones_like(x), torch.sin(x) / torch.where(x == 0, 1, x))",
    ],
    "return torch.where(x != 0, x / x.abs(), 0)": [
        "return torch.where(x != 0, x / torch.where(x != 0, x.abs(), 1), 0)",
    ],
    "return torch.where(x > 0, x.abs().sqrt(), x)": [
        "return torch.where(x > 0, torch.where(x > 0, x.abs(), 1).sqrt(), x)",
    ],
}


@pytest.mark.parametrize("body", MENDED)
def test_the_operation_is_found_and_mended(body: str, tmp_path: Path) -> None:
    lines, before, after = mended(body, tmp_path)
    assert lines == MENDED[body]
    x = at_zero()
    broken, whole = (torch.autograd.grad(f(x).sum(), x)[0] for f in (before, after))
    assert broken.isnan().any() and whole.isfinite().all()
    elsewhere = broken.isfinite()
    assert torch.allclose(broken[elsewhere], whole[elsewhere], rtol=1e-5)


@pytest.mark.parametrize("body", MENDED)
def test_the_values_stay_what_they_are(body: str, tmp_path: Path) -> None:
    _, before, after = mended(body, tmp_path)
    for awkward in (at_zero().detach(), -torch.ones(4, 3), torch.tensor([[float("nan"), -1.0, float("inf")]]),
                    torch.full((2, 3), 1e-30), torch.zeros(0, 3)):  # fmt: skip
        torch.testing.assert_close(after(awkward), before(awkward), equal_nan=True, rtol=1e-5, atol=1e-29)


RIGHT = {
    "a norm": "return torch.linalg.vector_norm(x, dim=-1)",
    "a root that never meets 0": "return torch.sqrt(x * x + 1e-6)",
    "a slope that is infinite, not NaN": "return x.abs().sum(1)[1:].clamp(min=0) + x[1:, 2].abs().sqrt()",
    "a double where": "return torch.where(x > 0, torch.log(torch.where(x > 0, x, 1)), 0)",
    "a result that is not finite": "return torch.log(x.abs())",
}


@pytest.mark.parametrize("body", RIGHT.values(), ids=list(RIGHT))
def test_a_gradient_that_exists_is_no_finding(body: str, tmp_path: Path) -> None:
    assert mended(body, tmp_path) is None


def test_what_has_no_known_form_is_told_and_not_mended(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not enough values"):
        mended("return torch.acos(1 - x * x).sum()", tmp_path)


def test_a_root_under_a_condition_gets_no_line_above_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not enough values"):
        mended("return torch.sqrt(x * x * 3) if x.dim() else x", tmp_path)
