"""What a kernel would get wrong is declined, with its reason; what only looks dangerous is compiled right."""

import pytest
import torch

from gradwright.doctor.rewrite.source_text import DeclinedError

x = torch.tensor([0.5, -1.0, 2.0, 0.25, -3.0, 1.0])
rows = torch.arange(12.0).reshape(4, 3).sin()

# name -> (the forward's body, its argument, a piece of the reason)
DECLINED = {
    "integers that become reals": (
        """
        counts, y = torch.arange(len(x)), x.clone()
        for i in range(1, len(x)):
            y = x[i] * y + counts.to(x.dtype)
        return y
        """,
        x,
        "it makes reals of integers, which may be rounded",
    ),
    "truth values in a dtype of their own": (
        """
        y = x.clone()
        for i in range(1, len(x)):
            y = x[i] * y + (y > 0).double()
        return y
        """,
        x,
        "it converts to a dtype that is not that of the others",
    ),
    "elements swapped": (
        """
        y = x.clone()
        for i in range(1, len(y)):
            y[i], y[i - 1] = y[i - 1], y[i]
        return y
        """,
        x,
        "it swaps elements of a tensor, which are views",
    ),
    "an element kept while it changes": (
        """
        y = x.clone()
        for i in range(1, len(y)):
            t = y[i]
            y[i] = y[i - 1]
            y[i - 1] = t
        return y
        """,
        x,
        "t is a view of y, of which elements change while t is used",
    ),
    "an element changed through its name": (
        """
        y = x.clone()
        for i in range(1, len(y)):
            s = y[i]
            s += y[i - 1]
        return y
        """,
        x,
        "s is a view of y, and is changed in place",
    ),
    "a sum appended, then changed in place": (
        """
        s = 0
        out = []
        for i in range(len(x)):
            s += x[i]
            out.append(s)
        return torch.stack(out)
        """,
        x,
        "s is kept, and changed in place afterwards",
    ),
    "an element from before, of what the loop changes": (
        """
        y = x.clone()
        first = y[0]
        for i in range(len(y)):
            y[i] = first + y[i - 1]
        return y
        """,
        x,
        "first is an element of y, which the loop changes",
    ),
    "the better of two, an element that changes": (
        """
        y = x.clone()
        best = torch.zeros(())
        for i in range(1, len(y)):
            best = max(best, y[i])
            y[i] = y[i - 1] + best
        return y, best
        """,
        x,
        "best is a view of y",
    ),
    "an element in a list, that changes": (
        """
        y = x.clone()
        out = []
        for i in range(1, len(y)):
            out.append(y[i - 1])
            y[i - 1] = y[i] + y[i - 2]
        return torch.stack(out)
        """,
        x,
        "is kept, and may change afterwards",
    ),
    "a round cut short, after which a number is a tensor": (
        """
        y = x.clone()
        s = 0.0
        for i in range(1, len(y)):
            y[i] = y[i - 1] + s
            s = s + y[i]
            if i > 0:
                continue
            s = 0.0
        return y, s
        """,
        x,
        "s is ",
    ),
    "an element kept, that changes after the loop": (
        """
        y, z, s = torch.zeros_like(x), x.clone(), x[0]
        for t in range(len(x)):
            if x[t] < -2.0:
                s = z[0]
            y[t] = y[t - 1] + s
        z[0] = 7.0
        z[1] = s
        return y, z
        """,
        x,
        "s is a view of z, of which elements change while s is used",
    ),
    "an integer without bound": (
        """
        y, f = torch.zeros_like(x), 1
        for i in range(1, len(x)):
            f = f * i
            y[i] = y[i - 1] + x[i] / f
        return y
        """,
        x,
        "f is an integer of Python's that may outgrow 64 bits",
    ),
    "random numbers": (
        """
        h = x.new_zeros(())
        for i in range(len(x)):
            h = 0.5 * h + x[i] * torch.rand(())
        return h
        """,
        x,
        "it draws random numbers",
    ),
    "a tensor that grows": (
        """
        w = x[0]
        for t in range(1, len(x)):
            w = torch.cat([w, x[t]])
        return w
        """,
        rows,
        "it makes lists in the loop",
    ),
    "a call that nobody knows": (
        """
        h = x[0]
        layer = torch.nn.Linear(3, 3)
        for t in range(1, len(x)):
            h = layer(x[t] + h)
        return h
        """,
        rows,
        "it calls layer, of which a kernel knows nothing",
    ),
    "nothing at first": (
        """
        h = None
        for t in range(len(x)):
            h = x[t] if h is None else 0.5 * h + x[t]
        return h
        """,
        x,
        "h is of type NoneType",
    ),
    "a way out by return": (
        """
        h = x[0]
        for t in range(1, len(x)):
            h = 0.5 * h + x[t]
            if h > 100.0:
                return h
        return h
        """,
        x,
        "a kernel has nothing for the statement in line",
    ),
    "bfloat16": (
        """
        h = x[0]
        for t in range(1, len(x)):
            h = 0.5 * h + x[t]
        return h
        """,
        x.bfloat16(),
        "bfloat16",
    ),
}

TAKEN = {
    "an element cloned before it changes": """
        y = x.clone()
        for i in range(1, len(y)):
            t = y[i].clone()
            y[i] = y[i - 1]
            y[i - 1] = t
        return y
        """,
    "an index that runs out": """
        y = torch.zeros_like(x)
        for i in range(len(x) + 1):
            y[i] = y[i - 1] + x[i]
        return y
        """,
    "division by zero, in Python": """
        y, s = torch.zeros_like(x), 1.0
        for i in range(len(x)):
            s = 1.0 / (x[i].item() * s)
            y[i] = s
        return y
        """,
    "names that the kernel would like to have": """
        real, total, value = 0.5, x.new_zeros(()), x[0]
        here = torch.zeros_like(x)
        for i in range(1, len(x)):
            value = real * value + x[i]
            total = total + value if value > total else total - 0.1
            here[i] = total
        return here, total, value
        """,
    "equality of rounded numbers": """
        y, c = torch.zeros_like(x), torch.zeros(len(x), dtype=torch.long)
        for i in range(1, len(x)):
            y[i] = min(y[i - 1] + 0.1, x[i] * 0.3)
            if y[i] == y[i - 1] + 0.1:
                c[i] = c[i - 1] + 1
        return y, c
        """,
    "a count, and an early end": """
        y, k = torch.zeros_like(x), 0
        for i in range(1, len(x)):
            if x[i] > x[i - 1]:
                k += 1
                continue
            if k > 2:
                break
            y[i] = y[i - 1] + k
        return y, k
        """,
    "a total changed in place": """
        s, y = x.new_zeros(()), torch.zeros_like(x)
        for i in range(len(x)):
            s += x[i] * s + 1
            y[i] = s
        return y, s
        """,
    "zero of Python's before the first round": """
        h = 0
        for i in range(len(x)):
            h = 0.5 * h + x[i]
        return h
        """,
    "the input written into": """
        for i in range(1, len(x)):
            x[i] = x[i] + 0.5 * x[i - 1]
        return x * 1
        """,
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_would_go_wrong_is_declined_with_its_reason(bench, name):
    body, argument, reason = DECLINED[name]
    with pytest.raises(DeclinedError) as raised:
        bench.proposed(bench.forward(body), [argument])
    assert reason in str(raised.value)


@pytest.mark.parametrize("name", TAKEN)
def test_what_looks_dangerous_is_compiled_right(bench, name):
    original, candidate, _ = bench.compiled(bench.forward(TAKEN[name]), [x[x != 0]])
    for argument in (x, x[:1], x[:0], x * 0, x * float("inf"), x.round()):
        assert bench.difference(original, candidate, [argument]) == ""


def test_a_loop_of_a_plain_function_is_declined(bench):
    from gradwright.doctor.rewrite.kernels import compile_kernel
    from gradwright.doctor.rewrite.source_text import SourceText
    from gradwright.doctor.source.files import parse
    from gradwright.doctor.source.loops import find_loops
    from gradwright.doctor.source.seen import Seen

    text = "def f(x, h):\n    for t in range(len(x)):\n        h = 0.5 * h + x[t]\n    return h\n"
    (site,) = find_loops(parse(text.encode(), "f.py"))
    with pytest.raises(DeclinedError, match="autograd may record the loop"):
        compile_kernel(SourceText("f.py", text), site, Seen())


def test_a_function_that_vmap_traces_is_declined(bench):
    text = bench.forward(DECLINED["bfloat16"][0]).replace(
        "    @staticmethod\n    def forward", "    generate_vmap_rule = True\n\n    @staticmethod\n    def forward", 1
    )
    with pytest.raises(DeclinedError, match="generate_vmap_rule"):
        bench.proposed(text, [x])


def test_an_input_that_is_written_into_keeps_its_version(bench):
    original, candidate, _ = bench.compiled(bench.forward(TAKEN["the input written into"]), [x])
    versions = []
    for function in (original, candidate):
        mine = x.clone()
        function.apply(mine)
        versions.append(mine._version > 0)
    assert versions == [True, True]
