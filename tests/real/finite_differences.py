"""The gradients of the Functions that these scripts use, against central differences in float64, entry by entry.

Independent of gradwright: what notes.md says was measured with this. `python tests/real/finite_differences.py`
"""

import kornia.losses.focal as focal
import snntorch.surrogate as surrogate
import torch
import torchsde
from entmax import losses, root_finding
from entmax.activations import Entmax15Function, SparsemaxFunction
from kornia.geometry.epipolar.essential import _NullSpaceBasis
from snntorch.functional.loss import SpikeTime
from torchdiffeq import odeint, odeint_adjoint, odeint_event
from torchdiffeq._impl.misc import _StitchGradient
from torchdiffeq._impl.rk_common import _UncheckedAssign

torch.set_default_dtype(torch.float64)


def gap(label, fn, *inputs, step=1e-6):
    """Print, per input, the largest difference between backward and differences, over the largest entry."""
    torch.manual_seed(1)
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    out = fn(*leaves)
    cotangent = torch.randn_like(out)
    grads = torch.autograd.grad(out, leaves, cotangent, allow_unused=True)
    words = []
    for index, x in enumerate(inputs):
        numeric = torch.zeros_like(x)
        for entry in range(x.numel()):
            values = []
            for sign in (1, -1):
                moved = [y.detach().clone() for y in inputs]
                moved[index].view(-1)[entry] += sign * step
                with torch.no_grad():
                    values.append((fn(*moved) * cotangent).sum().item())
            numeric.view(-1)[entry] = (values[0] - values[1]) / (2 * step)
        returned = grads[index] if grads[index] is not None else torch.zeros_like(x)
        scale = max(numeric.abs().max().item(), returned.abs().max().item(), 1e-300)
        said = " (none returned)" if grads[index] is None else ""
        words.append(f"{(returned - numeric).abs().max().item() / scale:.1e}{said}")
    print(f"{label:58}", "   ".join(words))


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


print("--- torchdiffeq")
gap(
    "_UncheckedAssign: scratch, value",
    lambda k, v: _UncheckedAssign.apply(k.clone(), v, (..., 1)),
    randn(3, 4),
    randn(3),
)
gap("_StitchGradient: x1, out", lambda a, b: _StitchGradient.apply(a, b) * 1, randn(3), randn(3, seed=1))


class Field(torch.nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def forward(self, t, y):
        return torch.tanh(y @ self.w) + torch.sin(t)


times = torch.linspace(0.0, 1.0, 4)
for method, options in [
    ("dopri5", dict(rtol=1e-5, atol=1e-6)),
    ("dopri5", dict(rtol=1e-10, atol=1e-12)),
    ("rk4", dict(options=dict(step_size=0.25))),
]:
    gap(
        f"OdeintAdjointMethod, {method} {options}"[:58],
        lambda y, t, w: odeint_adjoint(Field(w), y, t, method=method, adjoint_params=(w,), **options),
        randn(2, 2),
        times,
        randn(2, 2, seed=1),
        step=1e-5,
    )
gap(
    "the same through plain odeint (dopri5, 1e-10)",
    lambda y, t, w: odeint(Field(w), y, t, method="dopri5", rtol=1e-10, atol=1e-12),
    randn(2, 2),
    times,
    randn(2, 2, seed=1),
    step=1e-5,
)


class Fall(torch.nn.Module):
    def __init__(self, g):
        super().__init__()
        self.g = g

    def forward(self, t, s):
        return s[1], -self.g * torch.ones_like(s[1])


def lands(h, v, g):
    return odeint_event(
        Fall(g), (h, v), torch.tensor(0.0), event_fn=lambda t, s: s[0], method="dopri5", atol=1e-10, rtol=1e-10
    )[0].reshape(1)


gap(
    "ImplicitFnGradientRerouting in use: height, speed, gravity",
    lands,
    torch.tensor([1.0]),
    torch.tensor([3.0]),
    torch.tensor(9.8),
    step=1e-4,
)
h, v, g = (torch.tensor(x, requires_grad=True) for x in (1.0, 3.0, 9.8))
exact = torch.autograd.grad((v + (v * v + 2 * g * h).sqrt()) / g, (h, v, g))
h2, v2, g2 = (
    torch.tensor([1.0], requires_grad=True),
    torch.tensor([3.0], requires_grad=True),
    torch.tensor(9.8, requires_grad=True),
)
got = torch.autograd.grad(lands(h2, v2, g2).sum(), (h2, v2, g2))
print(
    "    against the closed form (v + sqrt(v² + 2gh)) / g:        ",
    ["%.1e" % abs(a.item() / b.item() - 1) for a, b in zip(got, exact)],
)

print("--- torchsde")


class Sde(torch.nn.Module):
    noise_type, sde_type = "diagonal", "stratonovich"

    def __init__(self, w):
        super().__init__()
        self.w = w

    def f(self, t, y):
        return torch.tanh(y @ self.w)

    def g(self, t, y):
        return 0.2 * torch.tanh(y) + 0.1


def path(method, adjoint_method, dt):
    def solve(y, w):
        noise = torchsde.BrownianInterval(0.0, 1.0, size=y.shape, dtype=y.dtype, entropy=5)
        return torchsde.sdeint_adjoint(
            Sde(w),
            y,
            torch.tensor([0.0, 0.5, 1.0]),
            bm=noise,
            dt=dt,
            method=method,
            adjoint_method=adjoint_method,
            adjoint_params=(w,),
        )

    return solve


for dt in (0.05, 0.0125, 0.003125):
    gap(
        f"_SdeintAdjointMethod, midpoint, dt {dt}: y0, w",
        path("midpoint", "midpoint", dt),
        randn(2, 2),
        randn(2, 2, seed=1),
        step=1e-5,
    )
gap(
    "_SdeintAdjointMethod, reversible_heun, dt 0.05: y0, w",
    path("reversible_heun", "adjoint_reversible_heun", 0.05),
    randn(2, 2),
    randn(2, 2, seed=1),
    step=1e-5,
)

print("--- kornia")
target = torch.randint(3, (2, 1, 4, 4), generator=torch.Generator().manual_seed(0))
valid = torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(1)) > 0.3
gap("_TargetLogSoftmax, all valid", lambda p: focal._TargetLogSoftmax.apply(p, target, None), randn(2, 3, 4, 4))
gap("_TargetLogSoftmax, some not valid", lambda p: focal._TargetLogSoftmax.apply(p, target, valid), randn(2, 3, 4, 4))
for points in (6, 7, 8):
    gap(f"_NullSpaceBasis, {points} points, any cotangent", lambda x: _NullSpaceBasis.apply(x)[0], randn(2, points, 9))
    gap(
        f"_NullSpaceBasis, {points} points, through the projector V Vᵀ",
        lambda x: (b := _NullSpaceBasis.apply(x)[0]) @ b.mT,
        randn(2, points, 9),
    )

print("--- entmax")
gap("SparsemaxFunction, dim -1", lambda x: SparsemaxFunction.apply(x, -1, None), randn(4, 5))
gap("SparsemaxFunction, dim 1 of 3", lambda x: SparsemaxFunction.apply(x, 1, None), randn(2, 4, 3))
gap("Entmax15Function, dim -1", lambda x: Entmax15Function.apply(x, -1, None), randn(4, 5))
gap(
    "EntmaxBisectFunction: x, alpha (1.3)",
    lambda x, a: root_finding.EntmaxBisectFunction.apply(x, a),
    randn(4, 5),
    torch.tensor(1.3),
)
gap(
    "EntmaxBisectFunction: x, alpha per row",
    lambda x, a: root_finding.EntmaxBisectFunction.apply(x, a),
    randn(4, 5),
    torch.tensor([[1.3], [1.5], [1.7], [2.0]]),
)
gap(
    "NormmaxBisectFunction: x, alpha (2)",
    lambda x, a: root_finding.NormmaxBisectFunction.apply(x, a),
    randn(4, 5),
    torch.tensor(2.0),
)
gap(
    "NormmaxBisectFunction: x, alpha (3)",
    lambda x, a: root_finding.NormmaxBisectFunction.apply(x, a),
    randn(4, 5),
    torch.tensor(3.0),
)
gap(
    "BudgetBisectFunction: x, budget (2)",
    lambda x, b: root_finding.BudgetBisectFunction.apply(x, b),
    randn(4, 5),
    torch.tensor(2.0),
)
flat = 0.3 * randn(4, 5)
for shape, dim in [((4, 5), -1), ((5, 4), 0), ((1, 1, 5), -1), ((4, 1, 5), -1), ((4, 5, 1), 1)]:
    scores = flat[: shape[0]].reshape(shape) if shape[0] == 4 else 0.3 * randn(*shape)
    gap(
        f"BudgetBisectFunction, input {shape}, dim {dim}",
        lambda x: root_finding.BudgetBisectFunction.apply(x, 2, dim),
        scores,
    )
labels = torch.tensor([0, 1, 2, 1])
gap("SparsemaxLossFunction", lambda x: losses.SparsemaxLossFunction.apply(x, labels, None), randn(4, 3))

print("--- snntorch (the differences of a step are 0 away from it)")
gap("FastSigmoid", lambda x: surrogate.FastSigmoid.apply(x, 25).double(), randn(3, 4))
gap("ATan", lambda x: surrogate.ATan.apply(x, 2.0).double(), randn(3, 4))
spikes = (randn(5, 2, 3) > 0).double()
gap("SpikeTime.FirstSpike", lambda s: SpikeTime.FirstSpike.apply(s), spikes, step=1e-3)

print("--- autograd through a Function's own forward, against its backward (largest difference, largest entry)")


class Ctx:
    """What a forward needs of its context."""

    needs_input_grad = (True,) * 6

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors


def through_forward(label, function, x, *rest):
    x = x.clone().requires_grad_()
    try:
        out = function.forward(Ctx(), x, *rest)
        cotangent = randn(*out.shape, seed=2)
        (plain,) = torch.autograd.grad(out, x, cotangent)
    except RuntimeError as error:
        print(f"{label:58}", str(error)[:75])
        return
    (own,) = torch.autograd.grad(function.apply(x, *rest), x, cotangent)
    print(f"{label:58}", f"{(own - plain).abs().max().item():.1e}   {own.abs().max().item():.1e}")


through_forward("EntmaxBisectFunction", root_finding.EntmaxBisectFunction, randn(4, 5), 1.3)
through_forward("NormmaxBisectFunction", root_finding.NormmaxBisectFunction, randn(4, 5), 2)
through_forward("BudgetBisectFunction", root_finding.BudgetBisectFunction, randn(4, 5), 2)
through_forward("_TargetLogSoftmax, all valid", focal._TargetLogSoftmax, randn(2, 3, 4, 4), target, None)
through_forward("_TargetLogSoftmax, some not valid", focal._TargetLogSoftmax, randn(2, 3, 4, 4), target, valid)

print("--- budget_bisect on (16, 1, 6) against (16, 6), as in entmax_one_query.py: ratio of the gradients")
scores = 0.1 * randn(16, 6)
tall, flat = scores[:, None].clone().requires_grad_(), scores.clone().requires_grad_()
cotangent = randn(16, 6, seed=3)
(wrong,) = torch.autograd.grad(root_finding.budget_bisect(tall, budget=2), tall, cotangent[:, None])
(right,) = torch.autograd.grad(root_finding.budget_bisect(flat, budget=2), flat, cotangent)
ratio = wrong[:, 0] / right
print(f"{ratio.min().item():.6f} to {ratio.max().item():.6f}")
