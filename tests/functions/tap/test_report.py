"""After a backward the report tells each parameter's gradient, and flags what is conspicuous and nothing else."""

import math

import pytest
import torch
from torch import nn

from gradwright.errors import UsageError
from gradwright.functions.tap import gradient_report


def words(report):
    return {row.name: [flag.word for flag in row.flags] for row in report.rows if row.flags}


def parameter(value, gradient=None):
    made = nn.Parameter(torch.as_tensor(value, dtype=torch.float32))
    if gradient is not None:
        made.grad = torch.as_tensor(gradient, dtype=torch.float32).expand(made.shape).clone()
    return made


class Net(nn.Module):
    """Something of everything: shared, frozen, unused, dead, a parameter without a layer."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))
        self.embed = nn.Embedding(20, 8)
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.unused = nn.Linear(8, 2)
        self.dead = nn.Linear(8, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, words):
        h = self.body(self.embed(words))
        h = h + torch.relu(self.dead(h) - 100.0)
        return self.head(self.frozen(h) * self.gain)


@pytest.fixture
def net():
    torch.manual_seed(0)
    model = Net()
    model(torch.arange(6)).logsumexp(1).sum().backward()
    return model


def test_each_figure_is_that_of_the_gradient(net):
    rows = {row.name: row for row in gradient_report(net).rows}
    for name, tensor in net.named_parameters():
        row = rows[name]
        assert row.parameter.norm == pytest.approx(tensor.norm().item(), rel=1e-5)
        assert (row.gradient is None) == (tensor.grad is None)
        if tensor.grad is not None:
            assert row.gradient.norm == pytest.approx(float(tensor.grad.norm()), rel=1e-5)
            assert (row.gradient.minimum, row.gradient.maximum) == (float(tensor.grad.min()), float(tensor.grad.max()))
            assert row.gradient.zeros == int((tensor.grad == 0).sum())
            assert row.ratio == pytest.approx((tensor.grad.norm() / tensor.norm()).item(), rel=1e-5)


def test_missing_frozen_and_dead_are_told_apart(net):
    assert words(gradient_report(net)) == {
        "unused.weight": ["missing"], "unused.bias": ["missing"], "dead.weight": ["dead"], "dead.bias": ["dead"],
    }  # fmt: skip
    frozen = {row.name for row in gradient_report(net).rows if not row.requires_grad}
    assert frozen == {"frozen.weight", "frozen.bias"}


def test_a_shared_parameter_is_told_once(net):
    report = gradient_report(net)
    (shared,) = (row for row in report.rows if row.also)
    assert (shared.name, shared.also) == ("embed.weight", ("head.weight",))
    assert "embed.weight is also head.weight" in str(report)


def test_layers_are_their_parameters_together(net):
    report = gradient_report(net)
    (layer,) = (layer for layer in report.layers if layer.name == "body.0")
    weight, bias = net.body[0].weight, net.body[0].bias
    assert layer.kind == "Linear" and [row.name for row in layer.parameters] == ["body.0.weight", "body.0.bias"]
    whole = torch.cat([weight.grad.flatten(), bias.grad])
    assert layer.gradient.norm == pytest.approx(float(whole.norm()), rel=1e-5)
    assert layer.gradient.elements == whole.numel()
    assert layer.ratio == pytest.approx((whole.norm() / torch.cat([weight.flatten(), bias]).norm()).item(), rel=1e-5)


def test_the_norm_of_all_is_what_clipping_compares(net):
    assert gradient_report(net).norm == pytest.approx(float(nn.utils.get_total_norm(
        [p.grad for p in net.parameters() if p.grad is not None])), rel=1e-5)  # fmt: skip


def test_the_report_reads_as_a_table(net):
    lines = str(gradient_report(net)).splitlines()
    assert lines[0].startswith("Net: 10 parameters, 2 frozen, 2 missing, 2 dead, gradient norm ")
    assert all(len(line) <= 100 for line in lines)
    columns = {line.split()[1]: line.split() for line in lines[3:] if line.startswith("! ") and ":" not in line}
    assert columns["unused"][2] == "Linear" and columns["unused"][-1] == "none"
    assert columns["dead"][4:9] == ["0", "0", "0", "0", "100%"]
    assert any(line.split()[:2] == ["frozen", "Linear"] and line.endswith("frozen") for line in lines)
    assert any(line.split()[:2] == ["gain", "f32[]"] for line in lines)
    assert "! dead: dead.weight: all 64 entries of its gradient are zero" in lines


def test_before_a_backward_it_says_so():
    report = gradient_report(nn.Linear(2, 2))
    assert str(report).startswith("Linear: no parameter has a gradient; read it after backward()")
    assert math.isnan(report.norm) and words(report) == {"weight": ["missing"], "bias": ["missing"]}


def test_pairs_of_name_and_tensor_are_read_too():
    made = {"encoder.w": parameter([3.0, 4.0], [1.0, 0.0]), "b": parameter([1.0], [2.0])}
    report = gradient_report(iter(made.items()))
    assert [(row.name, row.layer) for row in report.rows] == [("encoder.w", "encoder"), ("b", "")]
    assert report.rows[0].ratio == pytest.approx(0.2)


def test_a_sparse_gradient_is_read_with_its_zeros():
    embedding = nn.Embedding(10, 2, sparse=True)
    embedding(torch.tensor([1, 1, 3])).sum().backward()
    (row,) = gradient_report(embedding).rows
    assert (row.gradient.zeros, row.gradient.maximum, row.gradient.elements) == (16, 2.0, 20)


def test_what_cannot_be_read_is_listed():
    lazy = nn.Sequential(nn.LazyLinear(2), nn.Linear(2, 1, device="meta"))
    report = gradient_report(lazy)
    assert report.rows == () and {entry.name for entry in report.not_seen} == {
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
    }
    assert "not seen: 0.weight: a lazy parameter" in str(report)


def test_a_tensor_with_a_history_needs_retain_grad():
    x = torch.ones(2, requires_grad=True)
    y, z = x * 2, x * 3
    z.retain_grad()
    (y * z).sum().backward()
    report = gradient_report([("y", y), ("z", z)])
    assert [row.name for row in report.rows] == ["z"] and report.rows[0].gradient.maximum == 2.0
    assert [(entry.name, entry.why) for entry in report.not_seen] == [
        ("y", "not a leaf, and retain_grad() was not called")
    ]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64], ids=str)
def test_any_dtype_is_read(dtype):
    weight = nn.Parameter(torch.ones(3, dtype=dtype))
    weight.grad = torch.full((3,), 2.0).to(dtype)
    (row,) = gradient_report([("w", weight)]).rows
    assert (row.ratio, row.dtype) == (pytest.approx(2.0), str(dtype).removeprefix("torch."))


def test_nothing_is_changed(net):
    before = {name: (p.detach().clone(), p.grad, p._version) for name, p in net.named_parameters()}
    state = torch.get_rng_state()
    str(gradient_report(net)), gradient_report(net)._repr_html_()
    for name, p in net.named_parameters():
        assert torch.equal(p, before[name][0]) and p.grad is before[name][1] and p._version == before[name][2]
    assert torch.equal(torch.get_rng_state(), state)


def test_a_large_model_is_told_by_layers():
    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(120)])
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    model[117].weight.grad.zero_()
    text = str(gradient_report(model))
    assert len(text.splitlines()) < 100
    assert next(line.split()[:3] for line in text.splitlines() if line.startswith("!")) == ["!", "117", "Linear"]
    assert "tensor" not in text  # a column without content
    assert "40 more layers without a flag: .layers has them" in text
    assert "each alone: .rows (240 parameters)" in text
    assert len(gradient_report(model).rows) == 240


def test_of_many_flags_of_a_kind_the_first_are_told_and_the_others_named():
    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(6)])
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    lines = str(gradient_report(model)).splitlines()
    assert sum(line.startswith("! dead: ") for line in lines) == 4
    (others,) = (line for line in lines if line.startswith("! dead too: "))
    assert others == "! dead too: 2.weight, 2.bias, 3.weight, 3.bias, 4.weight, 4.bias, 5.weight, 5.bias"


def test_html_is_escaped():
    html = gradient_report([("<b>w</b>", parameter([1.0], [math.nan]))])._repr_html_()
    assert "<b>w</b>" not in html and "&lt;b&gt;w&lt;/b&gt;" in html and 'class="bad"' in html


@pytest.mark.parametrize("wrong", [3, "model", [nn.Linear(1, 1)], [("w", 3)], torch.ones(2, 2), None], ids=str)
def test_what_has_no_parameters_is_refused(wrong):
    with pytest.raises(UsageError, match="gradient_report reads a module"):
        gradient_report(wrong)


def test_a_model_without_parameters_has_an_empty_report():
    assert str(gradient_report(nn.ReLU())) == "ReLU: 0 parameters\n"
