"""A run that is killed between windows goes on, from its checkpoint, to the gradients of one that was not: all bits."""

import functools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.killed_runs import Run, whole
from tests.training.several_ranks import on_ranks, values
from tests.training.token_model import cross_entropy, drawn, kept, model_of

from gradwright.training import GradientAccumulator
from gradwright.training.passes import Pass

CUT = (("micro_batch_size", 4),)
RUNS = [
    Run(1, "killed"),
    Run(2, "exits"),
    Run(3, "killed"),  # the last window of a pass
    Run(4, "killed"),  # the first of the next one
    Run(2, "killed", CUT),
    Run(2, "killed", loader="own"),
    Run(2, "killed", loader="random"),
    Run(3, "killed", saves="pass"),
    Run(6, "exits", saves="pass", loader="own"),
    Run(3, "killed", saves="pass", loader="random"),
]


@functools.cache
def _undisturbed(run: Run) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        return values(on_ranks(whole, 1, folder, run))[0]


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_a_killed_run_goes_on_to_the_same_gradients(run: Run, tmp_path: Path) -> None:
    undisturbed = replace(run, die_after=-1, how="")
    (lost,) = on_ranks(whole, 1, str(tmp_path), run)
    assert lost.exit_code == {"killed": -9, "exits": 3}[run.how]
    (resumed,) = values(on_ranks(whole, 1, str(tmp_path), undisturbed))
    assert resumed == _undisturbed(undisturbed)
    assert len(resumed) == 9


@pytest.mark.filterwarnings("ignore:dropout")
@pytest.mark.parametrize("forgotten", ["put_back", "skipping", "_set_loader"])
def test_a_resumption_that_forgets_something_is_caught(
    forgotten: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random states, the batches that were used, the loader's own generator."""
    from gradwright.training import passes

    run = Run(4, "raises", loader="own")
    with pytest.raises(KeyboardInterrupt):
        whole(str(tmp_path), run)
    undisturbed = replace(run, die_after=-1)
    if forgotten == "_set_loader":
        monkeypatch.setattr(Pass, forgotten, lambda self, states: None)
    else:
        wrong = {"put_back": lambda state: None, "skipping": lambda loader, batches: iter(loader)}
        monkeypatch.setattr(passes, forgotten, wrong[forgotten])
    assert whole(str(tmp_path), undisturbed) != _undisturbed(undisturbed)


def test_random_state_stays_where_it_was() -> None:
    """Counting windows draws nothing: the losses are those of a loop without an accumulator."""
    model = model_of()
    acc = GradientAccumulator(model, torch.optim.SGD(model.parameters(), 0.0), accumulation_steps=2, count=kept)
    torch.manual_seed(3)
    expected = torch.randn(4)
    torch.manual_seed(3)
    drawn_here = []
    for window in acc.windows(drawn([2, 3, 1, 2], torch.float64, 0)):
        for batch in window:
            drawn_here.append(torch.randn(1))
            acc.backward(cross_entropy(model, batch, "sum"), reduction="sum")
        acc.step()
        acc.state_dict()
    assert torch.equal(torch.cat(drawn_here), expected)


@pytest.mark.parametrize("stops_at", [0, 1, 2, 3, 5])
def test_an_interrupted_window_is_begun_again(stops_at: int) -> None:
    """Ctrl-C in one of six micro-batches: the checkpoint that is saved then is the one before its window."""

    def losses(model: torch.nn.Module, acc: GradientAccumulator, stops_at: int = -1) -> list[float]:
        data = [(x, y) for batch in drawn([12], torch.float64, 0) for x, y in zip(*batch, strict=True)]
        loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True)
        found, step = [], 0
        for window in acc.windows(loader):
            for batch in window:
                if step == stops_at:
                    raise KeyboardInterrupt
                step += 1
                loss = cross_entropy(model, batch, "sum") * torch.rand(())  # a mask of its own
                acc.backward(loss, reduction="sum")
            found.append(acc.step().loss)
        return found

    def made() -> tuple[torch.nn.Module, GradientAccumulator]:
        model = model_of()
        sgd = torch.optim.SGD(model.parameters(), 0.3)
        return model, GradientAccumulator(model, sgd, accumulation_steps=2, count=kept, progress=False)

    torch.manual_seed(3)
    whole = losses(*made())
    torch.manual_seed(3)
    model, acc = made()
    with pytest.raises(KeyboardInterrupt):
        losses(model, acc, stops_at)
    weights, state = model.state_dict(), acc.state_dict()
    torch.manual_seed(99)
    model, acc = made()
    model.load_state_dict(weights)
    acc.load_state_dict(state)
    assert losses(model, acc) == whole[stops_at // 2 :]
