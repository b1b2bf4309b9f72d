"""The context manager: what it prints, when it stops, and that it leaves nothing behind."""

import gc
import threading
import weakref

import pytest
import torch
from torch.optim.optimizer import _global_optimizer_post_hooks
from torch.overrides import _get_current_function_mode_stack

import gradwright as gw
from gradwright.checking.nonfinite import explain_nonfinite


def nan_in_the_backward() -> torch.Tensor:
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    torch.where(x > 0, x.log(), 0.0).sum().backward()
    return x


def test_it_is_told_on_standard_error_as_soon_as_it_is_found(capsys) -> None:
    with gw.explain_nonfinite() as watch:
        nan_in_the_backward()
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err == watch.report
        assert told.err.startswith("gradwright: NaN begins in the backward of log (LogBackward0)\n  where  ")
        assert "\x1b" not in told.err
        nan_in_the_backward()
    assert capsys.readouterr().err == ""


def test_the_report_reads_as_a_person_would_tell_it() -> None:
    with explain_nonfinite(echo=False) as watch:
        nan_in_the_backward()
    head, where, what, *_, do = watch.report.splitlines()
    assert head == "gradwright: NaN begins in the backward of log (LogBackward0)"
    assert where.endswith(", in nan_in_the_backward: x.log()")
    assert what == "  what   the gradient it returns: entry [1] of [2] is NaN (operand 0, gradient that arrives 0)"
    assert do == "  do     guard the operand too: torch.where(ok, f(torch.where(ok, x, 1)), other)"
    assert str(watch) == watch.report


def test_a_gradient_is_what_it_is_without_the_watch() -> None:
    with explain_nonfinite(echo=False):
        x = nan_in_the_backward()
    assert torch.equal(torch.nan_to_num(x.grad, 7.0), torch.tensor([1.0, 7.0]))


def test_everything_is_as_it_was_afterwards() -> None:
    engine, modes = torch.autograd._engine_run_backward, _get_current_function_mode_stack()  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError), explain_nonfinite(echo=False):
        assert torch.autograd._engine_run_backward is not engine  # type: ignore[attr-defined]
        nan_in_the_backward()
        1 / 0  # noqa: B018 - an error of the user's
    assert torch.autograd._engine_run_backward is engine  # type: ignore[attr-defined]
    assert _get_current_function_mode_stack() == modes
    assert not _global_optimizer_post_hooks


class Marker:
    """Lives as long as the node that holds it."""


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, markers):
        ctx.marker = Marker()
        markers.append(weakref.ref(ctx.marker))
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2, None


def test_no_graph_and_no_tensor_outlives_it() -> None:
    markers: list[weakref.ref[Marker]] = []
    gc.collect()
    gc.disable()  # a cycle would need the collector
    try:
        with explain_nonfinite(echo=False) as watch:
            x = torch.ones(3, requires_grad=True)
            y = Marked.apply(x, markers).log()
            z = y.masked_fill(y > 0, -torch.inf).exp().sum()
            z.backward(retain_graph=True)
            gone = [weakref.ref(one) for one in (x, y, z)]
            del x, y, z
            assert [one() for one in gone] == [None] * 3
            assert [one() for one in markers] == [None]
        assert watch.first is None
    finally:
        gc.enable()


def test_an_error_in_a_backward_passes_through_and_the_watch_goes_on() -> None:
    with explain_nonfinite(echo=False) as watch:
        x = torch.ones(2, requires_grad=True)
        loss = (x * x).sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        nan_in_the_backward()
    assert watch.first is not None and watch.first.kind == "where-nan"


def test_one_inside_another_both_find_it() -> None:
    with explain_nonfinite(echo=False) as outer, explain_nonfinite(echo=False) as inner:
        nan_in_the_backward()
    assert inner.first is not None and outer.first is not None
    assert inner.first.kind == outer.first.kind == "where-nan"


def test_another_thread_is_left_alone() -> None:
    with explain_nonfinite(echo=False) as watch:
        thread = threading.Thread(target=nan_in_the_backward)
        thread.start()
        thread.join()
    assert watch.first is None


def test_it_may_be_switched_off_and_on() -> None:
    with explain_nonfinite(echo=False) as watch:
        watch.on = False
        nan_in_the_backward()
        assert watch.first is None
        watch.on = True
        nan_in_the_backward()
    assert watch.first is not None and watch.first.backward_call == 0


def test_the_backward_call_is_counted() -> None:
    with explain_nonfinite(echo=False) as watch:
        for value in (2.0, 1.0, 0.0):
            torch.tensor(value, requires_grad=True).sqrt().backward()
    assert watch.first is not None and watch.first.backward_call == 2


def test_a_fault_of_ours_is_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("ours")

    monkeypatch.setattr("gradwright.checking.nonfinite.operations_watch._look", broken)
    with explain_nonfinite(echo=False) as watch:
        nan_in_the_backward()
    assert watch.faults[0] == "ValueError: ours"


def test_a_gradient_that_a_hook_mends_is_no_finding() -> None:
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    x.register_hook(lambda g: torch.nan_to_num(g))
    with explain_nonfinite(echo=False) as watch:
        torch.where(x > 0, x.log(), 0.0).sum().backward()
    assert watch.first is None
    assert torch.equal(x.grad, torch.tensor([1.0, 0.0]))


def test_where_anomaly_mode_ends_the_backward_the_place_is_told_all_the_same() -> None:
    x = torch.zeros(3, requires_grad=True)
    with (
        explain_nonfinite(echo=False) as watch,
        pytest.warns(UserWarning, match="Anomaly|Error detected"),
        torch.autograd.set_detect_anomaly(True),
        pytest.raises(RuntimeError, match="PowBackward0"),
    ):
        (x**2).sum().sqrt().backward()
    assert watch.first is not None
    assert watch.first.operation == "sqrt (SqrtBackward0)"


def test_compiled_code_is_left_alone_and_compiles_whole() -> None:
    double = torch.compile(lambda x: (x * 2).relu(), backend="eager", fullgraph=True)
    x = torch.ones(2, requires_grad=True)
    with explain_nonfinite(echo=False) as watch:
        double(x).sum().backward()
        assert watch.first is None
        (double(x) / torch.zeros(2)).sum().backward()
    assert torch.equal(x.grad, torch.tensor([torch.inf, torch.inf]))
    assert watch.first is not None and watch.first.kind == "division-by-zero"
    assert watch.faults == []
