"""What a loop does by habit on several ranks, and parameters that their engine does not know: told on every rank."""

from typing import Any

import pytest
import torch
from tests.training import habit_cases as habits
from tests.training.several_ranks import on_ranks, values


@pytest.mark.parametrize("options", [{}, {"sync": "every"}], ids=str)
@pytest.mark.parametrize(("habit", "told"), [("clears", "was cleared inside"), ("clips", "was changed inside")])
def test_a_habit_is_told_on_every_rank(habit: str, told: str, options: dict[str, Any]) -> None:
    for rank, outcome in enumerate(on_ranks(_window, 2, habit, options)):
        assert f"AccumulationError: rank {rank}, window 0: " in outcome.error and told in outcome.error


def _window(habit: str, options: dict[str, Any]) -> int:
    return habits.window_with(habit, **options)


@pytest.mark.parametrize("options", [{}, {"sync": "every"}, {"separate": True}], ids=str)
def test_a_window_without_a_habit_is_stepped(options: dict[str, Any]) -> None:
    assert values(on_ranks(_window, 2, "none", options)) == [1, 1]


@pytest.mark.parametrize("engine", ["ddp", "fsdp"])
def test_a_parameter_that_the_engine_does_not_share_is_refused(engine: str) -> None:
    for outcome in on_ranks(habits.temperature_beside, 2, engine):
        assert "UsageError: the optimizer steps 1 parameters that are not in the model" in outcome.error


def test_a_parameter_that_is_summed_beside_the_engine_is_the_same_on_all_ranks() -> None:
    first, second = values(on_ranks(_beside, 2))
    assert first == second and first[0] != 0.7 and first[1] == 2


def _beside() -> list[float]:
    return habits.temperature_beside("ddp", accumulate_dtype=torch.float64)


def test_a_layer_that_ddp_was_made_without_is_refused() -> None:
    for rank, outcome in enumerate(on_ranks(habits.unfreezes, 2)):
        assert f"AccumulationError: rank {rank}, window 1: other parameters require gradients" in outcome.error
