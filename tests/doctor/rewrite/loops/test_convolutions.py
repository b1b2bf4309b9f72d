"""Loops that convolve become torch's convolution, the first of two forms, and do what they did."""

import textwrap

import pytest
import torch
from tests.doctor.rewrite.loops.rewriting import HEAD, PATH, assert_same, fresh, namespace, seen_of, site_of, source_of
from torch import randn

from gradwright.doctor.rewrite.loops import compile_loop
from gradwright.doctor.rewrite.source_text import SourceText

SIZES = """
    n, c, height, width = x.shape
    f, _, kh, kw = w.shape
"""
PATCHES = """
    out = torch.zeros(n, f, height - kh + 1, width - kw + 1)
    for b in range(n):
        for k in range(f):
            for i in range(height - kh + 1):
                for j in range(width - kw + 1):
                    out[b, k, i, j] = (x[b, :, i:i + kh, j:j + kw] * w[k]).sum()
    return out
"""
NUMBERS = """
    out = torch.zeros(n, f, height - kh + 1, width - kw + 1)
    for b in range(n):
        for k in range(f):
            for i in range(height - kh + 1):
                for j in range(width - kw + 1):
                    for channel in range(c):
                        for p in range(kh):
                            for q in range(kw):
                                out[b, k, i, j] += x[b, channel, i + p, j + q] * w[k, channel, p, q]
    return out
"""
STRIDED = """
    rows, columns = (height - kh) // step + 1, (width - kw) // step + 1
    out = torch.zeros(n, f, rows, columns)
    for b in range(n):
        for k in range(f):
            for i in range(rows):
                for j in range(columns):
                    top, left = i * step, j * step
                    patch = x[b, :, top:top + kh, left:left + kw]
                    out[b, k, i, j] = torch.sum(patch * w[k]) + bias[k]
    return out
"""


def batch(n, c, f, kh=2, kw=3, height=3, width=4):
    return [randn(n, c, height, width), randn(f, c, kh, kw)]


# name -> (signature, inputs for n, c, f, the function's body, what computes it)
CASES = {
    "patches": ("x, w", batch, SIZES + PATCHES, "F.conv2d(x, w)"),
    "seven loops over numbers": ("x, w", batch, SIZES + NUMBERS, "F.conv2d(x, w)"),
    "a channel at a time": (
        "x, w",
        batch,
        SIZES
        + PATCHES.replace(
            "                    out[b, k, i, j] = (x[b, :, i:i + kh, j:j + kw] * w[k]).sum()",
            "                    for channel in range(c):\n"
            "                        out[b, k, i, j] += (x[b, channel, i:i + kh, j:j + kw] * w[k, channel]).sum()",
        ),
        "F.conv2d(x, w)",
    ),
    "a step and a bias": (
        "x, w, bias, step",
        lambda n, c, f: [*batch(n, c, f, height=6, width=6), randn(f), 2],
        SIZES + STRIDED,
        "F.conv2d(x, w, stride=step)",
    ),
    "a step for each axis": (
        "x, w",
        lambda n, c, f: batch(n, c, f, height=5, width=6),
        SIZES
        + STRIDED.replace("(height - kh) // step", "(height - kh) // 2")
        .replace("(width - kw) // step", "(width - kw) // 3")
        .replace("i * step", "2 * i")
        .replace("j * step", "3 * j")
        .replace(" + bias[k]", ""),
        "F.conv2d(x, w, stride=(2, 3))",
    ),
    "no more windows than are asked for": (
        "x, w, bias, step, rows, columns",
        lambda n, c, f: [*batch(n, c, f, height=5), randn(f), 1, 3, 2],
        SIZES + STRIDED.replace("    rows, columns = (height - kh) // step + 1, (width - kw) // step + 1\n", ""),
        "F.conv2d(x, w, stride=step).narrow(2, 0, rows).narrow(3, 0, columns)",
    ),
    "an image alone": (
        "x, w",
        lambda n, c, f: [randn(c, 5, 4), randn(f, c, 2, 3)],
        """
        height, width = x.shape[1], x.shape[2]
        f, _, kh, kw = w.shape
        out = torch.zeros(f, height - kh + 1, width - kw + 1)
        for k in range(f):
            for i in range(height - kh + 1):
                for j in range(width - kw + 1):
                    out[k, i, j] = (x[:, i:i + kh, j:j + kw] * w[k]).sum()
        return out
        """,
        "F.conv2d(x, w)",
    ),
    "one filter, no channels": (
        "x, w",
        lambda n, c, f: [randn(n + 2, c + 3), randn(2, 3)],
        """
        rows, columns = x.shape[0] - w.shape[0] + 1, x.shape[1] - w.shape[1] + 1
        out = torch.zeros(rows, columns)
        for i in range(rows):
            for j in range(columns):
                out[i, j] = (x[i:i + w.shape[0], j:j + w.shape[1]] * w).sum()
        return out
        """,
        "F.conv2d(x[None], w[None, None]).squeeze(0)",
    ),
    "along one axis, channels last": (
        "x, w",
        lambda n, c, f: [randn(n, 5, c), randn(3, c, f)],
        """
        n, length, c = x.shape
        k, _, f = w.shape
        out = torch.zeros(n, length - k + 1, f)
        for b in range(n):
            for t in range(length - k + 1):
                for o in range(f):
                    out[b, t, o] = (x[b, t:t + k] * w[:, :, o]).sum()
        return out
        """,
        "F.conv1d(x.transpose(1, 2), w.transpose(0, 2)).transpose(1, 2)",
    ),
    "every row with one kernel": (
        "x, w",
        lambda n, c, f: [randn(n, c + 4), randn(3)],
        """
        out = torch.zeros(x.shape[0], x.shape[1] - len(w) + 1)
        for b in range(x.shape[0]):
            for t in range(x.shape[1] - len(w) + 1):
                for k in range(len(w)):
                    out[b, t] += x[b, t + k] * w[k]
        return out
        """,
        "F.conv1d(x[:, None], w[None, None]).squeeze(1)",
    ),
    "along three axes": (
        "x, w",
        lambda n, c, f: [randn(n, c, 3, 4, 3), randn(f, c, 2, 2, 3)],
        """
        n, c, depth, height, width = x.shape
        f, _, kd, kh, kw = w.shape
        out = torch.zeros(n, f, depth - kd + 1, height - kh + 1, width - kw + 1)
        for b in range(n):
            for k in range(f):
                for d in range(depth - kd + 1):
                    for i in range(height - kh + 1):
                        for j in range(width - kw + 1):
                            out[b, k, d, i, j] = (x[b, :, d:d + kd, i:i + kh, j:j + kw] * w[k]).sum()
        return out
        """,
        "F.conv3d(x, w)",
    ),
}
COUNTS = ((2, 3, 2), (1, 1, 1), (1, 0, 2), (0, 1, 1), (1, 2, 0))


def proposals(text, args):
    site = site_of(text)
    return compile_loop(SourceText(PATH, text), site, seen_of(text, site, args))


@pytest.mark.parametrize("name", CASES)
def test_a_loop_that_convolves_becomes_a_convolution_and_as_a_second_choice_einsum(name):
    signature, inputs, body, expected = CASES[name]
    text = source_of(textwrap.dedent(body), signature)
    first, *others = proposals(text, inputs(2, 3, 2))
    assert expected in first.new_text
    assert others
    assert all("conv" not in other.new_text for other in others)
    for counts in COUNTS:
        args = inputs(*counts)
        for proposal in (first, *others):
            assert_same(text, proposal.new_text, args)


def test_the_long_name_stands_where_the_file_has_no_shorter_one():
    text = source_of(textwrap.dedent(SIZES + PATCHES), "x, w").replace("import torch.nn.functional as F\n", "")
    assert "torch.nn.functional.conv2d(x, w)" in proposals(text, batch(2, 3, 4))[0].new_text


def test_a_kernel_without_rows_sums_nothing():
    for body in (SIZES + PATCHES, SIZES + NUMBERS):
        text = source_of(textwrap.dedent(body), "x, w")
        new = proposals(text, batch(2, 3, 4))[0].new_text
        assert_same(text, new, [randn(1, 2, 2, 2), randn(2, 2, 0, 2)])


@pytest.mark.parametrize("height, kernel", [(4, 3), (40, 3), (40, 5)])
def test_infinity_and_nan_spread_as_far_as_in_the_loop_and_no_further(height, kernel):
    """A transform would carry them everywhere; the second form, which multiplies and adds, is the measure."""
    text = source_of(textwrap.dedent(SIZES + PATCHES), "x, w")
    first, second = (namespace(one.new_text)["f"] for one in proposals(text, batch(2, 3, 4)))
    x, w = batch(2, 3, 16, kernel, kernel, height, height)
    x[0, 1, 2, 2], x[1, 0, 0, 3], w[3, 0, 0, 1] = float("inf"), float("nan"), 0
    torch.testing.assert_close(first(x, w), second(x, w), rtol=1e-4, atol=1e-4, equal_nan=True)
    w[0, 0, 0, 0] = float("-inf")
    torch.testing.assert_close(first(x, w), second(x, w), rtol=1e-4, atol=1e-4, equal_nan=True)


def test_second_derivatives_and_gradients_of_one_factor_alone_are_the_loops():
    text = source_of(textwrap.dedent(SIZES + PATCHES), "x, w")
    new = proposals(text, batch(2, 3, 4))[0].new_text
    given = [one.double() for one in batch(1, 2, 2, 2, 2, 3, 3)]
    found = []
    for source in (text, new):
        source = source.replace("torch.zeros(", "x.new_zeros(").replace("torch.empty(0)", "x.new_empty(0)")
        function = namespace(source)["f"]
        for tracked in ((True, True), (True, False), (False, True)):
            args = [fresh(one, track) for one, track in zip(given, tracked, strict=True)]
            leaves = [one for one in args if one.requires_grad]
            first = torch.autograd.grad(function(*args).pow(2).sum(), leaves, create_graph=True)
            found += [*first, *torch.autograd.grad(sum(one.pow(2).sum() for one in first), leaves)]
    for one, other in zip(found[: len(found) // 2], found[len(found) // 2 :], strict=True):
        torch.testing.assert_close(one, other)


OTHERS = {
    "whole numbers, which torch does not convolve": (
        SIZES + PATCHES,
        lambda: [torch.randint(5, (2, 3, 3, 4)), torch.randint(5, (2, 3, 2, 3))],
    ),
    "two dtypes": (SIZES + PATCHES, lambda: [randn(2, 3, 3, 4), randn(2, 3, 2, 3).double()]),
    "a filter for each channel": (
        SIZES
        + """
    out = torch.zeros(n, c, height - kh + 1, width - kw + 1)
    for b in range(n):
        for k in range(c):
            for i in range(height - kh + 1):
                for j in range(width - kw + 1):
                    out[b, k, i, j] = (x[b, k, i:i + kh, j:j + kw] * w[k, 0]).sum()
    return out
""",
        lambda: [randn(2, 2, 3, 4), randn(2, 1, 2, 3)],
    ),
    "a kernel that is turned around": (
        SIZES + NUMBERS.replace("i + p, j + q", "i + kh - 1 - p, j + q"),
        lambda: batch(1, 2, 2, height=4),
    ),
    "every second number of a window": (
        SIZES + NUMBERS.replace("height - kh + 1", "height - 2 * kh + 2").replace("i + p", "i + 2 * p"),
        lambda: batch(1, 2, 2, height=4),
    ),
    "another kernel for every row": (
        SIZES
        + """
    out = torch.zeros(n, f, height - kh + 1, width - kw + 1)
    for b in range(n):
        for k in range(f):
            for i in range(height - kh + 1):
                for j in range(width - kw + 1):
                    for p in range(kh):
                        for q in range(kw):
                            out[b, k, i, j] += x[b, 0, i + p, j + q] * rows[i, p, q]
    return out
""",
        lambda: [randn(1, 2, 3, 4), randn(2, 2, 2, 3), randn(2, 2, 3)],
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_like_a_convolution_and_is_none_becomes_something_else(name):
    body, inputs = OTHERS[name]
    args = inputs()
    text = HEAD + "def f(x, w, rows=None):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    for proposal in proposals(text, args):
        assert "conv" not in proposal.new_text
        assert_same(text, proposal.new_text, args)


def test_a_kernel_whose_length_the_text_does_not_show_raises_where_it_is_another():
    body = SIZES + PATCHES.replace("kh", "2").replace("kw", "3")
    text = source_of(textwrap.dedent(body), "x, w")
    new = proposals(text, batch(2, 3, 4))[0].new_text
    assert "conv2d" in new
    assert_same(text, new, batch(1, 2, 3))
    for kernel in ((1, 1), (1, 3), (2, 1)):  # the loop multiplies the whole window by the one number
        with pytest.raises(RuntimeError):
            namespace(new)["f"](*batch(2, 3, 4, *kernel))
