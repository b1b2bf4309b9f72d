"""What structure proves, what the probe sees, and that both reject planted faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tests.derivatives.functions import Same
from tests.derivatives.tails import NAMES, build, latent
from tests.derivatives.truth import one_hot_jacobian
from torch import Tensor, nn

import gradwright as gw
from gradwright.derivatives.graph.request import Request, read_request
from gradwright.derivatives.nodes import Place, Rule, rule_of
from gradwright.derivatives.samples import structure
from gradwright.derivatives.samples.probe import Probe, probe, random_cotangent
from gradwright.derivatives.samples.structure import examine_structure
from gradwright.errors import CoupledBatch


def _asked(y: Tensor, z: Tensor, create_graph: bool = False) -> Request:
    return read_request(y, z, 0, create_graph)


def _proved(y: Tensor, z: Tensor) -> bool:
    return examine_structure(_asked(y, z).way, 0, 0).proved


def _truly_apart(y: Tensor, z: Tensor) -> bool:
    """By definition: no output of a sample depends on another sample."""
    for sample in range(len(y)):
        for entry in y[sample].reshape(-1):
            (pulled,) = torch.autograd.grad(entry, z, retain_graph=True)
            if pulled[torch.arange(len(z)) != sample].any():
                return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_what_is_proved_is_so(name: str) -> None:
    tail, z = build(name), latent()
    y = tail.net(z)
    assert not _proved(y, z) or (_truly_apart(y, z) and not tail.coupled)


@pytest.mark.parametrize(
    "name", ["mlp", "relu", "layer_norm", "batch_norm_eval", "dropout", "convolution", "multihead_attention", "lstm"]
)
def test_common_tails_are_proved_apart_so_that_nothing_is_probed(name: str) -> None:
    z = latent()
    assert _proved(build(name).net(z), z)


def _anywhere(step: Any, place: Place, number: int) -> Sequence[Place | None]:
    return [Place(0) if into.leads else None for into in step.inputs]


@pytest.mark.parametrize(
    ("kind", "mix"),
    [
        ("RollBackward0", lambda z: z.roll(1, 0)),
        ("FlipBackward0", lambda z: z.flip(0)),
        ("CumsumBackward0", lambda z: z.cumsum(0)),
        ("MmBackward0", lambda z: torch.ones(5, 5, dtype=z.dtype) @ z),
        ("NativeBatchNormBackward0", lambda z: nn.functional.batch_norm(z, None, None, training=True)),
    ],
    ids=["roll", "flip", "cumsum", "mm", "batch norm"],
)
def test_a_planted_wrong_rule_makes_a_wrong_proof_and_the_truth_shows_it(
    kind: str, mix: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    z = latent()
    y = mix(z)
    assert not _proved(y, z)
    monkeypatch.setattr(structure, "rule_of", lambda asked: Rule(_anywhere) if asked == kind else rule_of(asked))
    assert _proved(y, z)
    assert not _truly_apart(y, z)


def test_a_way_that_arrives_at_another_axis_is_no_proof() -> None:
    z = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    assert not _proved(z.T * 2, z)
    assert _proved(z.T.tanh().T, z)


def test_one_way_that_keeps_apart_does_not_speak_for_another() -> None:
    z = latent()
    assert not _proved(z.tanh() + z.flip(0), z)


def _jacobian(y: Tensor, z: Tensor, create_graph: bool = False) -> Tensor:
    return one_hot_jacobian(y, z, create_graph)


def _probed(y: Tensor, z: Tensor, jacobian: Tensor, create_graph: bool = False) -> Probe:
    return probe(_asked(y, z, create_graph), jacobian)


def test_the_probe_holds_for_the_truth_of_independent_samples() -> None:
    z = latent()
    y = build("mlp").net(z)
    assert _probed(y, z, _jacobian(y, z)).held


@pytest.mark.parametrize("fault", ["one entry", "a row of a sample", "two samples changed", "sign", "scale", "nan"])
def test_the_probe_rejects_a_planted_wrong_jacobian(fault: str) -> None:
    z = latent()
    y = build("mlp").net(z)
    wrong = _jacobian(y, z).clone()
    if fault == "one entry":
        wrong[2, 1, 0] += 1e-6
    elif fault == "a row of a sample":
        wrong[4, 0] = 0
    elif fault == "two samples changed":
        wrong[[0, 1]] = wrong[[1, 0]]
    elif fault == "sign":
        wrong[0] = -wrong[0]
    elif fault == "scale":
        wrong *= 1.0001
    else:
        wrong[3, 0, 0] = torch.nan
    seen = _probed(y, z, wrong)
    assert not seen.held
    assert seen.apart


def test_the_probe_rejects_a_jacobian_with_the_wrong_derivative() -> None:
    z = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.ones(2, dtype=torch.float64, requires_grad=True)
    y = (z * weight).sin()
    right = _jacobian(y, z, create_graph=True)
    assert _probed(y, z, right, create_graph=True).held
    detached = right.detach() + 0 * weight.sum()
    seen = _probed(y, z, detached, create_graph=True)
    assert not seen.held
    assert seen.derivative


@pytest.mark.parametrize("case", ["real to complex", "complex to complex"])
def test_the_probe_knows_complex_numbers(case: str) -> None:
    generator = torch.Generator().manual_seed(1)
    kind = torch.float64 if case == "real to complex" else torch.complex128
    z = torch.randn(5, 2, dtype=kind, generator=generator).requires_grad_()
    y = torch.exp(z * (0.3 + 0.4j)) * (1 - 2j)
    assert gw.batch_jacobian(Same.apply(y), z).shape == (5, 2, 2)
    with pytest.raises(CoupledBatch, match="sample"):
        gw.batch_jacobian(y + 0.01j * y.roll(1, 0), z)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("create_graph", [False, True])
def test_rounding_is_no_coupling(dtype: torch.dtype, create_graph: bool) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)).to(dtype)
    z = torch.randn(33, 8).to(dtype).requires_grad_()
    y = Same.apply(net(z)) * 1000
    assert gw.batch_jacobian(y, z, create_graph=create_graph).shape == (33, 4, 8)


def test_mixed_precision_is_judged_by_the_coarsest_dtype_on_the_way() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
    z = torch.randn(16, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = Same.apply(net(z).float())
    request = _asked(y, z)
    assert request.way.coarsest is torch.bfloat16
    assert gw.batch_jacobian(y, z).shape == (16, 4, 8)


def test_the_random_cotangent_leaves_the_random_state_and_tells_samples_apart() -> None:
    state = torch.get_rng_state()
    drawn = random_cotangent(torch.zeros(100, 1, dtype=torch.float64)).flatten()
    assert torch.equal(torch.get_rng_state(), state)
    assert float(drawn.sort().values.diff().min()) > 0
    assert float(drawn.sum().abs()) > 0


@pytest.mark.parametrize("verdict", ["proved", "held", "coupled"])
def test_a_verdict_is_read_as_a_sentence(verdict: str) -> None:
    z = latent()
    y = {"proved": z.tanh(), "held": Same.apply(z), "coupled": z.roll(1, 0) + z}[verdict]
    found = gw.check_batch_independence(y, z)
    assert found.verdict == verdict
    assert str(found).startswith(verdict)
    assert bool(found) is (verdict != "coupled")


def test_samples_that_were_not_seen_are_told() -> None:
    z = torch.tensor([[0.0], [1.0], [4.0]], requires_grad=True)
    found = gw.check_batch_independence(Same.apply(z).sqrt(), z)
    assert found.verdict == "held"
    assert found.unseen == 1
    assert "1 samples with infinite or NaN derivatives not seen" in str(found)
