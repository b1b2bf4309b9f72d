"""What the text says of backwards, builtins and masks; above all, what it does not say."""

from __future__ import annotations

import textwrap

import pytest
from tests.calls import count_calls

from gradwright.doctor.session.facts import BuiltinAsTensor, Fact, MaskPair, PlainBackward
from gradwright.doctor.session.model import Subject
from gradwright.doctor.source.files import SourceFile, parse
from gradwright.doctor.source.reading import read_facts


def file(text: str, path: str = "/work/train.py") -> SourceFile:
    return parse(textwrap.dedent(text).encode(), path)


def facts(*texts: str) -> tuple[list[Subject], list[Fact]]:
    files = [file(text, f"/work/file{number}.py") for number, text in enumerate(texts)]
    return read_facts(files, lambda path: path.removeprefix("/work/"))


def backwards(*texts: str) -> list[tuple[str, int, str]]:
    subjects, found = facts(*texts)
    names = {subject.id: subject.name for subject in subjects}
    return [(names[fact.subject], fact.references, fact.forward) for fact in found if isinstance(fact, PlainBackward)]


def builtins(*texts: str) -> list[tuple[str, int]]:
    return [(fact.builtin, fact.location.line) for fact in facts(*texts)[1] if isinstance(fact, BuiltinAsTensor)]


def masks(*texts: str) -> list[tuple[str, str, str]]:
    return [(fact.mask, fact.complement, fact.compared) for fact in facts(*texts)[1] if isinstance(fact, MaskPair)]


# --- plain backwards -------------------------------------------------------------------------------------------------

CUBE = "def cube(x):\n    return x**3\n\ndef cube_backward(arriving):\n    return arriving * (3 * input**2)\n"


def test_a_backward_that_nobody_names_is_found_with_its_forward():
    assert backwards(CUBE) == [("cube_backward", 0, "cube")]


def test_subject_and_location_are_the_functions():
    (subject,), _ = facts(CUBE)
    assert (subject.kind, subject.name) == ("plain_backward", "cube_backward")
    assert (subject.location.path, subject.location.line, subject.location.column) == ("file0.py", 4, 1)
    assert subject.location.end_column == len("def cube_backward(arriving):") + 1


@pytest.mark.parametrize(
    "use",
    [
        "y = cube_backward(g)",
        "x.register_hook(cube_backward)",
        "own_cube = custom_gradient(cube, backward=cube_backward)",
        "table = {'cube': cube_backward}",
        "f = getattr(module, 'cube_backward')",
        "__all__ = ['cube', 'cube_backward']",
        "def g(x):\n    return lambda: cube_backward(x)",
    ],
)
def test_every_use_counts_as_a_reference(use: str):
    assert backwards(CUBE + use + "\n")[0][1] == 1


def test_uses_in_other_files_count_also_as_attributes():
    assert backwards(CUBE, "import file0\nfile0.cube_backward(1)\nf = file0.cube_backward\n")[0][1] == 2


@pytest.mark.parametrize(
    "use",
    [
        "'cube_backward'",
        "# cube_backward",
        "def f():\n    'calls cube_backward'",
        "cube.backward = cube_backward",
        "from file0 import cube_backward",
    ],
)
def test_words_imports_and_attributes_that_connect_nothing_are_no_references(use: str):
    assert backwards(CUBE + use + "\n")[0][1] == 0


def test_recursion_is_no_reference():
    text = "def f_backward(grad_output, n):\n    return f_backward(grad_output * 2, n - 1) if n else grad_output\n"
    assert backwards(text) == [("f_backward", 0, "")]


@pytest.mark.parametrize(
    "text",
    [
        "def grad_of_relu(dout, x):\n    return dout * (x > 0)\n",
        "def pull(cotangent, w):\n    return cotangent.mm(w)\n",
        "def backward_linear(g, w):\n    return torch.mm(g, w)\n",
        "def relu_bwd(dy, x):\n    dx = dy.clone()\n    return dx\n",
        "def softplus(x): return x\ndef softplus_backward(u, x):\n    return u / (1 + x)\n",
        "def outer():\n    def f_backward(grad_output):\n        return -grad_output\n",
        "@torch.no_grad()\ndef f_backward(grad_output):\n    return -grad_output\n",
        "def f_backward(ctx, *grad_outputs):\n    return grad_outputs[0] * 2\n",
    ],
)
def test_backwards_of_other_shapes_are_found(text: str):
    assert len(backwards("import torch\n" + text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def step_backward(position, n):\n    return position - n\n",
        "def backward(self):\n    return 1\n",
        "def f_backward(grad_output):\n    print(grad_output)\n",
        "def log_grads(grad_output):\n    history.append(1)\n    return None\n",
        "def f(x, y):\n    return x * y\n",
        "def hook(module, grad_input, grad_output):\n    stats.append(grad_output[0].norm())\n",
        "class A(torch.autograd.Function):\n    def backward(ctx, grad_output):\n        return grad_output * 2\n",
        "class A(Unseen):\n    def backward(self, grad_output):\n        return grad_output * 2\n",
        "class A(pl.LightningModule):\n    def backward(self, loss):\n        return loss * 2\n",
        "@op.register_backward\ndef f_backward(grad_output):\n    return grad_output * 2\n",
        "def distance(dx, dy):\n    return dx * dx + dy * dy\n",
        "def walk_backward(grad_output):\n    yield grad_output * 2\n",
    ],
)
def test_other_functions_are_no_backwards(text: str):
    assert backwards("import torch\n" + text) == []


MODULE = """
import torch
class Square(torch.nn.Module):
    def forward(self, x):
        return x * x
    def backward(self, grad_output):
        return 2 * self.x * grad_output
"""


def test_a_backward_method_of_a_module_is_found_and_the_losses_own_backward_is_no_use_of_it():
    use = "loss = Square()(x).sum()\nloss.backward()\ny.backward(torch.ones_like(y))\n"
    assert backwards(MODULE + use) == [("Square.backward", 0, "Square.forward")]


def test_a_backward_method_that_is_given_a_cotangent_is_used():
    assert backwards(MODULE + "dx = layer.backward(dout)\n")[0][1] == 1


# --- builtins --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "builtin"),
    [
        ("2 * g * input", "input"),
        ("g - sum", "sum"),
        ("-input", "input"),
        ("g @ input.t()", "input"),
        ("input[0] * g", "input"),
        ("max.shape", "max"),
        ("g * (input > 0)", "input"),
        ("torch.sign(input)", "input"),
        ("F.relu(input, True)", "input"),
        ("[v * input for v in g]", "input"),
        ("g ** id", "id"),
        ("type * g", "type"),
        ("type.shape", "type"),
        ("range[0]", "range"),
        ("(lambda v: v * len)(g)", "len"),
    ],
)
def test_a_builtin_used_as_a_tensor_is_found(expression: str, builtin: str):
    text = f"import torch\nimport torch.nn.functional as F\ndef f(g):\n    return {expression}\n"
    assert builtins(text) == [(builtin, 4)]


def test_an_augmented_assignment_uses_its_value():
    assert builtins("def f(g):\n    g *= input\n    return g\n") == [("input", 2)]


@pytest.mark.parametrize(
    "text",
    [
        "def f(input):\n    return 2 * input\n",
        "def f(x):\n    input = x\n    return 2 * input\n",
        "def f(x):\n    (input,) = x\n    return 2 * input\n",
        "def f(x):\n    for input in x: x += input\n",
        "def f(x):\n    return [input * 2 for input in x]\n",
        "def f(x):\n    return (lambda input: input * 2)(x)\n",
        "input = 3\ndef f(x):\n    return 2 * input\n",
        "def outer(input):\n    def f(x):\n        return input * x\n    return f\n",
        "def g():\n    global input\n    input = 3\ndef f(x):\n    return 2 * input\n",
        "from torch import *\ndef f(x):\n    return 2 * sum\n",
        "from m import input\ndef f(x):\n    return 2 * input\n",
        "def f(x: int | None, y: list[int]) -> dict[str, type[int]]:\n    z: tuple[int] | None = None\n    return z\n",
        "def f(x):\n    return isinstance(x, int | float), list[int], type[int], set[str]\n",
        "def f(x):\n    return '%s' % type\n",
        "def f(x):\n    return sum(x) * max(x) + len(x)\n",
        "def f(x):\n    return int.from_bytes(x), str.join(x), dict.fromkeys(x), object.__new__\n",
        "import torch\ndef f(x):\n    return torch.zeros(3, dtype=float), torch.vmap(sum)(x), x.to(float)\n",
        "def f(x):\n    return not input, map(abs, x), x is input, x == type\n",
        "def f(x):\n    y: any = 3\n    return y\n",
        "def f(x: callable[[int], str]):\n    return x\n",
        "def f(x):\n    return [int] * 3\n",
    ],
)
def test_builtins_used_as_builtins_and_names_that_are_bound_are_left_alone(text: str):
    assert builtins(text) == []


def test_a_class_attribute_does_not_bind_the_name_in_its_methods():
    assert builtins("class A:\n    input = 3\n    def f(self, x):\n        return x * input\n") == [("input", 4)]


def test_the_fact_goes_to_the_plain_backwards_own_subject_or_to_a_plain_function():
    subjects, found = facts(CUBE + "def g(x):\n    return x * sum\n")
    kinds = {subject.id: subject.kind for subject in subjects}
    assert [kinds[fact.subject] for fact in found if isinstance(fact, BuiltinAsTensor)] == [
        "plain_backward",
        "plain_function",
    ]
    assert len(subjects) == 2


# --- masks -----------------------------------------------------------------------------------------------------------

HUBER = {
    "a module's forward": """
        def forward(self, prediction, target):
            gap = (prediction - target).abs()
            outside = 1 - gap
            inside = gap <= self.limit
            line = (self.limit * gap - self.limit**2 / 2) * outside
            parabola = inside * gap.square() / 2
            total = line + parabola
            return torch.mean(total)
    """,
    "inline": """
        def huber(e, d):
            return (0.5 * e**2 * (e <= d) + d * (e - 0.5 * d) * (1 - e)).mean()
    """,
    "cast masks, added up in place": """
        def huber(e, d):
            small = (d > e).float()
            large = (1.0 - e).to(e.dtype)
            total = small * e.pow(2)
            total += large * e.sqrt()
            return total
    """,
    "torch functions": """
        def huber(e, d):
            small = torch.le(e, d)
            return torch.add(torch.mul(e.pow(2), small), torch.mul(d * e.sqrt(), torch.ones_like(e) - e))
    """,
    "reassigned loss, reduced terms": """
        def huber(p, t):
            e = (p - t).abs()
            near, far = None, None
            near = e < 1.0
            far = -e + 1
            loss = (near * e**2).mean()
            loss = loss + (far * (e - 0.5)).mean()
            return loss
    """,
    "the expression twice": """
        def huber(p, t, d):
            near = torch.abs(p - t) <= d
            far = 1 - torch.abs(p - t)
            return near * (p - t) ** 2 + far * torch.abs(p - t).sqrt()
    """,
    "a difference of terms": """
        def f(p, t, d):
            r = (p - t) ** 2
            return r.sqrt() * (r < d) - torch.log(r) * (1 - r) / 2
    """,
}


@pytest.mark.parametrize("text", HUBER.values(), ids=HUBER.keys())
def test_a_complement_of_the_error_instead_of_the_mask_is_found(text: str):
    found = masks("import torch\n" + textwrap.dedent(text))
    assert len(found) == 1, found


def test_the_masks_are_named_as_they_stand():
    assert masks(HUBER["a module's forward"]) == [("inside", "outside", "gap")]
    assert masks(HUBER["inline"]) == [("e <= d", "1 - e", "e")]


RIGHT = {
    "complement of the mask": """
        def huber(e, d):
            near = e <= d
            far = 1 - near.float()
            return 0.5 * e**2 * near + d * (e - 0.5 * d) * far
    """,
    "inverted mask": """
        def huber(e, d):
            near = e <= d
            return 0.5 * e**2 * near + d * (e - 0.5 * d) * ~near
    """,
    "two comparisons": """
        def huber(e, d):
            return 0.5 * e**2 * (e <= d) + d * (e - 0.5 * d) * (e > d)
    """,
    "where": """
        def huber(e, d):
            return torch.where(e <= d, 0.5 * e**2, d * (1 - e))
    """,
    "binary cross entropy": """
        def bce(p, t):
            return -(t * p.log() + (1 - t) * (1 - p).log()).mean()
    """,
    "focal": """
        def focal(logits, t, alpha=0.25, gamma=2):
            p = torch.sigmoid(logits)
            pt = p * t + (1 - p) * (1 - t)
            hard = pt < 0.5
            return (alpha * (1 - pt) ** gamma * -pt.log()).mean() + 0.1 * (hard * pt).mean()
    """,
    "dice": """
        def dice(p, t):
            return 1 - (2 * (p * t).sum() + 1) / (p.sum() + t.sum() + 1)
    """,
    "labels by threshold": """
        def loss(t, a, b):
            pos = t > 0.5
            return pos * a + (1 - t) * b
    """,
    "labels by equality": """
        def loss(t, a, b):
            pos = t == 1
            return pos * a + (1 - t) * b
    """,
    "hinge": """
        def hinge(z):
            return ((z < 1) * (1 - z)).mean() + 0.01 * z.mean()
    """,
    "smooth hinge": """
        def hinge(z, d):
            inner = (z < 1) & (z > 1 - d)
            return (z <= 1 - d) * (1 - z - d / 2) + inner * (1 - z) * (1 - z) / (2 * d)
    """,
    "interpolation with a guard": """
        def lerp(a, b, t, limit):
            return (1 - t) * a + t * b + (t < limit) * 0.1
    """,
    "a weight of the same name bound anew": """
        def f(e, d, p):
            near = e <= d
            first = near * e
            e = torch.sigmoid(p)
            return first + (1 - e) * p
    """,
    "one minus a mean": """
        def f(e, d, p):
            return (e <= d) * e ** 2 + (1 - e.mean()) * p
    """,
    "probability by threshold": """
        def f(logits, threshold, a, b):
            p = torch.sigmoid(logits)
            return (p > threshold) * a + (1 - p) * b
    """,
    "not added up": """
        def f(e, d):
            return (e <= d) * e, (1 - e) * d
    """,
    "inside the complement of the mask": """
        def f(e, d):
            near = (e <= d).float()
            return near * e ** 2 + (1 - near) * (1 - e)
    """,
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT.keys())
def test_right_losses_are_left_alone(text: str):
    assert masks("import torch\n" + textwrap.dedent(text)) == []


# --- all together ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\ufeff", "x = 1\n", "def f(): pass\n", "class A: pass\n", "lambda: 0\n"])
def test_files_without_anything_have_no_facts(text: str):
    assert facts(text) == ([], [])


def test_code_too_deep_for_recursion_costs_only_its_own_facts():
    deep = " + ".join(["x"] * 900)
    found = facts(f"def f(x):\n    m = x < 1\n    return (m * ({deep}) + (1 - x) * ({deep}), x * input)\n")[1]
    assert [type(fact) for fact in found][:1] == [BuiltinAsTensor]


def test_columns_are_characters():
    _, found = facts("def f(größe):\n    return größe * 'ü' * input\n")
    at = found[0].location  # type: ignore[attr-defined]  # a use of a builtin
    assert (at.line, at.column, at.end_column) == (2, 26, 31)


def test_the_work_does_not_double_with_sums_that_double_at_every_line():
    def calls(count: int) -> int:
        lines = "".join(f"    a{k + 1} = a{k} + a{k} * a{k}\n" for k in range(count))
        text = f"def f(a0, d):\n    m = a0 < d\n{lines}    return m * a{count} + (1 - a0) * a{count - 1}\n"
        return count_calls(lambda: facts(text))

    assert calls(16) < 3 * calls(8)
    facts("def f(a0, d):\n" + "".join(f"    a{k + 1} = a{k} + a{k} * a{k}\n" for k in range(60)))  # comes back at all
