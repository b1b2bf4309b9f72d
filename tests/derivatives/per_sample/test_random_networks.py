"""Networks drawn at random: right to first and second order, or an error, never silently wrong."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.derivatives.per_sample.judge import TIGHT, largest_error, loop_truth, second_gradients
from tests.derivatives.per_sample.test_meeting_samples import Normalised, Rolled, Sine, SmallLeak
from torch import Tensor
from torch.nn import functional as F

from gradwright.derivatives.per_sample import per_sample_gradients
from gradwright.errors import CoupledBatch

WIDTH, STEPS = 4, 3

#: Layers on [B, STEPS, WIDTH] that keep the samples apart.
APART = {
    "linear": lambda draw, own, x: F.linear(x, own(WIDTH, WIDTH), own(WIDTH)),
    "reused": lambda draw, own, x: F.linear(F.linear(x, w := own(WIDTH, WIDTH)).tanh(), w.T),
    "time first": lambda draw, own, x: F.linear(x.transpose(0, 1), own(WIDTH, WIDTH)).transpose(0, 1),
    "flattened": lambda draw, own, x: F.linear(x.reshape(-1, WIDTH), own(WIDTH, WIDTH), own(WIDTH)).view_as(x),
    "convolution": lambda draw, own, x: F.conv1d(x, own(STEPS, STEPS, 3), own(STEPS), padding=1),
    "heads": lambda draw, own, x: torch.einsum("bsi,hio->bsho", x, own(2, WIDTH, 2)).flatten(2),
    "layer norm": lambda draw, own, x: F.layer_norm(x, (WIDTH,), own(WIDTH), own(WIDTH)),
    "group norm": lambda draw, own, x: F.group_norm(x, 3, own(STEPS), own(STEPS)),
    "places": lambda draw, own, x: x + own(STEPS, WIDTH),
    "gain": lambda draw, own, x: x * own(*draw(st.sampled_from([(), (1,), (WIDTH,), (STEPS, 1), (1, STEPS, WIDTH)]))),
    "token": lambda draw, own, x: torch.cat([own(1, 1, WIDTH).expand(len(x), 1, WIDTH), x], 1)[:, :STEPS],
    "attention": lambda draw, own, x: torch.softmax(F.linear(x, own(WIDTH, WIDTH)) @ x.transpose(1, 2), 2) @ x,
    "scaled weight": lambda draw, own, x: F.linear(x, own(WIDTH, WIDTH) * own(WIDTH, 1).exp()),
    "prelu": lambda draw, own, x: F.prelu(x, own(STEPS)),
    "table": lambda draw, own, x: x + own(7, WIDTH)[torch.arange(len(x) * STEPS).reshape(len(x), STEPS) % 7],
    "residual": lambda draw, own, x: x + F.linear(x.tanh(), own(WIDTH, WIDTH)),
    "tanh": lambda draw, own, x: x.tanh(),
    "gelu": lambda draw, own, x: F.gelu(x),
    "unknown": lambda draw, own, x: Sine.apply(x),
}

#: And those that don't.
MEETING = {
    "batch norm": lambda draw, own, x: F.batch_norm(x, None, None, own(STEPS), own(STEPS), training=True),
    "centred": lambda draw, own, x: x - x.mean(0),
    "rolled": lambda draw, own, x: x + 0.1 * x.roll(1, 0),
    "wrong backward": lambda draw, own, x: Rolled.apply(x),
    "not linear": lambda draw, own, x: Normalised.apply(x),
    "leaking": lambda draw, own, x: SmallLeak.apply(x),
}


@st.composite
def network(draw, layers):  # type: ignore[no-untyped-def]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    params: list[Tensor] = []

    def own(*shape: int) -> Tensor:
        params.append((0.5 * torch.randn(shape, generator=generator, dtype=torch.float64)).requires_grad_())
        return params[-1]

    x = torch.randn(draw(st.sampled_from([2, 3, 4])), STEPS, WIDTH, generator=generator, dtype=torch.float64)
    x = F.linear(x, own(WIDTH, WIDTH))
    for name in draw(st.lists(st.sampled_from(sorted(layers)), min_size=1, max_size=5)):
        x = layers[name](draw, own, x)
    return x.flatten(1).square().mean(1), params


@settings(max_examples=60, deadline=None, derandomize=True)
@given(network(APART), st.booleans())
def test_independent_networks_have_the_gradients_of_a_loop(made: tuple[Tensor, list[Tensor]], again: bool) -> None:
    losses, params = made
    found = per_sample_gradients(losses, params, create_graph=again)
    truth = loop_truth(losses, params, create_graph=again)
    assert largest_error(found, truth) < TIGHT
    if again:
        assert largest_error(second_gradients(found, params), second_gradients(truth, params)) < TIGHT


@settings(max_examples=60, deadline=None, derandomize=True)
@given(network(APART | MEETING), st.booleans())
def test_any_network_is_right_or_refused(made: tuple[Tensor, list[Tensor]], again: bool) -> None:
    losses, params = made
    truth = loop_truth(losses, params, create_graph=again)
    right = second_gradients(truth, params) if again else []
    for batch in ("auto", "coupled"):
        try:
            found = per_sample_gradients(losses, params, batch=batch, create_graph=again)
        except CoupledBatch:
            assert batch == "auto"
            continue
        assert largest_error(found, truth) < TIGHT
        if again:
            assert largest_error(second_gradients(found, params), right) < TIGHT
