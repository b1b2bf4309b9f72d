"""Functions as they are called: bounded in memory, told apart by what is around them, left out on request."""

import os

import pytest
import torch
from tests import stand_in_device
from tests.stand_in_device import on_stand_in_device
from torch._subclasses.fake_tensor import FakeTensorMode

import gradwright as gw
from gradwright.doctor.observe.specimens import SpecimenStore
from gradwright.testing.diagnosed import watched
from gradwright.testing.diagnosed.record import TestRecord
from gradwright.testing.diagnosed.watched import PER_DEFINITION, FunctionsOfTests


def scaled_by(factor, wrong=0):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * factor

        @staticmethod
        def backward(ctx, cotangent):
            return cotangent * (factor + wrong)

    return Scaled


class Picky(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        if x.shape[0] == 1:
            raise ValueError("one")
        return x * 2

    @staticmethod
    def backward(ctx, cotangent):
        if cotangent.shape[0] == 2:
            raise ValueError("two")
        return cotangent * 2


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


@pytest.fixture
def record():
    return TestRecord()


@pytest.fixture
def store():
    return SpecimenStore()


@pytest.fixture
def functions(record, store):
    faults = []
    functions = FunctionsOfTests(record, store, faults.append)
    functions.install()
    yield functions
    functions.remove()
    assert faults == []


def test_ten_thousand_local_classes_are_a_few_subjects_that_are_told_apart(functions, record, store):
    classes = []
    for number in range(300):
        record.began(f"test[{number}]", left_out=False)
        scaled_by(number).apply(leaf(2)).sum().backward()
        classes += [scaled_by(number)]
        record.ended()
    ids = [use.subject.id for use in functions.uses.values()]
    assert len(ids) == len(set(ids)) == PER_DEFINITION
    assert all(len(store.of(one)) == 1 and store.of(one)[0].cotangents is not None for one in ids)
    gap = next(gap for gap in functions.not_examined() if gap.what.endswith("scaled_by.Scaled"))
    assert gap.what.startswith(f"{300 - PER_DEFINITION} further classes")


def test_the_functions_of_a_session_are_bounded(functions, monkeypatch):
    monkeypatch.setattr(watched, "MOST", 1)
    Picky.apply(leaf(3))
    scaled_by(1).apply(leaf(3))
    assert [use.function for use in functions.uses.values()] == [Picky]
    assert any(gap.what == "1 further class scaled_by.Scaled" for gap in functions.not_examined())


def test_classes_that_differ_in_what_is_around_them_are_each_tried(functions):
    for wrong in (0, 1):
        for _ in range(3):
            scaled_by(2, wrong).apply(leaf(2))
    assert len(functions.uses) == 2


def test_a_function_knows_its_tests(functions, record):
    for number in range(5):
        record.began(f"test[{number}]", left_out=False)
        Picky.apply(leaf(3))
        Picky.apply(leaf(3))
        record.ended()
    callers = record.callers[Picky]
    assert (callers.first, callers.count) == (["test[0]", "test[1]", "test[2]"], 5)
    assert 0 < record.share(Picky, callers.seconds / 2) == pytest.approx(0.5)
    assert record.share(scaled_by(1), 1.0) == 0.0


def run_picky(functions, record, *, failed):
    record.began("test", left_out=False)
    with pytest.raises(ValueError, match="one"):
        Picky.apply(leaf(1))
    with pytest.raises(ValueError, match="two"):
        Picky.apply(leaf(2)).sum().backward()
    Picky.apply(leaf(3)).sum().backward()
    record.current.failed = failed
    functions.withdraw(record.ended())


def test_inputs_of_calls_that_raised_as_expected_are_no_specimens(functions, record, store):
    run_picky(functions, record, failed=False)
    (use,) = functions.uses.values()
    kept = store.of(use.subject.id)
    assert [one.args[0].shape[0] for one in kept] == [3]
    assert store.bytes == 3 * 4 + 4  # its input, and its cotangent, which is expanded
    Picky.apply(leaf(4))
    ids = [one.about.id for one in store.of(use.subject.id)]
    assert ids == [f"{use.subject.id}#2", f"{use.subject.id}#3"]


def test_of_a_test_that_failed_they_stay(functions, record, store):
    run_picky(functions, record, failed=True)
    (use,) = functions.uses.values()
    assert [one.args[0].shape[0] for one in store.of(use.subject.id)] == [1, 2, 3]


def test_an_exception_inside_of_an_outer_function_takes_only_what_raised(functions, record, store):
    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            Picky.apply(leaf(3))
            raise ValueError("outer")

    record.began("test", left_out=False)
    with pytest.raises(ValueError, match="outer"):
        Outer.apply(leaf(5))
    functions.withdraw(record.ended())
    assert [len(store.of(use.subject.id)) for use in functions.uses.values()] == [0, 1]


def test_a_marked_test_leaves_its_functions_out_unless_others_call_them(functions, record):
    record.began("test_marked", left_out=True)
    Picky.apply(leaf(3))
    scaled_by(1).apply(leaf(3))
    record.ended()
    assert functions.uses == {}
    record.began("test_plain", left_out=False)
    Picky.apply(leaf(3))
    record.ended()
    assert [use.function for use in functions.uses.values()] == [Picky]
    told = {gap.what: gap.why for gap in functions.not_examined()}
    assert "(test_marked)" in told["scaled_by.Scaled"] and "Picky" not in told


def test_a_function_that_no_test_calls_is_told(functions):
    unused = scaled_by(1)
    told = {gap.what: gap.why for gap in functions.not_examined()}
    assert told["scaled_by.Scaled"].startswith("no test called it")
    assert "Picky" in told  # by this test
    del unused


def test_what_has_no_values_is_counted_and_not_kept(functions, store):
    with FakeTensorMode():
        Picky.apply(torch.ones(3, requires_grad=True))
    Picky.apply(torch.ones(3, device="meta", requires_grad=True))
    (use,) = functions.uses.values()
    assert use.forward_calls == use.tracked_calls == 2
    assert store.of(use.subject.id) == []


@on_stand_in_device
def test_of_what_is_called_in_the_capture_of_a_cuda_graph_nothing_is_kept() -> None:
    x = torch.ones(3, device=stand_in_device.SECOND)
    assert not watched._no_specimen((x,))
    stand_in_device.begin_a_capture()
    assert watched._no_specimen((x,)) and not watched._no_specimen((torch.ones(3),))


def test_what_our_own_check_tries_is_no_specimen(functions, store):
    Picky.apply(leaf(3))
    checked = scaled_by(3)
    gw.check(checked, leaf(4), level="quick")
    gw.check(Picky, leaf(3), level="quick")
    kept = {use.function: len(store.of(use.subject.id)) for use in functions.uses.values()}
    assert kept == {Picky: 1, checked: 0}
    assert {use.function for use in functions.uses.values() if use.subject.id in functions.checked} == {Picky, checked}


def test_a_forked_child_is_not_watched(functions, store):
    pid = os.fork()
    if pid == 0:
        Picky.apply(leaf(3))
        os._exit(len(functions.uses))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    Picky.apply(leaf(3))
    assert len(functions.uses) == 1


def test_it_is_taken_off_without_a_trace():
    before = torch.autograd.Function.__dict__["apply"], dict(vars(torch.autograd.function.BackwardCFunction))
    functions = FunctionsOfTests(TestRecord(), SpecimenStore(), print)
    functions.install()
    assert torch.autograd.Function.__dict__["apply"] is not before[0]
    functions.remove()
    assert torch.autograd.Function.__dict__["apply"] is before[0]
    assert dict(vars(torch.autograd.function.BackwardCFunction)) == before[1]
