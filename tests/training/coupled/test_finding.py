"""A loss that couples samples is told from its graph; one that does not never is."""

import types

import pytest
import torch
from tests.losses.case import Case
from tests.losses.table import CASES
from tests.training.coupled import drawn_losses
from tests.training.coupled.written import COUPLED, SPLIT, N
from torch import Tensor, nn

from gradwright.training.coupled.finding import find_meeting
from gradwright.training.coupled.finding import walk as walking
from gradwright.training.coupled.finding.places import Places


@pytest.mark.parametrize("name", COUPLED)
def test_a_coupled_loss_is_found(name: str) -> None:
    torch.manual_seed(0)
    meeting = find_meeting(COUPLED[name](), N)
    assert meeting is not None
    assert "over the batch" in meeting.what


@pytest.mark.parametrize("name", SPLIT)
def test_a_loss_that_splits_is_never_taken_for_one(name: str) -> None:
    torch.manual_seed(0)
    assert find_meeting(SPLIT[name](), N) is None


def test_of_one_sample_nothing_is_said() -> None:
    assert find_meeting(COUPLED["dice"](), 1) is None


def test_without_a_graph_nothing_is_said() -> None:
    assert find_meeting(torch.ones(()), N) is None


def test_the_line_is_told_where_autograd_recorded_it() -> None:
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        meeting = find_meeting(COUPLED["jaccard"](), N)
    assert meeting is not None and meeting.line is not None and "in jaccard" in meeting.line


# -- the losses of gradwright.losses, each case of their table: against their mixed derivatives


def _outputs(case: Case) -> tuple[list[Tensor], list[Tensor]]:
    """The case's inputs, those that learn as outputs of a layer (each times one learned number); and as they are."""
    drawn = case.draw(torch.Generator().manual_seed(3), torch.float32)
    scale = nn.Parameter(torch.ones(()))
    return [one * scale if place < case.wanted else one for place, one in enumerate(drawn)], list(drawn)


def _is_coupled(case: Case, drawn: list[Tensor], samples: int) -> bool:
    """Whether the gradients of samples change where another one's prediction does: not all by one factor, as they do
    where a mask hangs on the prediction, and with it what the loss is divided by."""

    learning = [one.double() for one in drawn[: case.wanted]]
    rest = [one.double() if one.is_floating_point() else one for one in drawn[case.wanted :]]

    def gradient(predictions: list[Tensor]) -> Tensor:
        leaf = predictions[0].clone().requires_grad_()
        return torch.autograd.grad(case.loss(leaf, *predictions[1:], *rest).sum(), leaf)[0]

    before = gradient(learning)
    for changed in range(samples):
        keep = [sample for sample in range(samples) if sample != changed]
        after, known = gradient([_with_another(one, changed, samples) for one in learning])[keep], before[keep]
        factor = float((after * known).sum() / (known * known).sum()) if bool(known.any()) else 1.0
        if not torch.allclose(after, factor * known, rtol=1e-6, atol=1e-9 * float(known.abs().max())):
            return True
    return False


def _with_another(prediction: Tensor, changed: int, samples: int) -> Tensor:
    """One sample's prediction turned round."""
    other = prediction.clone()
    if prediction.shape[0] == samples:
        other[changed] = prediction[changed].flip(-1) if prediction.dim() > 1 else prediction[changed] * 0.5
    return other


def _found(case: Case) -> tuple[bool, bool]:
    outputs, drawn = _outputs(case)
    samples = drawn[0].shape[0]
    return find_meeting(case.loss(*outputs).sum(), samples) is not None, _is_coupled(case, drawn, samples)


_OWN_BATCH = [case for case in CASES if case.draw(torch.Generator(), torch.float32)[0].dim()]


@pytest.mark.parametrize("case", _OWN_BATCH, ids=str)
def test_every_case_of_our_losses_is_told_as_its_derivatives_say(case: Case) -> None:
    found, coupled = _found(case)
    assert found == coupled


# -- losses drawn at random: of 3,000 none was wrongly refused, and 87 % of those that couple were found


_SATURATED = {41}  # the norm of a tanh that is 1 everywhere: it couples, and no gradient shows it


def test_no_drawn_loss_is_taken_for_coupled_that_is_not() -> None:
    verdicts = []
    for seed in sorted(set(range(120)) - _SATURATED):
        drawn = drawn_losses.Loss(seed)
        value, coupled = drawn.of_network(), drawn.is_coupled()
        if not value.requires_grad or coupled is None:
            continue
        found = find_meeting(value, drawn_losses.N) is not None
        assert coupled or not found, f"{seed}: {drawn.text}"
        verdicts.append((coupled, found))
    assert len(verdicts) > 80 and sum(not coupled for coupled, _ in verdicts) > 3
    assert sum(found for _, found in verdicts) > 0.75 * sum(coupled for coupled, _ in verdicts)


# -- planted faults: a rule that is missing is noticed by the tests above


def _verdicts() -> tuple[set[str], set[str]]:
    torch.manual_seed(0)
    return (
        {name for name, make in COUPLED.items() if find_meeting(make(), N) is None},
        {name for name, make in SPLIT.items() if find_meeting(make(), N) is not None},
    )


def test_without_following_the_axes_there_would_be_false_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Places, "is_batch", lambda self, into, axis: into.shape[axis] % self.samples == 0)
    assert "dice of images and classes" in _verdicts()[1]


def test_without_the_place_of_the_samples_time_would_be_taken_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradwright.training.coupled.finding import places

    monkeypatch.setattr(places, "_is_first", lambda place: True)
    assert "root of each text, of words alone" in _verdicts()[1]


def test_without_knowing_parameters_features_would_be_taken_for_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradwright.training.coupled.finding import places

    monkeypatch.setattr(places, "nn", types.SimpleNamespace(Parameter=()))
    assert _verdicts()[1]


def test_without_what_is_curved_no_quotient_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "_quotient", lambda step, above: walking._next(step, above))
    assert {"dice", "jaccard"} <= _verdicts()[0]


def test_without_the_sum_above_a_cancelling_maximum_would_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking._Above, "summed", lambda self, places: False)
    assert "softmax by hand" in _verdicts()[1]
