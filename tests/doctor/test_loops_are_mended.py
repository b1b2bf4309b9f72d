"""``gw.diagnose`` on functions with loops: the fix as array code, or the reason why there is none."""

import pytest
import torch

import gradwright as gw
from gradwright.doctor.session.model import Finding


def pairwise(a, b):
    d = torch.zeros(len(a), len(b), dtype=a.dtype)
    for i in range(len(a)):
        for j in range(len(b)):
            d[i, j] = ((a[i] - b[j]) ** 2).sum()
    return d


def energy(v):
    return v.exp().sum() + 1


def energies(x):
    out = []
    for row in x:
        out.append(energy(row))
    return torch.stack(out)


def confusion(t, p):
    m = torch.zeros(4, 4, dtype=torch.long)
    for i in range(len(t)):
        m[t[i], p[i]] += 1
    return m


def counted(t, classes):
    counts = [0.0] * classes
    for i in range(len(t)):
        counts[t[i].item()] += 1
    return counts


def in_bins(x, bins):
    total = 0.0
    for b in range(bins):
        inside = (x > b / bins) & (x <= (b + 1) / bins)
        total += inside.sum().item() * x[inside].sum().item()
    return total


def overlaps(found, wanted, classes):
    ratios = []
    for kind in range(classes):
        mine, theirs = found == kind, wanted == kind
        ratios.append((mine & theirs).sum() / ((mine | theirs).sum() + 1e-6))
    return torch.stack(ratios)


def smoothed(x):
    out = x.clone()
    for i in range(1, len(x)):
        out[i] = torch.tanh(0.5 * out[i - 1] + x[i])
    return out


class Decayed(torch.autograd.Function):
    """A linear recurrence over rows: each row needs the one before."""

    @staticmethod
    def forward(ctx, x):
        out = torch.zeros_like(x)
        out[0] = x[0]
        for t in range(1, x.shape[0]):
            out[t] = 0.5 * out[t - 1] + torch.tanh(out[t - 1] * x[t])
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, out = ctx.saved_tensors
        left = grad.clone()
        grad_x = torch.zeros_like(x)
        for t in range(x.shape[0] - 1, 0, -1):
            slope = 1 - torch.tanh(out[t - 1] * x[t]) ** 2
            grad_x[t] = left[t] * slope * out[t - 1]
            left[t - 1] += left[t] * (0.5 + slope * x[t])
        grad_x[0] = left[0]
        return grad_x


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.linspace(-1, 1, 6))

    def forward(self, x):
        return torch.stack([(x[b] * self.w).sum() for b in range(x.shape[0])])


def loops(report) -> list[Finding]:
    return [finding for finding in report.findings if finding.code in ("GW301", "GW304")]


def added(finding: Finding) -> str:
    assert finding.fix is not None, finding.candidates
    lines = finding.fix.diff.splitlines()
    return "\n".join(line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++"))


X = torch.linspace(-2, 2, 96).reshape(24, 4)


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        pytest.param(pairwise, (X[:12], X[:10] + 0.3), "d = ((a[:, None] - b) ** 2).sum(-1)", id="pairs of rows"),
        pytest.param(energies, (X.repeat(4, 1),), "return torch.vmap(energy)(x)", id="rows through a helper"),
        pytest.param(
            Scaled(), (torch.randn(60, 6, requires_grad=True),), "return (x * self.w).sum(-1)", id="a module's forward"
        ),
    ],
)
def test_a_loop_becomes_array_code(function, args, expected):
    (finding,) = loops(gw.diagnose(function, *args))
    assert added(finding) == expected
    proof = finding.fix.proof
    assert proof.mutants_rejected == proof.mutants_tried >= 10
    assert proof.before_operations > proof.after_operations > 0
    assert proof.after_seconds > 0 < proof.before_seconds


def test_a_loop_over_whole_numbers_alone_is_looked_at_too():
    t = torch.arange(96) % 4
    (finding,) = loops(gw.diagnose(confusion, t, t.flip(0)))
    assert "index_put_" in added(finding)
    assert "accumulate=True" in added(finding)


def test_a_number_that_only_says_how_long_a_list_is_may_be_used():
    (finding,) = loops(gw.diagnose(counted, torch.arange(96) % 4, 4))
    assert "bincount(minlength=classes)" in added(finding)


def test_a_small_number_that_float32_loses_is_told_from_another_in_float64():
    t = torch.arange(160) % 40
    (finding,) = loops(gw.diagnose(overlaps, t, t.flip(0), 40))
    assert "torch.arange(classes)" in added(finding)
    assert finding.fix.proof.mutants_rejected == finding.fix.proof.mutants_tried >= 10


def test_a_loop_whose_rounds_are_no_axis_of_anything_says_so():
    report = gw.diagnose(in_bins, torch.linspace(0, 1, 60), 40)
    assert not loops(report)
    assert any("no tensor is indexed by what its rounds count" in one.why for one in report.not_examined)


def test_a_loop_that_carries_a_dependence_is_left_alone_and_says_why():
    (finding,) = loops(gw.diagnose(smoothed, torch.linspace(-1, 1, 64)))
    assert finding.fix is None
    assert "out[i - 1]" in (finding.candidates[-1].counterexample or "")


def test_a_loop_over_rows_that_carries_a_dependence_is_compiled_inside_a_function():
    found = loops(gw.diagnose(Decayed, torch.randn(90, 4, dtype=torch.float64, requires_grad=True)))
    assert [finding.code for finding in found] == ["GW304", "GW304"]
    for finding in found:
        assert "the same loop, compiled" in finding.message and "written by" in finding.hints[0]
        assert "numba.njit" in added(finding)


def test_the_functions_have_their_own_code_back():
    before = (pairwise.__code__, energies.__code__, energy.__code__)
    gw.diagnose(energies, X)
    assert (pairwise.__code__, energies.__code__, energy.__code__) == before
