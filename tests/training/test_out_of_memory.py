"""A window that runs out of memory is run through again in smaller micro-batches, with the same gradient."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.training.memory_cases import short_memory
from tests.training.several_ranks import on_ranks, values
from tests.training.token_model import cross_entropy, drawn, flat, full_gradient, kept, model_of, relative
from torch import Tensor, nn

from gradwright.training import GradientAccumulator, Update
from gradwright.training import out_of_memory as subject
from gradwright.training.before import Before

pytestmark = pytest.mark.filterwarnings("ignore:batch normalisation")


class Limited:
    """A loss that runs out of memory above ``room`` samples, as often as ``times``; from the micro-batch ``first``
    on."""

    def __init__(self, model: nn.Module, room: int, first: int = 0) -> None:
        self.model, self.room, self.first, self.sizes = model, room, first, list[int]()

    def __call__(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        self.sizes.append(len(batch[0]))
        loss = cross_entropy(self.model, batch, "sum")
        if len(batch[0]) > self.room and len(self.sizes) > self.first:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss


def accumulator(model: nn.Module, **options: Any) -> GradientAccumulator:
    options = {"micro_batch_size": 8, "count": kept, **options}
    return GradientAccumulator(model, torch.optim.SGD(model.parameters(), 0.0), **options)


@pytest.mark.parametrize("room", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"accumulate_dtype": torch.float64}, {"count": None, "normalize": "samples"}])
def test_the_gradient_is_the_full_batchs(room: int, first: int, options: dict[str, Any]) -> None:
    batches = drawn([24], torch.float64, 0)
    model = model_of()
    acc = accumulator(model, **options)
    loss_of = Limited(model, room, first)
    with pytest.warns(UserWarning, match="ran out of memory with micro_batch_size="):
        updates = [acc.update(window, loss_of, reduction="sum") for window in acc.windows(batches)]
    expected = full_gradient(batches, torch.float64)
    if "normalize" in options:
        expected = expected * float(kept(batches[0])) / 24
    assert relative(flat(model.parameters()), expected) <= 1e-12
    assert [update.stepped for update in updates] == [True]
    assert acc.micro_batch_size == max(size for size in (4, 2, 1) if size <= room)


def test_the_next_windows_are_cut_smaller_at_once() -> None:
    model = model_of()
    acc = accumulator(model)
    loss_of = Limited(model, 4)
    with pytest.warns(UserWarning, match="with 4") as told:
        for window in acc.windows(drawn([16, 16], torch.float64, 0)):
            acc.update(window, loss_of, reduction="sum")
    assert len(told) == 1
    assert loss_of.sizes == [8] + [4] * 8
    assert acc.updates == 2


def test_statistics_of_batch_normalisation_move_once() -> None:
    def run(size: int, room: int) -> nn.Module:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 5)).double()
        acc = accumulator(model, micro_batch_size=size)
        for window in acc.windows(drawn([16], torch.float64, 0)):
            acc.update(window, Limited(model, room, first=1), reduction="sum")
        return model

    with pytest.warns(UserWarning, match="ran out"):
        again = run(8, room=4)
    plain = run(4, room=4)
    for name, buffer in plain.named_buffers():
        assert torch.equal(again.get_buffer(name), buffer), name


def test_masks_are_those_of_the_smaller_micro_batches() -> None:
    def run(size: int) -> Tensor:
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 5)).double()
        acc = accumulator(model, micro_batch_size=size)
        window = acc.window([(x, y) for x, y in acc._cut(drawn([16], torch.float64, 0)[0])])
        acc.update(window, Limited(model, 4), reduction="sum")
        return flat(model.parameters())

    with pytest.warns(UserWarning, match="ran out"):
        again = run(8)
    assert torch.equal(again, run(4))


def test_a_single_sample_that_does_not_fit_is_an_error() -> None:
    model = model_of()
    acc = accumulator(model)
    with pytest.warns(UserWarning, match="ran out"), pytest.raises(torch.OutOfMemoryError):
        acc.update(acc.window(drawn([8], torch.float64, 0)), Limited(model, 0), reduction="sum")


@pytest.mark.parametrize(
    "options", [{"normalize": "steps", "count": None}, {"micro_batch_size": None, "accumulation_steps": 2}]
)
def test_what_would_change_the_gradient_is_not_tried(options: dict[str, Any]) -> None:
    model = model_of()
    acc = accumulator(model, **options)
    with pytest.raises(torch.OutOfMemoryError):
        acc.update(acc.window(drawn([8], torch.float64, 0)), Limited(model, 4), reduction="sum")


def test_other_errors_are_the_users() -> None:
    model = model_of()
    acc = accumulator(model)
    with pytest.raises(ZeroDivisionError):
        acc.update(acc.window(drawn([8], torch.float64, 0)), lambda batch: 1 / 0, reduction="sum")  # type: ignore


def test_an_optimizer_with_closures_goes_on_with_what_fits() -> None:
    batches = drawn([16], torch.float64, 0)

    def run(size: int) -> tuple[Tensor, Update, Limited]:
        model = model_of()
        lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=4)
        acc = GradientAccumulator(model, lbfgs, micro_batch_size=size, count=kept)
        loss_of = Limited(model, 4)
        update = acc.update(acc.window(acc._cut(batches[0])), loss_of, reduction="sum")
        return torch.cat([one.detach().reshape(-1) for one in model.parameters()]), update, loss_of

    with pytest.warns(UserWarning, match="ran out"):
        again, update, loss_of = run(8)
    assert relative(again, run(4)[0]) <= 1e-9
    assert update.stepped and loss_of.sizes.count(8) == 1


def test_nothing_of_the_attempt_is_kept_alive() -> None:
    import weakref

    alive: list[Any] = []
    model = model_of()
    acc = accumulator(model)

    def loss_of(batch: Any) -> Tensor:
        hidden = model[0](batch[0])
        if len(batch[0]) > 4:
            alive.append(weakref.ref(hidden))
            raise torch.OutOfMemoryError("no room")
        assert all(one() is None for one in alive)
        return cross_entropy(lambda _: model[2](torch.tanh(hidden)), batch, "sum")

    with pytest.warns(UserWarning, match="ran out"):
        acc.update(acc.window(acc._cut(drawn([8], torch.float64, 0)[0])), loss_of, reduction="sum")
    assert alive


def test_ranks_take_the_same_size_and_begin_again_together() -> None:
    found = values(on_ranks(short_memory, 2))
    assert [one["sizes"] for one in found] == [(5, True)] * 2
    assert [one["sharded"] for one in found] == [(20, True)] * 2
    assert all("say max_bytes" in one["sharded, refused"] for one in found)
    assert all(error <= 1e-12 and size == 2 for error, size in (one["restarted"] for one in found))


# -- planted faults: what the tests above have to see ------------------------------------------------------------------


@pytest.fixture(params=["gradients", "buffers and random state", "nothing"])
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "gradients":  # the first attempt's are left in place
        smaller = subject._smaller

        def twice(acc: Any, window: Any, failures: Any) -> Any:
            made = smaller(acc, window, failures)
            made.batches, made.counts = made.batches + made.batches[:1], made.counts + made.counts[:1]
            return made

        monkeypatch.setattr(subject, "_smaller", twice)
    if request.param == "buffers and random state":
        monkeypatch.setattr(Before, "put_back", lambda self, **_: None)
    yield request.param


def test_planted_faults_are_seen(planted: str) -> None:
    checks: dict[str, Callable[[], None]] = {
        "gradients": lambda: test_the_gradient_is_the_full_batchs(4, 1, {}),
        "buffers and random state": test_statistics_of_batch_normalisation_move_once,
    }
    if planted == "nothing":
        for check in checks.values():
            check()
    else:
        with pytest.raises((AssertionError, torch.OutOfMemoryError)):
            checks[planted]()
