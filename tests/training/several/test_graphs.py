"""A micro-batch's graph is gone before the next one's forward."""

import weakref
from typing import Any

import pytest
import torch
from tests.training.several.two_heads import COUNT, TwoHeads, drawn, losses
from torch import Tensor

from gradwright.training import GradientAccumulator


class Saved:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class Held:
    """What autograd holds for backwards that may come."""

    def __init__(self) -> None:
        self._saved: weakref.WeakSet[Saved] = weakref.WeakSet()

    def watching(self) -> Any:
        def pack(tensor: Tensor) -> Saved:
            saved = Saved(tensor.detach())  # with its history, an output would hold its own node
            self._saved.add(saved)
            return saved

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.tensor)

    def __len__(self) -> int:
        return len(self._saved)


def accumulator(model: TwoHeads, **options: Any) -> GradientAccumulator:
    return GradientAccumulator(
        model, torch.optim.SGD(model.parameters(), 0.1), accumulation_steps=3, count=COUNT, **options
    )


@pytest.mark.parametrize("separate", [False, True])
def test_update_holds_nothing_when_the_next_forward_begins(separate: bool) -> None:
    model, held, seen = TwoHeads(), Held(), []
    acc = accumulator(model, separate=separate)

    def loss_of(batch: Any) -> Any:
        seen.append(len(held))
        with held.watching():
            found = losses(model, batch)
        assert len(held) > 4
        return found

    acc.update(acc.window(drawn((2, 3, 4))), loss_of, reduction="sum")
    assert seen == [0, 0, 0] and not len(held)


def test_backward_frees_what_it_was_given_while_the_loss_is_still_named() -> None:
    model, held = TwoHeads(), Held()
    acc = accumulator(model)
    for batch in acc.window(drawn((2, 3, 4))):
        with held.watching():
            found = losses(model, batch)
        acc.backward(found, reduction="sum")
        assert not len(held) and found


def test_kept_apart_the_trunk_is_freed_and_the_heads_with_their_loss() -> None:
    """Backward of the first loss has to leave the trunk to the second; its head goes with the name of the losses."""
    model, held = TwoHeads(), Held()
    acc = accumulator(model, separate=True)
    for batch in acc.window(drawn((2, 3, 4))):
        with held.watching():
            found = losses(model, batch)
        whole = len(held)
        acc.backward(found, reduction="sum")
        assert len(held) <= whole / 2
        del found
        assert not len(held)


def test_a_graph_is_kept_where_that_is_asked_for() -> None:
    model, held = TwoHeads(), Held()
    acc = accumulator(model)
    for batch in acc.window(drawn((2, 3, 4))):
        with held.watching():
            found = losses(model, batch)
        acc.backward(found, reduction="sum", retain_graph=True)
        assert len(held)
