"""The gain of a change is measured by the clock; one that does no less by count has to gain more than noise can."""

import pytest

from gradwright.doctor.prove.clock import Counted
from gradwright.doctor.prove.timing import Timing


def timing(ratio: float, before: Counted | None = None, after: Counted | None = None, **more: object) -> Timing:
    return Timing(1.0, 1.0 / ratio, "float32 [9]", before_counted=before, after_counted=after, **more)


LOOP = Counted(peak_bytes=400, operations=379, moved_bytes=1764)
MORE = Counted(peak_bytes=400, operations=379, moved_bytes=1765)
LESS = Counted(peak_bytes=400, operations=2, moved_bytes=1765)
UNKNOWN = Counted(peak_bytes=400, operations=2000, moved_bytes=None)


@pytest.mark.parametrize(
    ("ratio", "after", "gains"),
    [
        (1.15, MORE, False),
        (1.15, LOOP, False),
        (1.3, MORE, True),
        (1.15, LESS, True),
        (1.0, LESS, False),
        (1.15, UNKNOWN, True),
        (1.15, None, True),
    ],
)
def test_what_does_no_less_has_to_be_clearly_faster(ratio: float, after: Counted | None, gains: bool) -> None:
    assert (timing(ratio, LOOP, after).no_gain() == "") is gains


def test_fewer_bytes_at_once_are_a_gain_whatever_is_counted_besides() -> None:
    assert timing(1.0, LOOP, MORE, before_bytes=400, after_bytes=100, bytes_on="float32 [9]").no_gain() == ""
    assert "100 bytes, before 400" in timing(0.5, LOOP, MORE, before_bytes=400, after_bytes=100).no_gain()
