"""Uses of normalisations, attention and recurrent layers."""

import torch
import torch.nn.functional as F
from tests.derivatives.nodes.judge import Case, given
from torch import Tensor, nn


def by_hand(axes: tuple[int, ...], weight: Tensor | None = None, eps: float = 1e-5):
    """The normalisation by simple steps: the third derivatives of torch's nodes take saved statistics for constants."""

    def make(z: Tensor) -> Tensor:
        made = (z - z.mean(axes, keepdim=True)) * (z.var(axes, correction=0, keepdim=True) + eps).rsqrt()
        return made if weight is None else made * weight

    return make


def attention(mask: Tensor | None = None, causal: bool = False, fused: bool = True):
    """Keys and values from constants and z; the CPU's fused kernel, or the same by products and softmax."""

    def make(z: Tensor) -> Tensor:
        query, key, value = z[..., :3], z[..., 3:6], z[..., 6:]
        if fused:
            return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        scores = query @ key.transpose(-1, -2) / 3**0.5
        if mask is not None:
            scores = scores + mask
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
        return scores.softmax(-1) @ value

    return make


def in_turn(place: int, fused: bool = True, transpose: bool = False):
    """Attention with one of query, key and value led by z, the others constants."""

    def make(z: Tensor) -> Tensor:
        parts = [given(2, 2, 3, 4), given(2, 2, 3, 4) * 0.7, given(2, 2, 3, 4) * 1.3]
        parts[place] = z
        if fused:
            return F.scaled_dot_product_attention(*parts)
        return (parts[0] @ parts[1].transpose(-1, -2) / 2).softmax(-1) @ parts[2]

    return make


def recurrent(name: str, batch_first: bool = False, **options: object):
    torch.manual_seed(0)
    layer = getattr(nn, name)(3, 2, batch_first=batch_first, **options)
    return lambda z: layer(z)[0]


with torch.random.fork_rng():
    LSTM, LSTM_TWO_WAYS = recurrent("LSTM"), recurrent("LSTM", batch_first=True, bidirectional=True)
MASK = given(3, 3, graph=False)
RUNNING = given(3, graph=False), given(3, positive=True, graph=False)

CASES = [
    Case(
        "layer-norm",
        lambda z: F.layer_norm(z, (3,), given(3), given(3)),
        (4, 3),
        {0: 0},
        truth=by_hand((-1,), given(3)),
    ),
    Case(
        "layer-norm-large-eps", lambda z: F.layer_norm(z, (3,), eps=0.5), (4, 3), {0: 0}, truth=by_hand((-1,), eps=0.5)
    ),
    Case(
        "layer-norm-two-axes",
        lambda z: F.layer_norm(z, (3, 2), given(3, 2)),
        (4, 2, 3, 2),
        {0: 0, 1: 1},
        truth=by_hand((-2, -1), given(3, 2)),
    ),
    Case("layer-norm-over-the-batch", lambda z: F.layer_norm(z, (4, 3)), (4, 3), {}, truth=by_hand((0, 1))),
    Case("layer-norm-weight", lambda z: F.layer_norm(given(4, 3), (3,), z), (3,), {}, push=0, pattern="none"),
    Case("group-norm", lambda z: F.group_norm(z, 2, given(4), given(4)), (3, 4, 2), {0: 0}),
    Case("group-norm-plain", lambda z: F.group_norm(z, 1, eps=0.1), (3, 4), {0: 0}),
    Case(
        "batch-norm-training",
        lambda z: F.batch_norm(z, None, None, given(3), given(3), True),
        (4, 3),
        {1: 1},
        truth=by_hand((0,), given(3)),
    ),
    Case(
        "batch-norm-training-images",
        lambda z: F.batch_norm(z, None, None, given(2), given(2), True, eps=0.1),
        (2, 2, 3),
        {1: 1},
        truth=by_hand((0, 2), given(2)[:, None], eps=0.1),
    ),
    Case(
        "batch-norm-evaluation", lambda z: F.batch_norm(z, *RUNNING, given(3), given(3)), (4, 3, 2), {0: 0, 1: 1, 2: 2}
    ),
    Case(
        "instance-norm", lambda z: F.batch_norm(z, None, None, training=True), (1, 6, 3), {1: 1}, truth=by_hand((0, 2))
    ),
    Case("attention", attention(), (2, 2, 3, 9), {0: 0, 1: 1}, 2, "exact", attention(fused=False)),
    Case("attention-masked", attention(MASK), (2, 2, 3, 9), {0: 0, 1: 1}, 2, "exact", attention(MASK, fused=False)),
    Case(
        "attention-causal",
        attention(causal=True),
        (2, 2, 3, 9),
        {0: 0, 1: 1},
        2,
        "covers",
        attention(causal=True, fused=False),
    ),
    Case("attention-query", in_turn(0), (2, 2, 3, 4), {0: 0, 1: 1, 2: 2}, 2, "exact", in_turn(0, False)),
    Case("attention-key", in_turn(1), (2, 2, 3, 4), {0: 0, 1: 1}, 2, "exact", in_turn(1, False)),
    Case("attention-value", in_turn(2), (2, 2, 3, 4), {0: 0, 1: 1}, 2, "exact", in_turn(2, False)),
    Case("lstm", LSTM, (2, 3, 3), {1: 1}, 0, "none", dtype=torch.float32),
    Case("lstm-two-ways", LSTM_TWO_WAYS, (3, 2, 3), {0: 0}, 0, "none", dtype=torch.float32),
]
