"""What is allocated on the way: no tensor far larger than the inputs, no more at a time than is needed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gradwright.exercises.grading.grading import Demand
from gradwright.exercises.grading.inputs import Case, Draws
from gradwright.exercises.grading.tried import Tried
from gradwright.exercises.grading.watched import watched
from gradwright.exercises.outcome import NotYet
from gradwright.ground.memory import memory_of


def nothing_larger(sized: Callable[[Draws], Case], times: float, instead: str) -> Demand:
    """No operation makes a tensor of more than ``times`` the elements of the largest input."""

    def ask(tried: Tried) -> str:
        case = sized(tried.draws())
        given = max(arg.numel() for arg in case.args() if isinstance(arg, Tensor))
        work = tried.once(case)
        largest = tried.guard(lambda: watched(work, tried.file).largest, f"{tried.name} on {case.label}")
        if largest > times * given:
            raise NotYet(
                f"{tried.name} makes a tensor of {largest:,} elements, for an input of {given:,}",
                where=tried.where,
                why="its size grows with the square of the row: at 50,000 columns it does not fit anywhere",
                do=instead,
            )
        return f"no tensor above {largest:,} elements, for an input of {given:,}"

    return Demand("memory", ask)


def peak_at_most(sized: Callable[[Draws], Case], times: float, instead: str) -> Demand:
    """Never more allocated at a time, forward and backward, than ``times`` the bytes of the first input."""

    def ask(tried: Tried) -> str:
        case = sized(tried.draws())
        first = case.args()[0]
        given = first.numel() * first.element_size()
        work = tried.once(case)
        peak = tried.guard(lambda: memory_of(work, torch.device("cpu")).peak_bytes, f"{tried.name} on {case.label}")
        if peak > times * given:
            raise NotYet(
                f"{tried.name} allocates {peak / given:.1f} times the bytes of its input at a time; {times:g} do",
                where=tried.where,
                why="the logits are the largest tensor of a language model: each copy of them is a smaller batch",
                do=instead,
            )
        return f"{peak / given:.1f} times the input at most"

    return Demand("memory", ask)
