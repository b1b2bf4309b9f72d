"""Each operation against torch in float64; and the residues against values, where floats are exact."""

import time

import pytest
import torch
import torch.nn.functional as F

from gradwright.doctor.prove.exact.field import FIELDS, Field, inverse, power, scrambled
from gradwright.doctor.prove.exact.inputs import cotangent, made_exact, shortened
from gradwright.doctor.prove.exact.number import Number
from gradwright.doctor.prove.exact.run import outcome

INDEX = torch.tensor([[0, 2, 1, 1], [2, 2, 0, 1], [1, 0, 0, 3]])
ROWS = torch.tensor([0, 2, 2])
MASK = torch.tensor([[True, False, True, True], [False] * 4, [True] * 4])

# Sums, products and movements: short dyadic numbers stay exact in float64, so that residues are those of the values.
RATIONAL = {
    "arithmetic": lambda x: (2 * x + 1) * (x - 0.5) - 3 * x * x,
    "rsub": lambda x: 1.5 - x,
    "alpha": lambda x: torch.add(x, x, alpha=3) - torch.sub(x, 1, alpha=2),
    "powers": lambda x: x**3 + x.square(),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=2),
    "lerp": lambda x: torch.lerp(x, 2 * x, 0.25),
    "sums": lambda x: x.sum(0) + x.sum() + x.sum(1, keepdim=True),
    "mean": lambda x: x.mean(1),
    "cumsum": lambda x: x.cumsum(1),
    "prod": lambda x: x[:, :3].prod(1) + x[0, :2].prod(),
    "cumprod": lambda x: x[:, :3].cumprod(1),
    "mm": lambda x: x @ x.T,
    "bmm": lambda x: torch.bmm(x[None], x.T[None]),
    "mv": lambda x: x @ x[0],
    "vm": lambda x: x[:, 0] @ x,
    "dot": lambda x: torch.dot(x[0], x[1]) + torch.inner(x[0], x[2]),
    "addmm": lambda x: torch.addmm(x[:, :3], x, x.T, beta=2, alpha=0.5),
    "einsum": lambda x: torch.einsum("ij,kj,ij->ik", x, x, x),
    "outer": lambda x: torch.outer(x[0], x[1]),
    "where": lambda x: torch.where(MASK, x, 0.5),
    "masked_fill": lambda x: x.masked_fill(MASK, 2.0),
    "maximum": lambda x: torch.maximum(x, x.flip(0)) + torch.minimum(x, 0 * x),
    "clamp": lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0) + x.clamp(max=1),
    "relu": lambda x: torch.relu(x) + F.leaky_relu(x, 0.25) + F.hardtanh(x) + F.threshold(x, 0.5, 2.0),
    "abs": lambda x: x.abs() + x.sign() * x,
    "extrema": lambda x: x.max(1).values + x.min(1)[0] + x.amax(1) + x.amin((0, 1)) + x.max() + x.min(),
    "sort": lambda x: x.sort(1, descending=True).values + x.topk(4, 1).values,
    "cummax": lambda x: x.cummax(1).values + x.cummin(0).values,
    "median": lambda x: x.median(1).values + x.kthvalue(2, 1).values,
    "views": lambda x: x.T.reshape(2, 6)[:, 1:4].unsqueeze(1).expand(2, 2, 3).permute(1, 0, 2).contiguous().view(4, 3),
    "flip and roll": lambda x: x.flip(0) + x.roll(1, 1) + x.repeat(1, 2)[:, ::2] + x.tile(2, 1)[:3],
    "cat": lambda x: torch.cat([x, torch.ones(1, 4), torch.stack([x[0], x[1]])]),
    "triangles": lambda x: x.tril() + x.triu(1) + torch.diag(x[0, :3]) @ x + x.diagonal().sum(),
    "gather": lambda x: x.gather(1, INDEX) + x[ROWS] + x.index_select(0, ROWS) + x[:, [1, 0, 0, 3]],
    "take": lambda x: x.take(INDEX) + torch.take_along_dim(x, INDEX, 1),
    "scatter": lambda x: x.scatter(1, INDEX[:, :1], x[:, :1] * 2).scatter(1, INDEX[:, :1], 0.5),
    "scatter_add": lambda x: x.scatter_add(1, INDEX, x) + x.index_add(0, ROWS, x, alpha=2),
    "scatter_reduce": lambda x: x.scatter_reduce(1, INDEX, x, "sum"),
    "index_put": lambda x: x.index_put((ROWS,), 2 * x, accumulate=True).index_put((torch.tensor([1]),), x[:1]),
    "index_copy": lambda x: x.index_copy(0, torch.tensor([1, 0]), x[1:]).index_fill(1, torch.tensor([2]), 0.5),
    "unfold": lambda x: x.unfold(1, 2, 1).sum(-1),
    "pad": lambda x: F.pad(x, (1, 2)) + F.pad(x, (2, 1), value=0.5),
    "embedding": lambda x: F.embedding(ROWS, x),
    "convolution": lambda x: F.conv1d(x[None], x[:2, :3].reshape(2, 3, 1).expand(2, 3, 2), padding=1, stride=2),
    "grouped convolution": lambda x: F.conv2d(x.reshape(1, 2, 2, 3), x.reshape(2, 1, 2, 3)[..., :2], groups=2),
    "pooling": lambda x: F.max_pool1d(x, 2) + F.avg_pool1d(x, 2),
    "writing": lambda x: _written(x),
    "variance": lambda x: x.var(1, unbiased=False) + torch.var_mean(x, 1, correction=0)[1],
    "losses": lambda x: F.mse_loss(x, 2 * x, reduction="sum") + F.l1_loss(x, 0 * x, reduction="sum"),
    "bincount": lambda x: torch.bincount(ROWS, x[0, :3]) if not x.requires_grad else x[0, :3],
    "trace": lambda x: torch.trace(x) + x.norm(1) + x.norm(float("inf")),
    "heaviside": lambda x: torch.heaviside(x.detach(), x.detach()) * x,
    "made": lambda x: x * torch.full((4,), 0.5) + torch.eye(4)[:3] + torch.arange(4.0) + x.new_ones(4),
    "rounding": lambda x: x.floor() + x.round() + x % 0.5 + torch.div(x, 0.5, rounding_mode="trunc"),
}

REAL = {
    "division": lambda x: x / (x * x + 1) + 1 / (x + 9) + x.reciprocal().nan_to_num(posinf=0.0, neginf=0.0) * 0,
    "exp": lambda x: x.exp() + torch.expm1(x) + torch.exp2(x) + 0.5**x,
    "log": lambda x: (x * x + 1).log() + torch.log1p(x * x) + (x * x + 2).log2() + (x * x + 1).log10(),
    "sqrt": lambda x: (x * x + 1).sqrt() + (x * x + 1) ** 1.5 + (x * x + 1).rsqrt() + (x * x + 1) ** -0.5,
    "powers of any kind": lambda x: (x * x + 1) ** 0.3 + (x * x + 1) ** x,
    "sigmoid": lambda x: x.sigmoid() + x.tanh() + F.softplus(x) + F.silu(x) + F.logsigmoid(x),
    "hyperbolic": lambda x: x.cosh() + x.sinh(),
    "circular": lambda x: x.sin() + x.cos() + x.atan() + torch.atan2(x, x + 9),
    "erf": lambda x: torch.erf(x) + torch.erfc(x) + F.gelu(x),
    "softmax": lambda x: x.softmax(1) + x.log_softmax(0) + x.logsumexp(1, keepdim=True) + torch.logaddexp(x, x + 1),
    "norms": lambda x: x.norm() + torch.linalg.norm(x, dim=1, keepdim=True) + x.norm(3),
    "std": lambda x: x.std(1) + torch.std(x),
    "normalisations": lambda x: F.layer_norm(x, (4,)) + F.batch_norm(x, None, None, training=True),
    "affine layer norm": lambda x: F.layer_norm(x, (4,), x[0], x[1]),
    "entropies": lambda x: F.cross_entropy(x, ROWS) + F.binary_cross_entropy(x.sigmoid(), MASK.to(x.dtype)),
    "logits": lambda x: (
        F.binary_cross_entropy_with_logits(x, MASK.to(x.dtype)) + F.kl_div(x, x.softmax(1), reduction="sum")
    ),
    "similarity": lambda x: F.cosine_similarity(x[:, None], x[None], dim=-1) + F.pairwise_distance(x, x + 1),
    "Huber": lambda x: F.huber_loss(x, 3 * x, delta=0.5) + F.elu(x).sum() + F.selu(x).sum(),
    "xlogy": lambda x: torch.xlogy(x, x * x + 1),
}


def _written(x):
    y = x.clone()
    y[0] = x[1] * 2
    y[:, 1] += x[:, 0]
    y[MASK] = 0.5
    y[ROWS[:2], 1] = x[0, :2]
    y.mul_(2).add_(1)
    return y


def evaluated(function, x):
    args = made_exact((x,), (True,), "given", FIELDS[0])
    found = outcome(function, args, FIELDS[0], time.thread_time() + 60)
    assert not found.raised, found.raised
    return found.results["output 0"], found.results["the gradient of wanted argument 0"]


@pytest.mark.parametrize("name", [*RATIONAL, *REAL])
def test_values_and_gradients_are_torchs(name):
    function = RATIONAL.get(name) or REAL[name]
    x = shortened(torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64), 8)
    output, gradient = evaluated(function, x)
    x.requires_grad_()
    torch.set_default_dtype(torch.float64)
    try:
        expected = function(x)
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(output.value, expected.detach(), rtol=1e-9, atol=1e-9)
    given = cotangent(expected.shape, torch.Generator().manual_seed(1))
    aside = cotangent(x.shape, torch.Generator().manual_seed(2))  # what is left in the argument counts as an output
    (by_torch,) = torch.autograd.grad([expected, x.clone()], x, [given, aside])
    torch.testing.assert_close(gradient.value, by_torch, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", RATIONAL)
def test_residues_are_those_of_the_values(name):
    x = (torch.arange(12).reshape(3, 4) - 5) / 4
    for number in evaluated(RATIONAL[name], x):
        assert isinstance(number, Number)
        for held, told in zip(number.residues, FIELDS[0].of_floats(number.value), strict=True):
            assert torch.equal(held, told)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: str(field.p))
def test_the_moduli_are_what_the_note_says(field: Field):
    assert field.p == 2 * field.q + 1
    for m in field.moduli:
        assert all(pow(a, m - 1, m) == 1 for a in (2, 3, 5, 7, 11, 13))
    assert pow(field.base, field.q, field.p) == 1


def test_inverses_and_powers_are_those_of_integers():
    m = FIELDS[0].p
    numbers = torch.tensor([1, 2, 12345, m - 1])
    assert (numbers * inverse(numbers, m) % m == 1).all()
    assert power(numbers, 5, m).tolist() == [pow(int(n), 5, m) for n in numbers]
    assert power(numbers, numbers, m).tolist() == [pow(int(n), int(n), m) for n in numbers]


def test_a_pseudo_random_function_has_no_pattern():
    m = FIELDS[0].p
    numbers = torch.arange(20_000)
    found = scrambled("sin", 1, m, [numbers])
    assert len(found.unique()) >= 19_998
    assert abs(float(found.double().mean()) / m - 0.5) < 0.01
    assert not torch.equal(found, scrambled("cos", 1, m, [numbers]))
    assert int((found == scrambled("sin", 1, m, [numbers + 1])).sum()) == 0
