"""Calls through an ``apply`` that was bound before the watching began."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.autograd import Function

from gradwright.doctor.observe.bound_earlier import bound_earlier_seen
from gradwright.doctor.observe.clock import Clock
from gradwright.doctor.observe.watch import Watch
from gradwright.doctor.session.facts import FunctionCalls
from gradwright.doctor.session.journal import Journal, fold

in_python = pytest.mark.skipif(
    not hasattr(Function.__dict__["apply"], "__func__"), reason="this torch has Function.apply in C: see test_any_torch"
)


class Triple(Function):
    @staticmethod
    def forward(ctx, x, by=3.0):
        ctx.by = by
        return x * by

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.by, None


def calls_seen(tmp_path: Path, *, through: bool) -> tuple[int, list[float]]:
    bound = Triple.apply
    x = torch.ones(2, requires_grad=True)
    with Journal(tmp_path / "journal") as journal:
        if through:
            with bound_earlier_seen() as able, Watch(journal, Clock(), whole_script=False):
                assert able
                bound(x).sum().backward()
                Triple.apply(x).sum().backward()
        else:
            with Watch(journal, Clock(), whole_script=False):
                bound(x).sum().backward()
                Triple.apply(x).sum().backward()
    assert x.grad is not None
    return sum(fact.forward_calls for fact in fold(tmp_path / "journal").of(FunctionCalls)), x.grad.tolist()


@in_python
def test_a_bound_apply_is_seen_once_and_computes_the_same(tmp_path: Path) -> None:
    assert calls_seen(tmp_path, through=True) == (2, [6.0, 6.0])


def test_without_it_only_the_call_by_its_name_is_seen(tmp_path: Path) -> None:
    assert calls_seen(tmp_path, through=False) == (1, [6.0, 6.0])


@in_python
def test_everything_is_as_it_was_afterwards_whatever_happens() -> None:
    entry, code = Function.__dict__["apply"], Function.__dict__["apply"].__func__.__code__
    bound = Triple.apply
    with pytest.raises(ZeroDivisionError), bound_earlier_seen():
        assert Function.__dict__["apply"] is not entry
        raise ZeroDivisionError
    assert Function.__dict__["apply"] is entry and entry.__func__.__code__ is code
    assert bound(torch.ones(1)).item() == 3.0


def test_somebody_elses_stand_in_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = classmethod(lambda cls, *args: "theirs")
    monkeypatch.setattr(Function, "apply", theirs)
    with bound_earlier_seen() as able:
        assert not able and Function.__dict__["apply"] is theirs
