"""Programs in which nothing non-finite does harm: nothing is told, and every result is what it is without the watch."""

import copy
from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gradwright.checking.nonfinite import explain_nonfinite


def mlp(steps: int = 3) -> Iterable[Tensor]:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,)), ignore_index=0).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.state_dict().values()


def cnn_with_accumulation_and_ema() -> Iterable[Tensor]:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        for _ in range(2):
            (model(torch.randn(4, 1, 8, 8)).square().mean() / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters(), strict=True):
                kept.mul_(0.9).add_(new, alpha=0.1)
    return average.state_dict().values()


def gan() -> Iterable[Tensor]:
    maker, judge = nn.Linear(2, 4), nn.Linear(4, 1)
    optimizers = [torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())]
    for _ in range(2):
        fake = maker(torch.randn(6, 2))
        (judge(fake.detach()).mean() - judge(torch.randn(6, 4)).mean()).backward()
        optimizers[1].step()
        optimizers[1].zero_grad()
        (-judge(fake).mean()).backward()
        optimizers[0].step()
        for optimizer in optimizers:
            optimizer.zero_grad()
    return [*maker.parameters(), *judge.parameters()]


def vae_with_gradient_penalty() -> Iterable[Tensor]:
    encode, decode = nn.Linear(4, 4), nn.Linear(2, 4)
    x = torch.randn(5, 4, requires_grad=True)
    mean, log_variance = encode(x).chunk(2, -1)
    z = mean + torch.randn(5, 2) * (log_variance / 2).exp()
    loss = F.mse_loss(decode(z), x) - 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).mean()
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    (loss + (slope.norm(dim=1) - 1).square().mean()).backward()
    return [p.grad for p in [*encode.parameters(), *decode.parameters()]]


def transformer_with_a_mask() -> Iterable[Tensor]:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    layer(torch.randn(2, 4, 8), src_mask=mask).sum().backward()
    return [p.grad for p in layer.parameters()]


def attention_by_hand() -> Iterable[Tensor]:
    x = torch.randn(2, 4, 4, requires_grad=True)
    scores = x.clone()
    scores[:, :, 0] = -torch.inf
    additive = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    seen = torch.tensor([1.0, 1.0, 1.0, 0.0]).log()
    weights = (scores + seen).softmax(-1) + (x + additive).log_softmax(-1).exp()
    (weights @ x).logsumexp(-1).sum().backward()
    assert x.grad is not None
    return [x.grad]


def branches_without_gradient() -> Iterable[Tensor]:
    x, w = torch.tensor([0.0, 1.0]), torch.ones(2, requires_grad=True)
    safe = torch.where(x > 0, torch.log(x), 0.0)
    rate = torch.nan_to_num(x / x)
    best = torch.tensor(float("inf"))
    bounded = (w * 1e30 * 1e20).clamp(max=10)
    loss = (w * safe).sum() + (w * rate).sum() + bounded.sum()
    loss.backward()
    assert w.grad is not None
    return [torch.minimum(best, loss.detach()), w.grad]


def scaled_gradients_that_overflow() -> Iterable[Tensor]:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    for _ in range(4):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = (model(torch.randn(8, 4) * 10) ** 2).float().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() < 2.0**24  # it did overflow
    return model.parameters()


def lbfgs() -> Iterable[Tensor]:
    p = torch.randn(5, requires_grad=True)
    optimizer = torch.optim.LBFGS([p], max_iter=5, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = ((p - 1) ** 4).sum()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    return [p]


def checkpointed() -> Iterable[Tensor]:
    layer = nn.Linear(3, 3)
    x = torch.randn(2, 3, requires_grad=True)
    y = checkpoint(lambda one: F.dropout(layer(one), 0.5), x, use_reentrant=False)
    checkpoint(layer, y, use_reentrant=True).sum().backward()
    assert x.grad is not None and layer.weight.grad is not None
    return [x.grad, layer.weight.grad]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            again = x.detach().requires_grad_()
            return torch.autograd.grad((again**2).sum(), again)[0] * g


def custom_function_with_a_backward_inside() -> Iterable[Tensor]:
    x = torch.randn(3, requires_grad=True)
    loss = Square.apply(x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert x.grad is not None
    return [x.grad]


def evaluation() -> Iterable[Tensor]:
    model = nn.LSTM(2, 3)
    with torch.no_grad():
        out = model(torch.randn(4, 1, 2))[0].log()
    with torch.inference_mode():
        torch.zeros(2).log()
    return [torch.nan_to_num(out)]


def transforms() -> Iterable[Tensor]:
    per_sample = torch.func.vmap(torch.func.grad(lambda x: (x**3).sum()))(torch.randn(3, 4))
    return [per_sample, torch.func.jacrev(torch.sin)(per_sample[0])]


def half_precision_below_its_end() -> Iterable[Tensor]:
    x = torch.full((1000,), 100.0, dtype=torch.float16, requires_grad=True)
    (x * 1).mean().backward()  # the sum alone would overflow
    assert x.grad is not None
    return [x.grad]


def memory_that_is_written_before_it_is_read() -> Iterable[Tensor]:
    buffer = torch.empty(64).fill_(float("nan"))
    w = torch.ones(64, requires_grad=True)
    buffer.copy_(torch.arange(64.0))
    (buffer * w).sum().backward()
    assert w.grad is not None
    return [w.grad]


def several_losses_and_sparse_gradients() -> Iterable[Tensor]:
    table = nn.Embedding(5, 2, sparse=True)
    first = table(torch.tensor([1, 2])).sum()
    second = table(torch.tensor([2, 3])).pow(2).sum()
    torch.autograd.backward([first, second])
    return [table.weight.grad.to_dense()]


CLEAN = [
    mlp,
    cnn_with_accumulation_and_ema,
    gan,
    vae_with_gradient_penalty,
    transformer_with_a_mask,
    attention_by_hand,
    branches_without_gradient,
    scaled_gradients_that_overflow,
    lbfgs,
    checkpointed,
    custom_function_with_a_backward_inside,
    evaluation,
    transforms,
    half_precision_below_its_end,
    memory_that_is_written_before_it_is_read,
    several_losses_and_sparse_gradients,
]


@pytest.mark.parametrize("program", CLEAN, ids=lambda program: program.__name__)
def test_nothing_is_told_and_nothing_changed(program: Callable[[], Iterable[Tensor]], capsys) -> None:
    torch.manual_seed(3)
    expected = [one.clone() for one in program()]
    state = torch.get_rng_state()
    torch.manual_seed(3)
    with explain_nonfinite() as watch:
        found = list(program())
    assert watch.first is None, watch.report
    assert watch.report == ""
    assert watch.faults == []
    assert capsys.readouterr().err == ""
    assert torch.equal(torch.get_rng_state(), state)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
