"""The errors of autograd that are asked about most: a bad script is told at its line, its good twin is not.

The line that is to be told ends in ``# here``. What raises nothing: test_mistakes_most_asked.py.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.doctor.most_asked import LOOP, Row, check_bad, check_good

from gradwright.doctor.explain import explain

SCALE = """
class Scale(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return {returned}  # here
x, w = torch.randn(8, 3, requires_grad=True), torch.randn(3, requires_grad=True)
Scale.apply(x, w).pow(2).sum().backward()
"""

ROWS = {
    "grad can be implicitly created only for scalar outputs": Row(
        "GW611",
        LOOP + """
loss = F.mse_loss(model(x), y, reduction="none")
loss.backward()  # here
""",
        (('reduction="none"', 'reduction="mean"'),),
    ),
    "element 0 of tensors does not require grad": Row(
        "GW612",
        LOOP + """
loss = torch.tensor([F.mse_loss(model(x), y).item()]).mean()
loss.backward()  # here
""",
        (("torch.tensor([F.mse_loss(model(x), y).item()]).mean()", "F.mse_loss(model(x), y)"),),
    ),
    "backward through the graph a second time": Row(
        "GW613",
        """
cell, state = nn.RNNCell(4, 8), torch.zeros(2, 8)
for step in range(3):
    state = cell(torch.randn(2, 4), state)
    state.pow(2).mean().backward()  # here
    cell.zero_grad()
""",
        (("torch.randn(2, 4), state)", "torch.randn(2, 4), state.detach())"),),
    ),
    "modified by an inplace operation": Row(
        "GW614",
        """
weight = torch.randn(4, requires_grad=True)
gate = weight.sigmoid()
gate[0] = 1.0
gate.sum().backward()  # here
""",
        (("gate[0] = 1.0", "gate = torch.where(torch.arange(4) == 0, 1.0, gate)"),),
    ),
    "a leaf Variable that requires grad, in place": Row(
        "GW615",
        """
weight = torch.zeros(4, requires_grad=True)
weight.normal_()  # here
weight.sum().backward()
""",
        (("weight.normal_()", "nn.init.normal_(weight)"),),
    ),
    "output 0 of X is a view": Row(
        "GW617",
        """
hidden = torch.randn(4, 6, requires_grad=True) * 2
value, gate = hidden.chunk(2, dim=1)
gate.sigmoid_()  # here
(value * gate).sum().backward()
""",
        (("gate.sigmoid_()", "gate = gate.sigmoid()"),),
    ),
    "incorrect number of gradients": Row(
        "GW201", SCALE.format(returned="g * w"), (("return g * w", "return g * w, (g * x).sum(0)"),)
    ),
    "invalid gradient at index 1": Row(
        "GW203", SCALE.format(returned="g * w, (g * x).sum(1)"), (("(g * x).sum(1)", "(g * x).sum_to_size(w.shape)"),)
    ),
    "returned a gradient different than None": Row(
        "GW216",
        """
class Halve(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor
    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, 1.0  # here
Halve.apply(torch.randn(8, requires_grad=True), 0.5).sum().backward()
""",
        (("g * ctx.factor, 1.0", "g * ctx.factor, None"),),
    ),
    "one of the differentiated Tensors appears to not have been used": Row(
        "GW616",
        """
net, points = nn.Linear(2, 1), torch.randn(8, 2, requires_grad=True)
x, t = points[:, :1], points[:, 1:]
u = net(points)
u_t = grad(u.sum(), t, create_graph=True)[0]  # here
u_t.pow(2).sum().backward()
""",
        (("u = net(points)", "u = net(torch.cat([x, t], 1))"),),
    ),
    "setup_context missing": Row(
        "GW208",
        """
class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g
per_sample = torch.vmap(torch.func.grad(lambda x: Square.apply(x).sum()))  # here
print(per_sample(torch.randn(5, 3)).shape)
""",
        (
            ("forward(ctx, x):\n        ctx.save_for_backward(x)\n", "forward(x):\n"),
            (
                "    @staticmethod\n    def backward",
                "    generate_vmap_rule = True\n    @staticmethod\n    def setup_context(ctx, inputs, output):\n"
                "        ctx.save_for_backward(*inputs)\n    @staticmethod\n    def backward",
            ),
        ),
    ),
    "legacy autograd function": Row(
        "GW207",
        """
class Double(Function):
    def forward(ctx, x):
        return 2 * x
    def backward(ctx, g):
        return 2 * g
x = torch.randn(4, requires_grad=True)
print(Double()(x))  # here
""",
        (("    def ", "    @staticmethod\n    def "), ("Double()(x)", "Double.apply(x)")),
    ),
    "bool 1 - mask": Row(
        "GW618",
        """
prediction, target = torch.randn(32, requires_grad=True), torch.randn(32)
error = (prediction - target).abs()
near = error < 1.0
loss = (near * error**2 / 2 + (1 - near) * (error - 0.5)).mean()  # here
loss.backward()
""",
        (("near * error**2 / 2 + (1 - near) * (error - 0.5)", "torch.where(near, error**2 / 2, error - 0.5)"),),
    ),
    "torch.library.custom_op without register_autograd": Row(
        "GW217",
        """
@torch.library.custom_op("most_asked::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:  # here
    return x**3
x = torch.randn(6, requires_grad=True)
cube(x).sum().backward()
""",
        (
            ("x = torch.randn", "cube.register_autograd(lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g,\n"
             "    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))\nx = torch.randn"),
        ),
    ),
    "torch.library.custom_op under torch.func.grad": Row(
        "GW217",
        """
@torch.library.custom_op("most_asked::square", mutates_args=())
def square(x: torch.Tensor) -> torch.Tensor:  # here
    return x**2
square.register_autograd(lambda ctx, g: 2 * ctx.saved_tensors[0] * g,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
print(torch.func.grad(lambda x: square(x).sum())(torch.randn(6)))
""",
        (("torch.func.grad(lambda x: square(x).sum())(torch.randn(6))",
          "grad(square(x := torch.randn(6, requires_grad=True)).sum(), x)"),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("item", ROWS)
def test_what_is_asked_about_is_told_at_its_line(item: str, run: Callable, tmp_path: Path) -> None:
    check_bad(ROWS[item], run, tmp_path)


@pytest.mark.parametrize("item", ROWS)
def test_its_good_twin_is_clean(item: str, run: Callable, tmp_path: Path) -> None:
    check_good(ROWS[item], run, tmp_path)


# As torch 2.11 says it, and 2.13 where that is another way.
WORDINGS = [
    ("GW201", "function MulBackward returned an incorrect number of gradients (expected 2, got 1)"),
    ("GW201", "Function MulBackward returned an invalid number of gradients - expected 2, but got 1"),
    ("GW208", "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."),
    (
        "GW208",
        "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
        "override the setup_context staticmethod.",
    ),
    ("GW216", "expected Variable or None (got list)"),
    ("GW216", "expected Tensor or None (got numpy.ndarray)"),
    ("GW216", "Function MulBackward returned an invalid gradient at index 1 - expected device cuda:0 but got cpu"),
    (
        "GW216",
        "Function MulBackward0 returned an invalid gradient at index 0 - expected type torch.FloatTensor but got "
        "torch.DoubleTensor",
    ),
    (
        "GW216",
        "function ScaleBackward returned a gradient different than None at position 2, but the corresponding forward "
        "input was not a Variable",
    ),
    (
        "GW217",
        "Trying to backward through mylib.f.default but no autograd formula was registered. Please use "
        "register_autograd to add one.",
    ),
    (
        "GW217",
        "UserWarning: mylib::f: an autograd kernel was not registered to the Autograd key(s) but we are trying to "
        "backprop through it.",
    ),
    ("GW611", "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with 1 dims. Maybe"),
    ("GW611", "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with 2 dims. Maybe"),
    ("GW614", "modified by an inplace operation: [torch.FloatTensor [3]], which is output 0 of ExpBackward0, is at "
     "version 1; expected version 0 instead."),
    ("GW614", "modified by an inplace operation: [torch.FloatTensor [3]], which is output 0 of Exp, is at version 1; "
     "expected version 0 instead."),
    ("GW616", "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True"),
    ("GW616", "The differentiated Tensor at index 1 appears to not have been used in the graph. Set allow_unused=True"),
    ("GW617", "Output 0 of SplitBackward0 is a view and is being modified inplace. This view is the output"),
    ("GW617", "Output 0 of Split is a view and is being modified inplace. This view is the output"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "message"), WORDINGS)
def test_a_wording_of_either_version_finds_its_page(code: str, message: str) -> None:
    assert (explain(f"Traceback (most recent call last):\nRuntimeError: {message}") or "")[:5] == code
