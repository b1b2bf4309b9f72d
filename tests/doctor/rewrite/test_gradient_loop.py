"""A loop that takes a gradient per sample becomes one for all of them, as a good engineer would write it, or it stays.

Every proposal is run beside its original, in float64: what they leave, and the gradients of that, must be the same.
"""

import ast
import contextlib
import io
import random
import textwrap

import pytest
import torch

from gradwright.doctor.probe.seeing import see
from gradwright.doctor.rewrite.gradient_loop import read_gradient_loop
from gradwright.doctor.rewrite.source_text import DeclinedError

HEAD = """import torch
import torch.nn.functional as F

torch.manual_seed(0)
below = torch.nn.Linear(3, 4)
above = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
z = torch.tanh(below(torch.randn(9, 3)))
y = above(z)
pair = (y, z)
target = torch.randn(9, 4)
weight = torch.rand(9)
mixing = torch.randn(4, 4)
"""


@pytest.fixture(autouse=True)
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def proposals(loop, *, independent=True, head=HEAD):
    text = head + textwrap.dedent(loop)
    tree = ast.parse(text)
    first = len(ast.parse(head).body)
    kinds = (ast.For, ast.ListComp, ast.GeneratorExp)
    at = next(
        index
        for index, node in enumerate(tree.body)
        if index >= first and any(isinstance(inner, kinds) for inner in ast.walk(node))
    )
    names = {}
    exec(compile(ast.Module(tree.body[:at], []), "net.py", "exec"), names)
    seen = see([tree.body[at]], "net.py", names, {})
    return read_gradient_loop("net.py", text, tree.body[at].lineno, seen).proposals(independent), text


def ran(text, name):
    """What the script leaves under a name, and the gradients of that with respect to every parameter."""
    names = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text, "net.py", "exec"), names)
    value = names[name]
    value = (
        torch.stack([torch.as_tensor(item) for item in value]) if isinstance(value, list) else torch.as_tensor(value)
    )
    if not value.requires_grad:
        return value, []
    parameters = [*names["below"].parameters(), *names["above"].parameters()]
    (value * torch.arange(1.0, value.numel() + 1).reshape(value.shape)).sum().backward()
    return value.detach(), [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]


def same(text, other, name):
    (before, first), (after, second) = ran(text, name), ran(other, name)
    assert before.shape == after.shape
    torch.testing.assert_close(after, before)
    torch.testing.assert_close(second, first)


def region(proposal):
    first, last = proposal.region
    return "\n".join(proposal.new_text.split("\n")[first - 1 : last])


# What stands there afterwards, of the best proposal for samples that are proved to be independent.
WRITTEN = {
    "a norm of two outputs, held at 1": (
        """
        loss = 0
        for row in range(0, len(pair[0])):
            # across, then upward
            across = torch.autograd.grad(pair[0][row][0], pair[1], create_graph=True)[0][row]
            (upward,) = torch.autograd.grad(pair[0][row, 1], pair[1], create_graph=True)  # the second output
            loss = abs(1-torch.sqrt(upward[row]**2+across**2)) + loss
        loss = loss * 2
        """,
        """
        # across, then upward
        across = torch.autograd.grad(pair[0][:, 0].sum(), pair[1], create_graph=True)[0]
        (upward,) = torch.autograd.grad(pair[0][:, 1].sum(), pair[1], create_graph=True)  # the second output
        loss = abs(1-torch.sqrt(upward**2+across**2)).sum(0) + loss
        """,
    ),
    "a penalty on a norm": (
        """
        loss = 0.0
        for j in range(y.shape[0]):
            # of one sample
            (g,) = torch.autograd.grad(y[j, 0], z, create_graph=True)
            loss += (g[j].norm() - 1) ** 2
        loss = loss / len(y)
        """,
        """
        # of one sample
        (g,) = torch.autograd.grad(y[:, 0].sum(), z, create_graph=True)
        loss += ((g.norm(dim=1) - 1) ** 2).sum()
        """,
    ),
    "rows are stored": (
        """
        loss = torch.zeros(9, 2, 4)
        for j in range(len(y)):
            for k in range(2):
                loss[j, k] = torch.autograd.grad(y[j][k], z, retain_graph=True)[0][j]
        print(loss)
        """,
        """
        jacobian = gw.batch_jacobian(y, wrt=z)
        for k in range(2):
            loss[:, k] = jacobian[:, k]
        """,
    ),
    "samples and outputs alike": (
        """
        loss = 0.0
        for j in range(y.shape[0]):
            for k in range(y.shape[1]):
                g = torch.autograd.grad(y[j][k], z, create_graph=True)[0][j]
                loss = loss + (g ** 2).sum() + g.norm()
        loss = loss / len(y)
        """,
        """
        g = gw.batch_jacobian(y, wrt=z, create_graph=True).flatten(0, 1)
        loss = loss + (g ** 2).sum() + g.norm(dim=1).sum()
        """,
    ),
    "some samples of each output": (
        """
        loss = 0.0
        for k in range(2):
            for j in range(1, 7):
                loss = loss + torch.autograd.grad(y[j, k], z, create_graph=True)[0][j].exp().mean()
        loss = loss * 2
        """,
        """
        loss = loss + gw.batch_jacobian(y, wrt=z, create_graph=True)[1:7, :2].flatten(0, 1).exp().mean(1).sum()
        """,
    ),
    "a target beside samples and outputs": (
        """
        loss = 0.0
        for j in range(len(y)):
            for k in range(2):
                g = torch.autograd.grad(y[j, k], z, create_graph=True)[0][j]
                loss = loss + (g * target[j]).sum()
        loss = loss * 2
        """,
        """
        jacobian = gw.batch_jacobian(y, wrt=z, create_graph=True)
        for k in range(2):
            g = jacobian[:, k]
            loss = loss + (g * target).sum()
        """,
    ),
    "rows are stacked": (
        """
        rows = []
        for j in range(len(z)):
            rows.append(torch.autograd.grad(y[j, 0], z, create_graph=True)[0][j])
        loss = torch.stack(rows)
        loss = loss.pow(2).mean()
        """,
        "loss = torch.autograd.grad(y[:, 0].sum(), z, create_graph=True)[0]",
    ),
    "a comprehension of rows": (
        """
        loss = torch.stack([torch.autograd.grad(y[j, 0], z, create_graph=True)[0][j] * 2 for j in range(len(y))]).exp()
        """,
        "loss = (torch.autograd.grad(y[:, 0].sum(), z, create_graph=True)[0] * 2).exp()",
    ),
    "a sum over a comprehension": (
        """
        loss = sum(torch.autograd.grad(out[1], z, create_graph=True)[0][j].norm() for j, out in enumerate(y)) / len(y)
        """,
        "loss = torch.autograd.grad(y[:, 1].sum(), z, create_graph=True)[0].norm(dim=1).sum() / len(y)",
    ),
    "a list of rows": (
        """
        loss = [torch.autograd.grad(y[j, 0], z, create_graph=True)[0][j] for j in range(len(y))]
        """,
        "loss = list(torch.autograd.grad(y[:, 0].sum(), z, create_graph=True)[0])",
    ),
    "a Jacobian by a comprehension": (
        """
        v = y.sum(1)
        w = above[0].weight
        loss = torch.stack([torch.autograd.grad(v[i], w, retain_graph=True)[0] for i in range(v.shape[0])])
        """,
        "loss = gw.batch_jacobian(v, wrt=w, batch_dim=(0, None))",
    ),
    "a loss of each row": (
        """
        loss = torch.zeros(())
        n = len(y)
        for j in range(n):
            g = torch.autograd.grad(y[j].sum(), z, create_graph=True)[0][j]
            loss = loss + F.mse_loss(g, target[j])
        print(loss)
        """,
        """
        g = torch.autograd.grad(y.sum(), z, create_graph=True)[0]
        loss = loss + F.mse_loss(g, target, reduction="none").mean(1).sum()
        """,
    ),
    "a part of the batch": (
        """
        loss = 0.
        for i in range(5):
            g = torch.autograd.grad(y[i, 0], z, create_graph=True)[0][i]
            loss = loss + (g * target[i]).sum()
        print(loss)
        """,
        """
        g = torch.autograd.grad(y[:, 0].sum(), z, create_graph=True)[0][:5]
        loss = loss + (g * target[:5]).sum()
        """,
    ),
    "elements and an index": (
        """
        loss = 0.
        for i, (out, t) in enumerate(zip(y, target)):
            g = torch.autograd.grad(out[0], z, create_graph=True)[0][i]
            loss = loss + torch.dot(g, t) - g[0]
        print(loss)
        """,
        """
        g = torch.autograd.grad(y[:, 0].sum(), z, create_graph=True)[0]
        loss = loss + (g * target).sum(1).sum() - g[:, 0].sum()
        """,
    ),
    "a whole Jacobian": (
        """
        v = y.sum(1)
        w = above[0].weight
        loss = torch.zeros(9, 5, 4)
        for i in range(len(v)):
            loss[i] = torch.autograd.grad(v[i], w, retain_graph=True)[0]
        print(loss)
        """,
        "loss[:] = gw.batch_jacobian(v, wrt=w, batch_dim=(0, None))",
    ),
    "a branch on each sample, so that the loop stays": (
        """
        loss = 0.
        for i in range(len(y)):
            g = torch.autograd.grad(y[i, 0], z, create_graph=True)[0][i]
            if g[0] > 0:
                loss = loss + g.sum()
        print(loss)
        """,
        """
        gradients = torch.autograd.grad(y[:, 0].sum(), z, create_graph=True)[0]
        for i in range(len(y)):
            g = gradients[i]
            if g[0] > 0:
                loss = loss + g.sum()
        """,
    ),
    "a list that is used otherwise": (
        """
        loss = []
        for j in range(len(z)):
            g = torch.autograd.grad(y[j, 0], z, create_graph=True)[0][j]
            loss.append(g * 2)
        loss.append(torch.zeros(4))
        """,
        """
        g = torch.autograd.grad(y[:, 0].sum(), z, create_graph=True)[0]
        loss.extend((g * 2).unbind())
        """,
    ),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_the_loop_is_written_for_all_samples(case):
    loop, expected = WRITTEN[case]
    made, text = proposals(loop)
    assert region(made[0]) == textwrap.dedent(expected).strip()
    for proposal in made:
        same(text, proposal.new_text, "loss")


@pytest.mark.parametrize("case", WRITTEN)
def test_without_a_proof_of_independence_no_sum_over_the_batch_is_taken(case):
    made, text = proposals(WRITTEN[case][0], independent=False)
    for proposal in made:
        assert "gw.batch_jacobian(" in region(proposal)
        assert proposal.added == "import gradwright as gw" and proposal.added in proposal.new_text
        same(text, proposal.new_text, "loss")
    assert ('batch="coupled"' in region(made[-1])) == ("batch_dim" not in region(made[-1]))


DECLINED = {
    "each round makes a graph of its own": (
        "for j in range(9):\n    out = above(z * weight[j])\n    g = torch.autograd.grad(out[j, 0], z)[0][j]\nprint(g)",
        "out changes in the loop",
    ),
    "a cotangent of its own": (
        "for j in range(9):\n    g = torch.autograd.grad(y[j, 0], z, weight[j], retain_graph=True)[0][j]",
        "cotangent of its own",
    ),
    "another row is read": (
        "for j in range(8):\n    g = torch.autograd.grad(y[j, 0], z, retain_graph=True)[0]\n    h = g[j] + g[0]",
        "row by row, and in other ways",
    ),
    "not counted": (
        "for row in y:\n    g = torch.autograd.grad(row[0], z, retain_graph=True)[0]\n    h = g.sum()",
        "does not count",
    ),
    "every third sample": (
        "for j in range(0, 9, 3):\n    g = torch.autograd.grad(y[j, 0], z, retain_graph=True)[0][j]",
        "does not count",
    ),
}


@pytest.mark.parametrize("case", DECLINED)
def test_what_is_of_another_kind_is_declined_with_its_reason(case):
    loop, reason = DECLINED[case]
    with pytest.raises(DeclinedError, match=reason):
        proposals(loop)


def test_what_one_sample_leaves_to_be_read_is_not_taken_from_it():
    loop = """
    loss = 0.
    for j in range(len(y)):
        g = torch.autograd.grad(y[j, 0], z, create_graph=True)[0][j]
        loss = loss + g.sum()
    loss = loss + g.sum()
    """
    made, text = proposals(loop)
    assert "for j in range(len(y)):" in region(made[0])
    same(text, made[0].new_text, "loss")


def test_a_sum_that_depends_on_the_sample_before_stays_a_loop():
    loop = """
    loss = 0.
    for j in range(len(y)):
        g = torch.autograd.grad(y[j, 0], z, create_graph=True)[0][j]
        loss = 0.5 * loss + g.sum()
    print(loss)
    """
    made, text = proposals(loop)
    assert "for j in range(len(y)):" in region(made[0])
    same(text, made[0].new_text, "loss")


def test_the_import_takes_another_name_where_gw_is_taken():
    made, text = proposals(WRITTEN["rows are stored"][0].replace("print(loss)", "gw = 1"))
    assert "import gradwright\n" in made[0].new_text and "gradwright.batch_jacobian(" in made[0].new_text
    same(text, made[0].new_text, "loss")


# --- against the toy -------------------------------------------------------------------------------------------------


def drawn(rng, depth=3):
    """A number of one sample, of its gradient ``g`` and of what belongs to it."""
    vectors = [
        "g",
        "target[j]",
        "g ** 2",
        "weight[j] * g",
        "g - target[j]",
        "torch.tanh(g)",
        "mixing @ g",
        "g @ mixing",
    ]
    numbers = ["weight[j]", "g[1]", "y[j, 1]", "target[j][2]"]

    def vector(depth):
        if not depth or rng.random() < 0.3:
            return rng.choice(vectors)
        one, other = vector(depth - 1), vector(depth - 1)
        return rng.choice(
            [f"({one} + {other})", f"({one} * {other})", f"torch.where({one} > 0, {other}, 0.1 * {one})", f"-({one})",
             f"({one}).abs()", f"torch.softmax({one}, dim=-1)", f"({one}) * ({number(depth - 1)})"]
        )  # fmt: skip

    def number(depth):
        if not depth or rng.random() < 0.2:
            return rng.choice(numbers)
        one = vector(depth - 1)
        return rng.choice(
            [f"({one}).sum()", f"({one}).mean()", f"({one} + 2).norm()", f"torch.dot({one}, {vector(depth - 1)})",
             f"({one}).max()", f"F.mse_loss({one}, target[j])", f"({number(depth - 1)} - 1) ** 2",
             f"({one})[1:3].sum()", f"({one}).sum(dim=0)", f"{number(depth - 1)} * {number(depth - 1)}"]
        )  # fmt: skip

    return number(depth), vector(depth)


@pytest.mark.parametrize("seed", range(40))
def test_random_loops_are_written_right_or_stay(seed):
    rng = random.Random(seed)
    number, vector = drawn(rng)
    gradient = rng.choice(["y[j, 0]", "y[j][1]", "y[j].sum()"])
    name = rng.choice(["[0][j]", "[0]"])
    reads = "" if name == "[0][j]" else "    g = whole[j]\n"
    end = rng.choice(["loss = loss + {number}", "loss += {number}", "loss -= {vector}", "loss = {vector} + loss"])
    bound = rng.choice(["len(y)", "z.shape[0]", "7"])
    loop = (
        f"loss = torch.zeros({'4' if 'vector' in end else '()'})\nfor j in range({bound}):\n"
        f"    {'g' if not reads else 'whole'} = torch.autograd.grad({gradient}, z, create_graph=True){name}\n{reads}"
        f"    {end.format(number=number, vector=vector)}\nprint(loss)\n"
    )
    made, text = proposals(loop)
    assert made
    for proposal in made:
        same(text, proposal.new_text, "loss")
