"""Passages go to loggers, to TensorBoard and to callbacks as they are known."""

import logging
import math
from itertools import pairwise

import pytest
import torch

from gradwright.errors import UsageError
from gradwright.functions.tap import tap, taps
from gradwright.functions.tap.sinks import buckets


class Writer:
    """A SummaryWriter, as far as taps know it."""

    def __init__(self):
        self.scalars, self.histograms = {}, {}

    def add_scalar(self, tag, value, global_step=None):
        self.scalars[tag, global_step] = value

    def add_histogram_raw(self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step=None):
        assert len(bucket_limits) == len(bucket_counts) and sorted(bucket_limits) == list(bucket_limits)
        self.histograms[tag, global_step] = (min, max, num, sum, sum_squares, bucket_limits, bucket_counts)


def test_a_logger_gets_a_line_per_passage_and_a_warning_where_it_is_not_finite(caplog):
    logger = logging.getLogger("test.taps")
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with caplog.at_level(logging.INFO, "test.taps"), taps(logger):
        tap("root", x * 1).sqrt().sum().backward()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "tap root forward 0: f32[2] norm 4 min 0 mean 2 max 4 zero 50% NaN 0 inf 0"),
        ("WARNING", "tap root backward 0: f32[2] norm 0.25 min 0.25 mean 0.25 max 0.25 zero 0 NaN 0 inf 50%"),
    ]


def test_a_logger_that_is_not_interested_gets_nothing(caplog):
    with caplog.at_level(logging.WARNING, "test.taps"), taps(logging.getLogger("test.taps")):
        tap("x", torch.ones(1))
    assert not caplog.records


def test_an_adapter_is_a_logger_too(caplog):
    adapter = logging.LoggerAdapter(logging.getLogger("test.taps"), {})
    with caplog.at_level(logging.INFO, "test.taps"), taps(adapter):
        tap("x", torch.ones(1))
    assert len(caplog.records) == 1


def test_tensorboard_gets_scalars_and_a_histogram_per_passage():
    writer = Writer()
    x = torch.tensor([-2.0, 0.0, 3.0, 3.5, math.inf, math.nan], requires_grad=True)
    with taps(writer) as seen:
        for _ in range(2):
            tap("hidden", x * 1).sum().backward()
    tags = {tag for tag, _ in writer.scalars}
    assert tags == {
        f"hidden/{direction}/{word}"
        for direction in ("forward", "backward")
        for word in ("norm", "min", "mean", "max", "share_of_zeros", "share_of_nan", "share_of_inf")
    }
    assert {step for _, step in writer.scalars} == {0, 1}
    assert writer.scalars["hidden/forward/norm", 1] == seen.passages[0].norm
    assert writer.scalars["hidden/forward/share_of_inf", 0] == pytest.approx(1 / 6)
    low, high, count, total, squares, limits, counts = writer.histograms["hidden/forward/values", 1]
    assert (low, high, count) == (-2.0, 3.5, 4)
    assert total == pytest.approx(4.5) and squares == pytest.approx(4 + 9 + 12.25)
    assert limits == [-4.0, -2.0, 2.0, 4.0] and counts == [0, 1, 1, 2]


def test_a_tap_in_a_backward_has_a_tag_without_blanks():
    writer = Writer()
    x = torch.ones(1, requires_grad=True)
    x.register_hook(lambda gradient: tap("g", gradient))
    with taps(writer):
        (x * 2).backward()
    assert ("g/in_backward/norm", 0) in writer.scalars


def test_buckets_hold_every_finite_entry_between_their_limits():
    values = torch.cat(
        [torch.randn(500) * 10.0 ** torch.randint(-12, 12, (500,)), torch.zeros(7), torch.tensor([1e-42])]
    )
    with taps() as seen:
        tap("x", values)
    limits, counts = buckets(seen.passages[0])
    assert sum(counts) == 508 and all(a < b for a, b in pairwise(limits))
    for (low, high), count in zip(pairwise(limits), counts[1:], strict=True):
        inside = ((values > low) & (values <= high)) if high <= 0 else ((values >= low) & (values < high))
        inside |= (values == low) & (low < 0) & (high > 0)  # the one around zero begins at the last negative limit
        edges = int((values == low).sum() + (values == high).sum())  # a power of two may stand on either side
        assert abs(int(inside.sum()) - count) <= edges


def test_zeros_alone_are_one_bucket():
    with taps() as seen:
        tap("x", torch.zeros(3))
    assert buckets(seen.passages[0])[1] == [0, 3]


def test_the_largest_doubles_have_a_bucket():
    with taps() as seen:
        tap("x", torch.tensor([1.7e308, -1.7e308], dtype=torch.float64))
    limits, counts = buckets(seen.passages[0])
    assert all(math.isfinite(limit) for limit in limits) and sum(counts) == 2


def test_of_an_empty_tensor_only_the_shares_are_written():
    writer = Writer()
    with taps(writer):
        tap("empty", torch.ones(0))
    assert {tag.rpartition("/")[2] for tag, _ in writer.scalars} == {"share_of_zeros", "share_of_nan", "share_of_inf"}
    assert not writer.histograms


def test_a_writer_without_raw_histograms_gets_scalars():
    class Scalars:
        def __init__(self):
            self.tags = []

        def add_scalar(self, tag, value, step):
            self.tags.append(tag)

    writer = Scalars()
    with taps(writer):
        tap("x", torch.ones(1))
    assert "x/forward/norm" in writer.tags


def test_several_targets_get_the_same():
    one, other = [], []
    with taps(one.append, other.append):
        tap("x", torch.ones(1))
    assert one == other and len(one) == 1


@pytest.mark.parametrize("target", [3, "print", None, Writer], ids=["int", "str", "None", "class"])
def test_what_is_no_target_is_told_before_the_run(target):
    with pytest.raises(UsageError, match="can't send"):
        taps(target)


@pytest.mark.peers
def test_the_real_summary_writer_takes_it(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path))
    with taps(writer):
        for _ in range(3):
            tap("hidden", torch.randn(100))
    writer.close()
    events = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0, "histograms": 0}).Reload()
    assert len(events.Scalars("hidden/forward/norm")) == 3
    histograms = [event.histogram_value for event in events.Histograms("hidden/forward/values")]
    assert [histogram.num for histogram in histograms] == [100] * 3
    assert all(sum(histogram.bucket) == 100 for histogram in histograms)
