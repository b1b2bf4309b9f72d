"""While taps are entered they count, gather and send; otherwise nothing happens."""

import math
import threading

import pytest
import torch
from torch import nn

from gradwright.errors import UsageError
from gradwright.functions.tap import placed, session, tap, taps


def test_off_nothing_is_looked_at(monkeypatch):
    def forbidden(*_):
        raise AssertionError("looked")

    monkeypatch.setattr(placed, "_show", forbidden)
    x = torch.ones(2, requires_grad=True) * 1
    assert tap("hidden", x) is x and not x._backward_hooks
    with taps(), pytest.raises(AssertionError, match="looked"):
        tap("hidden", x)


def test_after_the_end_gradients_are_not_measured():
    x = torch.ones(2, requires_grad=True)
    with taps() as seen:
        y = tap("hidden", x * 2)
        tap("leaf", x)
    y.sum().backward()
    assert {row.direction for row in seen.rows} == {"forward"} and not session.ACTIVE


def test_an_exception_inside_ends_the_taps_too():
    with pytest.raises(KeyError), taps() as seen:
        tap("hidden", torch.ones(1))
        raise KeyError
    assert len(seen.passages) == 1 and not session.ACTIVE


@pytest.mark.parametrize("placed_every", [None, 2], ids=["session's", "tap's own"])
def test_every_nth_passage_is_measured_with_its_gradient(placed_every):
    leaf = torch.ones(2, requires_grad=True)
    with taps(every=3 if placed_every is None else 1) as seen:
        for _ in range(7):
            (tap("node", leaf * 2, every=placed_every) * tap("leaf", leaf, every=placed_every)).sum().backward()
    expected = list(range(0, 7, placed_every or 3))
    for name in ("node", "leaf"):
        for direction in ("forward", "backward"):
            got = [p.number for p in seen.passages if (p.name, p.direction) == (name, direction)]
            assert got == expected, (name, direction)


def test_the_table_is_over_all_passages_whatever_is_kept():
    with taps(keep=2) as seen:
        for k in range(150):
            tap("x", torch.tensor([float(k), 0.0]))
    assert [passage.maximum for passage in seen.passages] == [148.0, 149.0]
    (row,) = seen.rows
    assert (row.passages, row.combined.maximum, row.combined.minimum) == (150, 149.0, 0.0)
    assert (row.combined.elements, row.combined.zeros) == (300, 151)
    assert row.mean_norm == pytest.approx(sum(range(150)) / 150)
    assert row.combined.mean == pytest.approx(sum(range(150)) / 300)
    assert row.combined.norm == pytest.approx(math.sqrt(sum(k * k for k in range(150))))
    assert row.latest == seen.passages[-1]


def test_an_axis_that_varies_is_left_open():
    with taps() as seen:
        for shape in ((4, 3), (5, 3)):
            tap("batch", torch.ones(shape))
        tap("axes", torch.ones(2))
        tap("axes", torch.ones(2, 1, dtype=torch.float64))
    assert [(row.shape, row.dtype) for row in seen.rows] == [((None, 3), "float32"), (None, "mixed")]


def test_an_empty_passage_does_not_spoil_the_mean():
    with taps() as seen:
        for size in (0, 4, 0):
            tap("x", torch.ones(size))
    assert seen.rows[0].mean_norm == 2.0 and seen.rows[0].combined.minimum == 1.0


def test_taps_may_be_nested_and_entered_again():
    with taps() as outer:
        with taps() as inner:
            tap("x", torch.ones(1))
        tap("x", torch.ones(1))
    with outer:
        tap("x", torch.ones(1))
    assert (outer.rows[0].passages, inner.rows[0].passages) == (3, 1)


def test_taps_that_are_entered_are_not_entered_twice():
    seen = taps()
    with seen, pytest.raises(UsageError, match="entered already"), seen:
        pass
    assert not session.ACTIVE


def test_a_callback_gets_every_passage_in_order():
    got = []
    x = torch.ones(2, requires_grad=True)
    with taps(got.append) as seen:
        tap("b", tap("a", x * 1) * 2).sum().backward()
    assert tuple(got) == seen.passages
    assert [(p.name, p.direction) for p in got] == [
        ("a", "forward"), ("b", "forward"), ("b", "backward"), ("a", "backward"),
    ]  # fmt: skip


def test_a_callback_may_stop_the_run_at_the_first_nan():
    class Stop(Exception):
        pass

    def stop_at_nan(passage):
        if passage.nans:
            raise Stop(f"{passage.name} {passage.direction}")

    x = torch.zeros(1, requires_grad=True)
    with pytest.raises(Stop, match="root backward"), taps(stop_at_nan):
        (tap("root", x * 1).sqrt() * 0).sum().backward()


def test_a_callback_may_contain_taps_and_read_the_table():
    def nosy(passage):
        tap("inner", torch.ones(1))
        assert seen.rows

    with taps(nosy) as seen:
        tap("outer", torch.ones(1))
    assert [row.name for row in seen.rows] == ["outer"]


def test_a_callback_may_run_a_backward_of_its_own():
    x = torch.ones(1, requires_grad=True)
    y = []

    def back(passage):
        if y:
            y.pop().backward()

    with taps(back) as seen:
        y.append(tap("x", x * 2))
        tap("go", torch.ones(1))
    assert x.grad.tolist() == [2.0] and len(seen.passages) == 2  # the gradient came while a tap was at work


def test_threads_lose_no_passage():
    got = []

    def work(name):
        x = torch.ones(8, requires_grad=True)
        for _ in range(40):
            tap(name, x * 2).sum().backward()

    with taps(got.append) as seen:
        threads = [threading.Thread(target=work, args=(f"t{k % 2}",)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [(row.name, row.passages) for row in sorted(seen.rows, key=lambda row: row.name)] == [
        ("t0", 80), ("t0", 80), ("t1", 80), ("t1", 80),
    ]  # fmt: skip
    assert len(got) == 320 and seen.rows[0].combined.elements == 640


def test_figures_of_another_device_wait_until_they_are_asked_for(monkeypatch):
    import dataclasses

    from gradwright.functions.tap.measuring import measure, read

    monkeypatch.setattr(session, "measure", lambda x: dataclasses.replace(measure(x), is_ready=False))
    monkeypatch.setattr(session, "MOST_WAITING", 3)
    reads: list[int] = []
    monkeypatch.setattr(session, "read", lambda waiting: (reads.append(len(waiting)), read(waiting))[1])  # type: ignore[func-returns-value]
    got = []
    with taps(got.append) as seen:
        tap("x", torch.ones(1))
        tap("x", torch.ones(1))
        assert not reads and not got
        tap("x", torch.ones(1))
        assert reads == [3] and len(got) == 3  # as many as may wait
        tap("x", torch.ones(1))
        assert len(seen.passages) == 4  # asked for
        tap("x", torch.ones(1))
    assert len(got) == 5  # the end


def test_a_tensor_that_cannot_be_measured_for_want_of_memory_does_not_end_the_run(monkeypatch):
    def out_of_memory(tensor):
        raise torch.OutOfMemoryError("no room\nat all")

    monkeypatch.setattr(session, "measure", out_of_memory)
    model = nn.Linear(2, 2)
    with taps() as seen:
        tap("y", model(torch.ones(1, 2))).sum().backward()
    assert [(entry.why, entry.times) for entry in seen.not_seen if entry.times] == [("OutOfMemoryError: no room", 1)]
