"""The losses of ``gradwright.losses`` at work, for ``how_fast_are_the_losses.py``: one module per family of rows,
``subject`` (what a row is), ``peers`` (who else has a loss), ``measuring`` (one cell: time, bytes, memory, errors)."""

from __future__ import annotations

from losses_at_work import (
    classification,
    distributions,
    generative,
    language,
    metric,
    regression,
    reinforcement,
    segmentation,
)
from losses_at_work.subject import Subject

FAMILIES = (
    regression,
    classification,
    segmentation,
    distributions,
    metric,
    language,
    reinforcement,
    generative,
)


def subjects() -> list[Subject]:
    """In the order of the table."""
    return [subject for family in FAMILIES for subject in family.SUBJECTS]
