"""Planted faults: where each begins (line and column), in which half, and why. ``# here: `` marks the expression."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gradwright.checking.nonfinite import NonfiniteBegin, explain_nonfinite


def root_of_a_sum_that_is_zero():
    x = torch.zeros(3, requires_grad=True)
    s = (x**2).sum()
    r = torch.sqrt(s)  # here: torch.sqrt(s)
    r.backward()


def where_over_log():
    x = torch.tensor([1.0, 0.0, 2.0], requires_grad=True)
    y = torch.where(x > 0, torch.log(x), torch.zeros_like(x))  # here: torch.log(x)
    y.sum().backward()


def where_over_root():
    x = torch.tensor([4.0, 0.0], requires_grad=True)
    torch.where(x > 0, x.sqrt(), x).sum().backward()  # here: x.sqrt()


def where_over_quotient():
    x = torch.tensor([4.0, 0.0], requires_grad=True)
    torch.where(x > 0, 1 / (x * x), 0.0).sum().backward()  # here: 1 / (x * x)


def where_over_exponential():
    x = torch.tensor([1000.0, 1.0], requires_grad=True)
    softplus = torch.log1p(torch.exp(x))  # here: torch.exp(x)
    torch.where(x > 50, x, softplus).sum().backward()


def where_over_missing_data():
    x, w = torch.tensor([1.0, float("nan")]), torch.ones(2, requires_grad=True)
    torch.where(x.isnan(), 0.0, x * w).sum().backward()  # here: x * w


def power_at_zero():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    (x**0.5).sum().backward()  # here: x**0.5


def distances_of_equal_points():
    x = torch.zeros(3, 2, requires_grad=True)
    square = ((x[:, None] - x[None]) ** 2).sum(-1)
    square.sqrt().sum().backward()  # here: square.sqrt()


def acos_at_one():
    x = torch.tensor([1.0, 0.5], requires_grad=True)
    torch.acos(x).sum().backward()  # here: torch.acos(x)


def acos_beyond_one():
    x = torch.tensor([1.0001, 0.5], requires_grad=True)
    torch.acos(x).sum().backward()  # here: torch.acos(x)


def log_of_zero():
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    p = torch.sigmoid(x * 200)
    (-(1 - p).log()).mean().backward()  # here: (1 - p).log()


def log_in_place():
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    y = x.clone()
    y.log_()  # here: y.log_()
    y.sum().backward()


def root_of_negative():
    x = torch.tensor([1.0, -1e-9], requires_grad=True)
    x.sqrt().sum().backward()  # here: x.sqrt()


def exponential_overflows():
    model = nn.Linear(2, 2)
    nn.init.ones_(model.weight)
    torch.exp(model(torch.full((3, 2), 100.0))).mean().backward()  # here: torch.exp(model(torch.full((3, 2), 100.0)))


def half_product():
    x = torch.full((4,), 300.0, dtype=torch.float16, requires_grad=True)
    (x * x).float().sum().backward()  # here: x * x


def half_sum():
    x = torch.full((1000,), 100.0, dtype=torch.float16, requires_grad=True)
    x.sum().backward()  # here: x.sum()


def half_conversion():
    x = torch.full((2,), 1e5, requires_grad=True)
    x.half().float().sum().backward()  # here: x.half()


def half_under_autocast():
    layer = nn.Linear(2, 2)
    with torch.autocast("cpu", dtype=torch.float16):
        y = layer(torch.ones(1, 2)) + 100.0
        z = (y * y) * 100.0  # here: (y * y) * 100.0
    z.float().sum().backward()


def half_product_of_three_axes():
    layer = nn.Linear(4, 4).half()
    x = torch.full((2, 3, 4), 6e4, dtype=torch.float16)
    y = layer(x * 1) * 1 + F.linear(x, torch.ones(4, 4).half())  # here: F.linear(x, torch.ones(4, 4).half())
    y.float().sum().backward()


def half_einsum():
    x = torch.full((4, 4), 300.0, dtype=torch.float16, requires_grad=True)
    torch.einsum("ij,jk->ik", x, x).float().sum().backward()  # here: torch.einsum("ij,jk->ik", x, x)


def gradients_that_grow_in_products():
    w = nn.Parameter(torch.eye(3) * 1e5)
    h = torch.full((1, 3), 1e-38)
    for _ in range(8):
        h = h @ w  # here: h @ w
    h.sum().backward(torch.tensor(1e36))


def power_overflows():
    x = torch.tensor([1000.0, 2.0], requires_grad=True)
    (10**x).sum().backward()  # here: 10**x


def softmax_of_inf():
    x = torch.zeros(3, requires_grad=True)
    noise = -torch.log(-torch.log(torch.tensor([0.0, 0.5, 1.0])))
    (x + noise).softmax(0)[1].backward()  # here: (x + noise).softmax(0)


def target_too_long():
    p, target = torch.randn(2, 1, 5, requires_grad=True).log_softmax(-1), torch.tensor([[1, 2, 3]])
    sizes = torch.tensor([2]), torch.tensor([3])
    F.ctc_loss(p, target, *sizes).backward()  # here: F.ctc_loss(p, target, *sizes)


def count_of_nothing():
    x, mask = torch.randn(4, requires_grad=True), torch.zeros(4)
    loss = (x * mask).sum() / mask.sum()  # here: (x * mask).sum() / mask.sum()
    loss.backward()


def advantages_that_are_all_the_same():
    returns, x = torch.ones(4), torch.randn(4, requires_grad=True)
    scaled = (returns - returns.mean()) / returns.std()  # here: (returns - returns.mean()) / returns.std()
    (x * scaled).sum().backward()


def features_that_do_not_vary():
    x = torch.ones(4, 3, requires_grad=True)
    spread = x.std(dim=0)
    (x - 1).div(spread).sum().backward()  # here: (x - 1).div(spread)


def range_of_nothing():
    x, w = torch.ones(4), torch.randn(4, requires_grad=True)
    (w * (x - x.min()) / (x - 1).max()).sum().backward()  # here: w * (x - x.min()) / (x - 1).max()


def features_in_logarithms():
    net, counts = torch.nn.Linear(3, 1), torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0]])
    features = torch.log(counts)  # here: torch.log(counts)
    net(features).square().mean().backward()


def mask_in_logarithms():
    scores, keep = torch.randn(2, 3, requires_grad=True), torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    (scores + keep.log()).softmax(1).square().sum().backward()  # here: (scores + keep.log()).softmax(1)


def mean_of_nothing():
    x = torch.randn(4, requires_grad=True)
    x[x > 100].mean().backward()  # here: x[x > 100].mean()


def everything_ignored():
    x = torch.randn(4, 3, requires_grad=True)
    F.cross_entropy(x, torch.full((4,), -100)).backward()  # here: F.cross_entropy(x, torch.full((4,), -100))


def quotient_of_zero():
    x, y = torch.ones(3, requires_grad=True), torch.tensor([1.0, 0.0, 2.0], requires_grad=True)
    (x / y).sum().backward()  # here: x / y


def normalized_zero():
    x = torch.zeros(2, 3, requires_grad=True)
    y = x / x.norm(dim=1, keepdim=True)  # here: x / x.norm(dim=1, keepdim=True)
    y.sum().backward()


def normalized_zero_in_half():
    x = torch.zeros(1, 4, dtype=torch.float16, requires_grad=True)
    F.normalize(x).sum().backward()  # here: F.normalize(x)


def masked_row():
    x, mask = torch.randn(2, 3, requires_grad=True), torch.tensor([[True, True, True], [False, True, False]])
    scores = x.masked_fill(mask, float("-inf"))
    scores.softmax(-1).sum().backward()  # here: scores.softmax(-1)


def masked_row_of_attention():
    attention, x = nn.MultiheadAttention(4, 1, batch_first=True), torch.randn(2, 3, 4)
    pad = torch.tensor([[True] * 3, [False] * 3])
    y, _ = attention(x, x, x, key_padding_mask=pad)  # here: attention(x, x, x, key_padding_mask=pad)
    y.sum().backward()


def zero_times_inf():
    target, logits = torch.tensor([0.0, 1.0]), torch.randn(2, requires_grad=True)
    gap = target.log() - logits.log_softmax(0)
    (target * gap).sum().backward()  # here: target * gap


def values_exploded():
    x = torch.tensor([9e19, 1.0], requires_grad=True)
    error = x - 1
    (error**2).mean().backward()  # here: error**2


def input_holds_nan():
    x = torch.from_numpy(np.array([[1.0, float("nan")]], dtype="float32"))
    model = nn.Sequential(nn.Linear(2, 1))
    model(x).sum().backward()


def backward_of_ones_own():
    class Sign(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.abs()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x / x.abs()  # here: g * x / x.abs()

    Sign.apply(torch.tensor([0.0, 1.0], requires_grad=True)).sum().backward()


def forward_of_ones_own():
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.exp(x * 1000)  # here: torch.exp(x * 1000)

        @staticmethod
        def backward(ctx, g):
            return g

    (Exp.apply(torch.ones(2, requires_grad=True)) * 2).sum().backward()


def second_derivative():
    x, w = torch.zeros(2, 3, requires_grad=True), torch.zeros(3, 1, requires_grad=True)
    (g,) = torch.autograd.grad((x @ w).sum(), x, create_graph=True)
    norm = g.pow(2).sum(1)
    ((norm.sqrt() - 1) ** 2).mean().backward()  # here: norm.sqrt()


def in_a_checkpoint():
    from torch.utils.checkpoint import checkpoint

    def piece(x):
        return torch.where(x > 0, x.log(), x)  # here: x.log()

    x = torch.tensor([0.0, 1.0], requires_grad=True)
    checkpoint(piece, x * 1, use_reentrant=False).sum().backward()


def in_a_reentrant_checkpoint():
    from torch.utils.checkpoint import checkpoint

    def piece(x):
        return torch.where(x > 0, x.log(), x)  # here: x.log()

    x = torch.tensor([0.0, 1.0], requires_grad=True)
    checkpoint(piece, x * 1, use_reentrant=True).sum().backward()


def with_autograd_grad():
    x = torch.zeros(2, requires_grad=True)
    torch.autograd.grad((x**0.5).sum(), x)  # here: x**0.5


def under_a_scaler():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    scaler.scale(torch.where(x > 0, x.log(), 0.0).sum()).backward()  # here: x.log()


def a_hook_of_ones_own():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g / torch.zeros(2))  # here: g / torch.zeros(2)
    y.sum().backward()


def the_step_itself():
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=1e38)
    for _ in range(2):
        optimizer.zero_grad()
        (p * 1e3).sum().backward()
        optimizer.step()  # here: optimizer.step()


def a_loss_that_nobody_differentiates():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    loss = x.log().mean()  # here: x.log()
    assert not torch.isfinite(loss)
    return loss


def spectral():
    x = torch.eye(3, requires_grad=True)
    u, _, _ = torch.linalg.svd(x * 1)  # here: torch.linalg.svd(x * 1)
    u.sum().backward()


PLANTED: list[tuple[Callable, str, str]] = [
    (root_of_a_sum_that_is_zero, "boundary", "backward"),
    (where_over_log, "where-nan", "backward"),
    (where_over_root, "where-nan", "backward"),
    (where_over_quotient, "where-nan", "backward"),
    (where_over_exponential, "exp-overflow", "forward"),
    (where_over_missing_data, "where-nan", "backward"),
    (power_at_zero, "boundary", "backward"),
    (distances_of_equal_points, "boundary", "backward"),
    (acos_at_one, "boundary", "backward"),
    (acos_beyond_one, "boundary", "forward"),
    (log_of_zero, "boundary", "forward"),
    (log_in_place, "boundary", "forward"),
    (root_of_negative, "boundary", "forward"),
    (exponential_overflows, "exp-overflow", "forward"),
    (half_product, "half-overflow", "forward"),
    (half_sum, "half-overflow", "forward"),
    (half_conversion, "half-overflow", "forward"),
    (half_under_autocast, "half-overflow", "forward"),
    (half_product_of_three_axes, "half-overflow", "forward"),
    (half_einsum, "half-overflow", "forward"),
    (gradients_that_grow_in_products, "explosion", "backward"),
    (power_overflows, "exp-overflow", "forward"),
    (softmax_of_inf, "inf-minus-inf", "forward"),
    (target_too_long, "boundary", "forward"),
    (count_of_nothing, "zero-count", "forward"),
    (mean_of_nothing, "zero-count", "forward"),
    (features_in_logarithms, "boundary", "forward"),
    (mask_in_logarithms, "masked-row", "forward"),
    (advantages_that_are_all_the_same, "zero-spread", "forward"),
    (features_that_do_not_vary, "zero-spread", "forward"),
    (range_of_nothing, "division-by-zero", "forward"),
    (everything_ignored, "zero-count", "forward"),
    (quotient_of_zero, "division-by-zero", "forward"),
    (normalized_zero, "normalize-at-zero", "forward"),
    (normalized_zero_in_half, "normalize-at-zero", "forward"),
    (masked_row, "masked-row", "forward"),
    (masked_row_of_attention, "masked-row", "forward"),
    (zero_times_inf, "zero-times-inf", "forward"),
    (values_exploded, "explosion", "forward"),
    (backward_of_ones_own, "division-by-zero", "inside backward"),
    (forward_of_ones_own, "exp-overflow", "forward"),
    (second_derivative, "boundary", "backward"),
    (in_a_checkpoint, "where-nan", "backward"),
    (in_a_reentrant_checkpoint, "where-nan", "backward"),
    (with_autograd_grad, "boundary", "backward"),
    (under_a_scaler, "where-nan", "backward"),
    (a_hook_of_ones_own, "division-by-zero", "inside backward"),
    (the_step_itself, "update", "optimizer step"),
    (a_loss_that_nobody_differentiates, "boundary", "forward"),
    (spectral, "boundary", "backward"),
]


def found_in(planted: Callable) -> NonfiniteBegin:
    torch.manual_seed(0)
    with explain_nonfinite(echo=False) as watch:
        kept = planted()
    del kept
    assert watch.faults == []
    assert watch.first is not None
    return watch.first


def marked(planted: Callable) -> tuple[int, int, str]:
    """Line and column of the marked expression."""
    lines, first = inspect.getsourcelines(planted)
    for number, line in enumerate(lines):
        code, mark, text = line.partition("  # here: ")
        if mark:
            return first + number, code.index(text.strip()) + 1, text.strip()
    raise AssertionError(f"{planted.__name__} marks nothing")


@pytest.mark.parametrize(("planted", "kind", "phase"), PLANTED, ids=lambda value: getattr(value, "__name__", None))
def test_the_first_operation_is_found_to_the_column_with_its_cause(planted: Callable, kind: str, phase: str) -> None:
    begin = found_in(planted)
    assert (begin.place.line, begin.place.column, begin.place.text) == marked(planted)
    assert begin.place.path == __file__
    assert (begin.kind, begin.phase) == (kind, phase)


def test_where_nan_is_told_with_the_zero_that_arrives_and_who_takes_another_value() -> None:
    begin = found_in(where_over_log)
    line, _, _ = marked(where_over_log)
    assert (begin.value, begin.entry, begin.upstream, dict(begin.operands)) == ("nan", (1,), 0.0, {"operand": 0.0})
    assert f"exactly 0 (the where at line {line} takes another value)" in begin.why


def test_where_anomaly_mode_blames_the_square_the_root_is_found() -> None:
    with torch.autograd.set_detect_anomaly(True), pytest.warns(UserWarning), pytest.raises(RuntimeError, match="PowB"):
        root_of_a_sum_that_is_zero()
    begin = found_in(root_of_a_sum_that_is_zero)
    assert begin.operation == "sqrt (SqrtBackward0)"
    assert (begin.value, begin.upstream) == ("inf", 1.0)


def test_what_follows_is_told_too() -> None:
    begin = found_in(where_over_exponential)
    assert begin.then[0].startswith("in the backward of exp at test_causes.py:")
    assert begin.then[1] == "it is in the gradient of x after this backward"


def test_the_origin_of_an_inf_that_became_nan_is_named() -> None:
    assert found_in(masked_row).then[0].startswith("its -inf came from masked_fill at test_causes.py:")
    assert found_in(zero_times_inf).then[0].startswith("its -inf came from log at test_causes.py:")


def test_data_that_held_nan_from_the_start_are_named() -> None:
    begin = found_in(input_holds_nan)
    assert (begin.operation, begin.phase, begin.value, begin.entry) == ("`x`", "given", "nan", (0, 1))


def test_a_tensor_made_before_the_watch_is_named_as_it_is_called_where_it_is_used() -> None:
    batch, model = torch.tensor([[1.0, float("nan")]]), nn.Sequential(nn.Linear(2, 1))
    with explain_nonfinite(echo=False) as watch:
        model(batch).sum().backward()
    assert watch.first is not None
    assert (watch.first.operation, watch.first.phase, watch.first.kind) == ("`batch`", "given", "given")


def test_a_parameter_that_is_nan_from_the_start_has_its_name() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[1].bias.data.fill_(float("nan"))
    with explain_nonfinite(echo=False) as watch:
        model(torch.ones(1, 2)).sum().backward()
    assert watch.first is not None
    assert watch.first.operation == "`model.1.bias`"


def test_the_count_is_named_as_it_stands_in_the_source() -> None:
    assert found_in(count_of_nothing).why.startswith("`mask.sum()`, the divisor, is a count or a sum of nothing")


def test_an_inner_step_of_a_function_of_torchs_tells_the_cause() -> None:
    def loss():
        F.poisson_nll_loss(torch.full((3,), 200.0, requires_grad=True) * 1, torch.ones(3)).backward()

    begin = found_in(loss)
    assert (begin.operation, begin.kind) == ("poisson_nll_loss", "exp-overflow")
