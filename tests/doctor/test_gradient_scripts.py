"""Whole scripts with hand-made gradients: silence where they are right, one finding where they are wrong."""

import textwrap

import pytest

FUNCTIONS = {
    "a helper with `broadcast` in its name": (
        """
        def unbroadcast(g, shape):
            return g.sum_to_size(shape)

        class F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.shape = x.shape
                return x + torch.zeros(2, 1, 1)
            @staticmethod
            def backward(ctx, g):
                return unbroadcast(g, ctx.shape)
        """,
        [],
    ),
    "a sparse gradient": (
        """
        table = torch.nn.Parameter(torch.randn(4, 3))

        class Rows(torch.autograd.Function):
            @staticmethod
            def forward(ctx, table, rows):
                ctx.save_for_backward(rows)
                ctx.shape = table.shape
                return table[rows] * 2
            @staticmethod
            def backward(ctx, g):
                return torch.sparse_coo_tensor(ctx.saved_tensors[0][None], 2 * g, ctx.shape), None

        class F:
            apply = staticmethod(lambda x: x.sum() + Rows.apply(table, torch.tensor([0, 2])))
        """,
        [],
    ),
    "a wrong sparse gradient": (
        """
        table = torch.nn.Parameter(torch.randn(4, 3))

        class Rows(torch.autograd.Function):
            @staticmethod
            def forward(ctx, table, rows):
                ctx.save_for_backward(rows)
                ctx.shape = table.shape
                return table[rows] * 2
            @staticmethod
            def backward(ctx, g):
                return torch.sparse_coo_tensor(ctx.saved_tensors[0][None], g, ctx.shape), None

        class F:
            apply = staticmethod(lambda x: x.sum() + Rows.apply(table, torch.tensor([0, 2])))
        """,
        ["GW101"],
    ),
    "an output that is no tensor": (
        """
        class Two(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return "tanh", x.tanh()
            @staticmethod
            def backward(ctx, _, g):
                return g * (1 + ctx.saved_tensors[0].tanh() ** 2)

        class F:
            apply = staticmethod(lambda x: Two.apply(x)[1])
        """,
        ["GW101"],
    ),
    "running statistics": (
        """
        mean, count = torch.zeros(3), torch.zeros((), dtype=torch.long)

        class Centred(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, mean, count):
                mean.lerp_(x.mean(0), 0.1)
                count += 1
                return x - x.mean(0)
            @staticmethod
            def backward(ctx, g):
                return g - g.mean(0), None, None

        class F:
            apply = staticmethod(lambda x: Centred.apply(x, mean, count))
        """,
        [],
    ),
    "data changed by the forward": (
        """
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, data):
                data.data.sub_(1)
                ctx.save_for_backward(data)
                return x * data
            @staticmethod
            def backward(ctx, g):
                return g * ctx.saved_tensors[0], None

        class F:
            apply = staticmethod(lambda x: Scaled.apply(x, torch.arange(3.0)))
        """,
        ["GW202"],
    ),
    "two inputs changed by the forward": (
        """
        class Both(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                a.data.mul_(1.5)
                b.data.mul_(0.5)
                return a + b
            @staticmethod
            def backward(ctx, g):
                return g * 1.5, g * 0.5

        class F:
            apply = staticmethod(lambda x: Both.apply(x.exp(), x.sin()))
        """,
        ["GW202", "GW202"],
    ),
    "two wrong gradients from one expression": (
        """
        class Both(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                ctx.save_for_backward(*inputs)
                return inputs[0] * inputs[1]
            @staticmethod
            def backward(ctx, g):
                a, b = ctx.saved_tensors
                return tuple([2 * g * b, 3 * g * a])

        class F:
            apply = staticmethod(lambda x: Both.apply(x.exp(), x.sin()))
        """,
        ["GW101", "GW101"],
    ),
    "what is kept on the class, used twice": (
        """
        class Once(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                Once.x = x
                return x.tanh()
            @staticmethod
            def backward(ctx, g):
                return g * (1 - Once.x.tanh() ** 2)

        class F:
            apply = staticmethod(lambda x: Once.apply(Once.apply(x) - 1))
        """,
        ["GW101"],
    ),
    "what is kept on the class, used once": (
        """
        class F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                F.x = x
                return x.tanh()
            @staticmethod
            def backward(ctx, g):
                return g * (1 - F.x.tanh() ** 2)
        """,
        ["GW107"],
    ),
}

LOOP = """
torch.manual_seed(0)
layer = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    F.apply(layer(torch.randn(5, 4))).square().mean().backward()
    optimizer.step()
"""

UNDER_TRANSFORMS = """
import torch

class Cube(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x):
        return x ** 3
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
    @staticmethod
    def backward(ctx, g):
        return 3 * g * ctx.saved_tensors[0] ** 2

w, data = torch.randn(4), torch.randn(6, 4)
for _ in range(3):
    gradients = torch.func.vmap(torch.func.grad(lambda w, x: Cube.apply(w * x).sum()), (None, 0))(w, data)
    w = w - 0.01 * gradients.mean(0)
"""


@pytest.mark.parametrize("case", FUNCTIONS)
def test_each_wrong_input_is_told_once_and_nothing_else(run, tmp_path, case):
    text, codes = FUNCTIONS[case]
    script = tmp_path / "train.py"
    script.write_text("import torch\n" + textwrap.dedent(text) + LOOP)
    ran = run(script, fix_seconds=0.0)
    assert sorted(finding.code for finding in ran.faults) == codes
    assert not any(item.what.startswith("the gradient of") for item in ran.report.not_examined)


def test_a_backward_called_by_a_transform_is_not_called_never_called(run, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(UNDER_TRANSFORMS)
    ran = run(script, fix_seconds=0.0)
    assert not ran.faults
    assert any("torch.func" in item.why for item in ran.report.not_examined)


def test_gradients_inside_nested_transforms_do_not_upset_the_doctor(run, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import torch\ntorch.func.vmap(torch.func.jacrev(torch.sin))(torch.randn(5, 3))\n")
    ran = run(script, fix_seconds=0.0)
    assert ran.codes == [] and ran.report.not_examined == ()


CUSTOM_GRADIENTS = """import torch
import gradwright as gw

@gw.custom_gradient
def relu(x):
    mask = x > 0
    return x * mask, gw.residuals(mask=mask)

@relu.backward
def _(grad_output, mask):
    return grad_output * mask

def half_of_it(grad_output, x):
    return x * grad_output

square = gw.custom_gradient(lambda x: x * x, half_of_it)
x = torch.randn(4, 3, requires_grad=True)
gw.reverse_gradient(relu(square(x))).sum().backward()
"""


def test_a_custom_gradient_is_judged_like_a_function_and_shown_where_it_is_written(run, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(CUSTOM_GRADIENTS)
    ran = run(script, fix_seconds=0.0)
    (finding,) = ran.faults
    assert (finding.code, finding.location.line) == ("GW101", 14)
    assert [subject.name for subject in ran.report.subjects if subject.kind == "function"] == ["<lambda>", "relu"]
