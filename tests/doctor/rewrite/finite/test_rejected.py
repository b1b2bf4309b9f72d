"""The trial in a run of the script rejects what is no mending: planted texts, and scripts that are not alike."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gradwright.doctor.rerun.trial import tries
from gradwright.doctor.session.model import Proof
from gradwright.doctor.session.proposal import Twin

TEXT = """import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
x = torch.randn(8, 4)
for step in range(6):
    model.zero_grad()
    out = model(x)
    s = out.abs() * (torch.arange(8)[:, None] != step + 4) if step else out.abs()
    loss = (1 + torch.sqrt(s)).mean()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
"""
OLD = "torch.sqrt(s)"
RIGHT = "torch.where(s == 0, 0, torch.sqrt(torch.where(s == 0, 1, s)))"

WRONG = {
    "another value": ("torch.sqrt(s + 0.1)", "its value at entry"),
    "another value, where it was 0 alone": (
        RIGHT.replace("0, 0,", "0, 2,"),
        "at entry [5, 0] was 0 and is 2",
    ),
    "another value at one entry": ("torch.sqrt(s.clamp(min=s.median()))", "its value at entry"),
    "the same again": ("torch.sqrt(1 * s)", "inf begins in sqrt (SqrtBackward0) at train.py:10 again"),
    "no gradient": ("torch.sqrt(s.detach())", "the gradient behind it at entry"),
    "half the gradient": (f"(lambda r: (r + r.detach()) / 2)({RIGHT})", "the gradient behind it at entry"),
    "a gradient cut off": (f"({RIGHT} + {RIGHT}.detach()) / 2", "the gradient behind it at entry"),
    "an exception": ("torch.sqrt(s.nothing)", "AttributeError"),
    "another shape": ("torch.sqrt(s[None])", "its shape was [8, 4] and is [1, 8, 4]"),
    "another dtype": ("torch.sqrt(s.double())", "its dtype was torch.float32 and is torch.float64"),
    "a NaN let through elsewhere": (f"({RIGHT} * torch.where(s == 0, s / s, 1).nan_to_num(1))", "again"),
}


def planted(run, new: str, **twin: object):
    """The first proposal with another text in its place."""
    (proposal, *_), _ = run.proposals()
    text = TEXT.replace(OLD, new)
    at = text.index(new)
    return replace(proposal, new_text=text, twin=Twin((at, at + len(new)), OLD, new, **twin))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_change_is_rejected_with_its_counterexample(name: str, script: Callable) -> None:
    new, told = WRONG[name]
    run = script(TEXT)
    verdict = run.tried(planted(run, new))
    assert isinstance(verdict, str) and told in verdict, verdict


def test_the_right_one_is_not(script: Callable) -> None:
    run = script(TEXT)
    verdict = run.tried(planted(run, RIGHT))
    assert isinstance(verdict, Proof), verdict
    assert verdict.verdict == "verified" and verdict.worst_error == 0.0
    assert verdict.run == "a run of the script (2 losses until it broke as before, 4 backwards from there on finite)"
    assert verdict.on[0] == "2 losses until it broke as before, worst difference 0 (tolerance 0.001)"


def test_losses_that_change_before_the_break_reject_it_though_the_place_agrees(script: Callable) -> None:
    run = script(TEXT)
    right = planted(run, RIGHT)
    text = right.new_text.replace("p -= 0.01", "p -= 0.02")
    assert run.tried(replace(right, new_text=text)).startswith("the loss of backward 1 was ")


def test_what_is_said_to_be_unused_and_is_used_rejects_it(script: Callable) -> None:
    text = """import torch
torch.manual_seed(0)
w = torch.rand(4, requires_grad=True)
b = torch.tensor([1.0, 2.0, 3.0, 0.0])
for step in range(5):
    q = w / (b + (step < 1))
    loss = torch.exp(-q).sum()
    loss.backward()
    w.data -= 0.1 * w.grad
    w.grad = None
"""
    run = script(text)
    (proposal, *_), why = run.proposals()
    assert proposal.twin.unused, why
    assert run.fact.cause in ("where-nan", "division-by-zero")
    verdict = run.tried(proposal)
    assert isinstance(verdict, str)
    assert "is used where it was not finite" in verdict or "loss of backward" in verdict


def test_a_second_fault_of_the_same_step_is_told_beside_the_fix(script: Callable) -> None:
    text = TEXT.replace("torch.sqrt(s)).mean()", "torch.sqrt(s)).mean() + side(out * (step < 1))")
    text = text.replace("for step", "def side(z):\n    return z.abs().pow(0.25).mean()\n\n\nfor step", 1)
    run = script(text)
    mended = run.mended()
    assert mended.proof is not None, mended.refused
    assert "from there on finite at this place, but inf begins in" in mended.proof.run
    assert "too" in mended.proof.run


def test_runs_that_are_not_alike_try_nothing(script: Callable) -> None:
    run = script(TEXT)
    first = run.answer["of_site"] = run.answer["values"]
    for losses in ([first[0] * 1.01, *first[1:]], [first[0], *(2 * one for one in first[1:])]):
        verdict = tries.Tries(run.request, {}, run.answer, losses, 60.0)(planted(run, RIGHT), 60.0)
        assert isinstance(verdict, str)
        assert verdict.startswith("no change can be tried, as the script's runs are not alike: the loss of backward")


def test_a_script_of_the_systems_own_randomness_has_no_fix(script: Callable) -> None:
    text = TEXT.replace("x = torch.randn(8, 4)", "x = torch.randn(8, 4) + __import__('os').urandom(1)[0]")
    run = script(text)
    verdicts = [run.tried(planted_in(run, text)) for _ in range(3)]
    assert any(isinstance(verdict, str) and "loss of backward" in verdict for verdict in verdicts)


def planted_in(run, text: str):
    (proposal, *_), _ = run.proposals()
    return proposal


def test_no_time_left_is_said(script: Callable) -> None:
    run = script(TEXT)
    verdict = tries.Tries(run.request, {}, run.answer, (), 0.5)(planted(run, RIGHT), 60.0)
    assert verdict == "it was not tried: the time for runs of the script was used up"
