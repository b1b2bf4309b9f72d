"""Statements that do the same with the same names hold; every trap of the loop compiler's trade is told from them."""

from types import SimpleNamespace

import pytest
import torch
from tests.doctor.prove.by_hand import tried_region

from gradwright.doctor.prove import Proved, attempt


@pytest.fixture(autouse=True)
def quick(monkeypatch, request):
    """Exact evaluation is a rung of its own: only where a certificate is asked for it has anything to add here."""
    if "certificate" not in request.node.name:
        monkeypatch.setattr(attempt, "EXACT_LENGTHS", ())


SQUARE = """
import torch

def f(x):
    n, m = x.shape
    y = torch.zeros_like(x)
    for r in range(n):
        for c in range(m):
            y[r, c] = x[r, c] ** 2
    return y
"""
SQUARE_LOOP = """
for r in range(n):
    for c in range(m):
        y[r, c] = x[r, c] ** 2
"""


def square_live_ins(n=9, m=7):
    return {"x": torch.randn(n, m), "y": torch.zeros(n, m), "n": n, "m": m}


def test_array_code_for_a_loop_is_proved_where_it_comes_with_a_certificate():
    found = tried_region(SQUARE, SQUARE_LOOP, "y = x ** 2", square_live_ins(), certificate="nothing is carried")
    assert isinstance(found, Proved), found
    proof = found.proof
    assert (proof.verdict, proof.certificate, found.unsafe) == ("proved", "nothing is carried", "")
    assert len(proof.exact) >= 2
    assert proof.mutants_tried == proof.mutants_rejected >= 20
    assert proof.before_operations > 10 * proof.after_operations > 0
    assert proof.after_seconds > 0 < proof.before_seconds
    assert proof.before_bytes > 0 < proof.after_bytes


def test_the_creation_of_a_buffer_may_go_and_without_a_certificate_it_is_verified():
    found = tried_region(SQUARE, SQUARE_LOOP, "y = x ** 2", square_live_ins(), drop="y = torch.zeros_like(x)")
    assert isinstance(found, Proved), found
    assert found.proof.verdict == "verified"


def test_large_inputs_are_cut_and_the_run_s_own_seconds_are_kept():
    found = tried_region(SQUARE, SQUARE_LOOP, "y = x ** 2", square_live_ins(1000, 900), took=10.6)
    assert isinstance(found, Proved), found
    assert found.proof.before_seconds == 10.6
    assert found.proof.after_seconds < 10.6


WRONG_SQUARES = {
    "another value": ("y = x ** 3", "returned"),
    "a rounded value": ("y = (x.bfloat16() ** 2).to(x.dtype)", "returned"),
    "another dtype": ("y = (x ** 2).double()", "float64"),
    "transposed": ("y = (x ** 2).t()", "shape"),
    "no gradient": ("y = x.detach() ** 2", "gradient"),
    "the input changed": ("y = x.detach().pow_(2) + 0 * x", "changed x in place"),
    "random numbers drawn": ("y = x ** 2 + 0 * torch.rand(1)", "random"),
    "the first row alone": ("y = (x ** 2)[:1].expand(n, m)", "returned"),
    "a name left out": ("z = x ** 2", "returned"),
    "a name that is not there": ("y = w ** 2", "NameError"),
}


@pytest.mark.parametrize("name", WRONG_SQUARES)
def test_a_wrong_candidate_is_rejected_with_a_counterexample(name):
    code, word = WRONG_SQUARES[name]
    found = tried_region(SQUARE, SQUARE_LOOP, code, square_live_ins())
    assert isinstance(found, str)
    assert word in found


def in_function(loop, *, head="", after="return y", names="x"):
    lines = [f"def f({names}):", *head.split("\n"), *loop.strip("\n").split("\n"), *after.split("\n")]
    return (
        "import torch\n\n" + "\n".join("    " * (index > 0) + line for index, line in enumerate(lines) if line) + "\n"
    )


MOST = """
best = x[0]
for i in range(1, len(x)):
    if x[i] > best:
        best = x[i]
"""
MOST_LOOP = MOST.split("best = x[0]\n")[1]


def test_the_gradient_between_equal_elements_makes_a_candidate_unsafe():
    text = in_function(MOST, after="return best")
    live_ins = {"x": torch.randn(12, requires_grad=True), "best": torch.tensor(0.0)}
    found = tried_region(text, MOST, "best = x.amax()", live_ins)
    assert isinstance(found, Proved), found
    assert found.unsafe.startswith("where x has equal elements: the gradient of x is ")
    right = tried_region(text, MOST, "best = x[x.argmax()]", live_ins)
    assert isinstance(right, str) or "equal elements" not in right.unsafe


MASKED = """
total = 0.0
for i in range(len(x)):
    if x[i] > 0:
        total = total + x[i] * w[i]
"""


def test_a_mask_that_multiplies_is_unsafe_at_infinity():
    text = in_function(MASKED, after="return total", names="x, w")
    live_ins = {"x": torch.randn(12), "w": torch.randn(12), "total": 0.0}
    found = tried_region(text, MASKED, "total = (x * w * (x > 0)).sum()", live_ins)
    assert isinstance(found, Proved), found
    assert "inf" in found.unsafe and "nan in the change" in found.unsafe
    where = tried_region(text, MASKED, "total = torch.where(x > 0, x * w, 0.0).sum()", live_ins)
    assert isinstance(where, Proved) and not where.unsafe, where


def test_the_gradient_of_where_is_rejected_where_its_branch_has_no_derivative():
    loop = """
y = torch.zeros_like(x)
for i in range(len(x)):
    if x[i] > 0:
        y[i] = torch.sqrt(x[i])
"""
    text = in_function(loop)
    live_ins = {"x": torch.randn(12, requires_grad=True), "y": torch.zeros(12)}
    found = tried_region(text, loop, "y = torch.where(x > 0, x.sqrt(), 0.0)", live_ins)
    assert isinstance(found, str) and "gradient of x" in found
    safe = "y = torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0)"
    assert isinstance(tried_region(text, loop, safe, live_ins), Proved)


def test_dropped_duplicates_are_rejected():
    loop = """
for k in range(len(index)):
    y[index[k]] += v[k]
"""
    text = in_function(loop, names="y, index, v")
    live_ins = {"y": torch.zeros(8), "index": torch.tensor([3, 1, 4, 6, 5, 2]), "v": torch.randn(6)}
    found = tried_region(text, loop, "y[index] += v", live_ins)
    assert isinstance(found, str) and "indices" in found
    assert isinstance(tried_region(text, loop, "y.index_add_(0, index, v)", live_ins), Proved)
    kept = tried_region(text, loop, "y = y.index_add(0, index, v)", live_ins)
    assert isinstance(kept, str) and "left y as before" in kept


def test_slices_for_a_loop_that_carries_are_rejected():
    loop = """
for i in range(1, len(y)):
    y[i] = y[i - 1] * a[i]
"""
    text = in_function(loop, names="y, a")
    live_ins = {"y": torch.randn(10), "a": torch.randn(10)}
    found = tried_region(text, loop, "y[1:] = y[:-1] * a[1:]", live_ins)
    assert isinstance(found, str) and "returned" in found


def test_two_names_of_one_memory_are_tried_as_such():
    loop = """
for i in range(1, len(y)):
    y[i] = x[i - 1] + 1
"""
    text = in_function(loop, names="x, y")
    code = "y[1:] = x[:-1] + 1"
    apart = tried_region(text, loop, code, {"x": torch.randn(10), "y": torch.randn(10)})
    assert isinstance(apart, Proved), apart
    assert not apart.unsafe and "while x and y are two tensors" in apart.proof.on
    one = torch.randn(10)
    found = tried_region(text, loop, code, {"x": one, "y": one.view(10)})
    assert isinstance(found, str) and "returned" in found


def test_a_number_that_need_not_be_a_length_is_varied():
    loop = """
total = 0.0
for i in range(n):
    total = total + x[i] * x[i]
"""
    text = in_function(loop, after="return total", names="x, n")
    live_ins = {"x": torch.randn(12), "n": 12, "total": 0.0}
    found = tried_region(text, loop, "total = (x * x).sum()", live_ins)
    assert isinstance(found, str) and "n is " in found
    assert isinstance(tried_region(text, loop, "total = (x[:n] * x[:n]).sum()", live_ins), Proved)
    said = in_function(loop, head="n = len(x)", after="return total")
    assert isinstance(tried_region(said, loop, "total = (x * x).sum()", live_ins), Proved)


def test_a_sum_that_begins_elsewhere_is_told():
    loop = """
for i in range(len(x)):
    total = total + x[i] * 2
"""
    text = in_function(loop, after="return total", names="x, total")
    live_ins = {"x": torch.randn(12), "total": 0.0}
    assert isinstance(tried_region(text, loop, "total = (x * 2).sum()", live_ins), str)
    assert isinstance(tried_region(text, loop, "total = total + (x * 2).sum()", live_ins), Proved)


def test_random_numbers_are_drawn_in_the_same_order_or_not_at_all():
    loop = """
y = torch.zeros(len(x), 2)
for i in range(len(x)):
    y[i] = x[i] * torch.rand(2)
"""
    text = in_function(loop)
    live_ins = {"x": torch.randn(9), "y": torch.zeros(9, 2)}
    wrong = "y = x[:, None] * torch.rand(2)"
    assert isinstance(tried_region(text, loop, wrong, live_ins), str)


APPENDED = """
rows = []
for i in range(len(x)):
    rows.append(x[i] * w)
return torch.stack(rows)
"""


def test_a_return_within_the_region_is_compared():
    text = in_function(APPENDED, after="", names="x, w")
    live_ins = {"x": torch.randn(7, 3, requires_grad=True), "w": torch.randn(3), "rows": []}
    loop = APPENDED.split("rows = []\n")[1]
    assert isinstance(tried_region(text, loop, "return x * w", live_ins, drop="rows = []"), Proved)
    found = tried_region(text, loop, "return (x * w).t()", live_ins, drop="rows = []")
    assert isinstance(found, str) and "the returned value" in found


def test_lists_and_dictionaries_are_compared_item_by_item():
    loop = """
found = {}
norms = []
for name in ("a", "b"):
    found[name] = x.sum().item() if name == "a" else x.mean()
for row in x:
    norms.append(row.norm().item())
"""
    text = in_function(loop, after="return found, norms")
    lines = loop.split("\n")
    head, tail = "\n".join(lines[:5]), "\n".join(lines[5:])
    live_ins = {"x": torch.randn(11, 4), "norms": []}
    assert head
    right = "norms = x.norm(dim=1).tolist()"
    assert isinstance(tried_region(text, tail, right, live_ins), Proved)
    assert isinstance(tried_region(text, tail, right + "[:-1]", live_ins), str)
    found = tried_region(text, tail, "norms = list(x.norm(dim=1))", live_ins)
    assert isinstance(found, str) and "expected" in found


class Layer(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(size, size))
        self.calls = 0


METHOD = """
import torch

class Layer(torch.nn.Module):
    def forward(self, x):
        y = x.new_zeros(x.shape[0], self.weight.shape[0])
        for i in range(x.shape[0]):
            for k in range(self.weight.shape[0]):
                y[i, k] = (self.weight[k] * x[i]).sum()
        self.calls += 1
        return y
"""


def test_attributes_of_an_object_are_inputs_too():
    loop = "\n".join(line.removeprefix(" " * 8) for line in METHOD.strip().split("\n")[5:8])
    layer = Layer(6)
    before = layer.weight.detach().clone()
    live_ins = {"self": layer, "x": torch.randn(5, 6), "y": torch.zeros(5, 6)}
    found = tried_region(METHOD, loop, "y = x @ self.weight.t()", live_ins)
    assert isinstance(found, Proved), found
    assert torch.equal(layer.weight, before) and layer.weight.grad is None
    for wrong in ("y = x @ self.weight", "y = x @ self.weight.detach().t()"):
        assert isinstance(tried_region(METHOD, loop, wrong, live_ins), str)
    found = tried_region(METHOD, loop, "self.calls += 1\ny = x @ self.weight.t()", live_ins)
    assert isinstance(found, str) and "self.calls" in found


def test_what_goes_into_the_original_goes_into_the_change_whatever_else_it_leaves_out():
    """With ``y`` left out nothing reads ``rows`` above the loop: it is a number of its own all the same."""
    text = """
import torch

def f(self, x):
    rows = len(x) // self.step
    y = torch.zeros(rows)
    for i in range(rows):
        y[i] = x[i * self.step] ** 2
    return y
"""
    loop = "for i in range(rows):\n    y[i] = x[i * self.step] ** 2\n"
    entered = {"self": SimpleNamespace(step=2), "x": torch.randn(12), "y": torch.zeros(6), "rows": 6}
    change = "y = x[:rows * self.step:self.step] ** 2"
    found = tried_region(text, loop, change, entered, drop="y = torch.zeros(rows)")
    assert isinstance(found, Proved), found
    wrong = tried_region(text, loop, "y = x[::self.step] ** 2", entered, drop="y = torch.zeros(rows)")
    assert isinstance(wrong, str)


def test_a_loop_of_the_script_s_own_body_reads_and_leaves_globals():
    text = """
import torch

scores = torch.randn(9, 4)
picked = torch.zeros(9)
for i in range(scores.shape[0]):
    picked[i] = scores[i].max()
print(picked.sum())
"""
    loop = """
for i in range(scores.shape[0]):
    picked[i] = scores[i].max()
"""
    scores = torch.randn(9, 4)
    live_ins = {"scores": scores, "picked": torch.zeros(9)}
    right = tried_region(text, loop, "picked[:] = scores.max(dim=1).values", live_ins, globals_=live_ins)
    assert isinstance(right, Proved), right
    assert isinstance(tried_region(text, loop, "picked[:] = scores.min(dim=1).values", live_ins), str)


def test_what_is_added_to_the_module_is_there_when_it_is_tried():
    added = "import math\n\ndef _squared(x):\n    return math.prod([1]) * x ** 2\n"
    found = tried_region(SQUARE, SQUARE_LOOP, "y = _squared(x)", square_live_ins(), added=added)
    assert isinstance(found, Proved), found
    found = tried_region(SQUARE, SQUARE_LOOP, "y = _squared(x)", square_live_ins(), added="import no_such_module")
    assert isinstance(found, str) and "no_such_module" in found


def test_a_change_that_is_not_faster_is_withheld_with_the_figures():
    slower = SQUARE_LOOP.replace("x[r, c] ** 2", "(x[r, c].clone().clone().clone().clone() + 0) ** 2")
    assert slower != SQUARE_LOOP
    found = tried_region(SQUARE, SQUARE_LOOP, slower, square_live_ins())
    assert isinstance(found, str) and "no faster" in found and "bytes" in found


def test_nothing_is_proved_without_time_or_live_ins():
    assert "no time" in tried_region(SQUARE, SQUARE_LOOP, "y = x ** 2", square_live_ins(), seconds=0.0)
    assert "nothing was kept" in tried_region(SQUARE, SQUARE_LOOP, "y = x ** 2", [])


def test_live_ins_and_random_state_are_left_as_they_are():
    live_ins = square_live_ins()
    before = {name: value.clone() for name, value in live_ins.items() if torch.is_tensor(value)}
    state = torch.get_rng_state()
    assert isinstance(tried_region(SQUARE, SQUARE_LOOP, "y.copy_(x ** 2)", live_ins), Proved)
    assert all(torch.equal(live_ins[name], value) for name, value in before.items())
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.are_deterministic_algorithms_enabled()


ADDED = """
for i in range(n):
    for j in range(m):
        out[i, j] += tmp[i, j] * 2
"""


@pytest.mark.parametrize("head", ["out = torch.zeros(n, m, dtype=a.dtype)", "out = torch.ones(n, m, dtype=a.dtype)"])
def test_a_fresh_buffer_holds_what_the_text_says_whatever_tensor_gave_its_dtype(head):
    text = in_function(ADDED, head="n, m = a.shape\ntmp = a * 1\n" + head, after="return out", names="a")
    live_ins = {"n": 5, "m": 4, "tmp": torch.randn(5, 4, requires_grad=True), "out": torch.zeros(5, 4)}
    found = tried_region(text, ADDED, "out[...] = 2 * tmp", live_ins)
    assert isinstance(found, Proved) == ("zeros" in head), found


def test_sizes_that_the_text_gives_to_a_tensor_belong_to_it_in_every_trial():
    loop = ADDED.replace("out[i, j] +=", "total +=")
    live_ins = {"n": 5, "m": 4, "tmp": torch.randn(5, 4, requires_grad=True), "total": 0.0}
    for made, proved in (("torch.zeros(n, m)", True), ("torch.zeros(n + 1, m)[1:]", False)):
        head = f"n, m = a.shape\ntmp = {made}\ntmp[0] = 1\ntotal = 0.0"
        text = in_function(loop, head=head, after="return total", names="a")
        found = tried_region(text, loop, "total = (2 * tmp).sum()", live_ins)
        assert isinstance(found, Proved) == proved, found


def test_a_name_that_a_copy_takes_over_is_given_as_the_copy():
    loop = "for i in range(n):\n    for j in range(n):\n        x[i] += a[i, j] * y[j]"
    text = in_function(loop, head="n = a.shape[0]\nx = x.clone()", after="return x", names="a, x, y")
    x = torch.randn(6).requires_grad_().clone()
    live_ins = {"a": torch.randn(6, 6), "x": x, "y": torch.randn(6), "n": 6}
    found = tried_region(text, loop, "x[:n] += a[:, :n] @ y[:n]", live_ins)
    assert isinstance(found, Proved), found


def test_what_is_written_in_place_is_no_leaf_even_where_the_loop_makes_no_round():
    loop = "for i in range(x.shape[0]):\n    for j in range(x.shape[1]):\n        x[i, j] = x[i, j] * 3 + 2"
    text = in_function(loop, after="return x", names="x")
    live_ins = {"x": torch.randn(5, 4, requires_grad=True)}
    for code, proved in (("x[...] = x * 3 + 2", True), ("x[...] = x * 3 + 2.01", False)):
        found = tried_region(text, loop, code, live_ins)
        assert isinstance(found, Proved) == proved, found


def test_other_sizes_may_be_refused_and_not_taken_wrongly():
    loop = "for i in range(n):\n    for k in range(n):\n        total = total + (s[i, k] if k > i else 0)"
    text = in_function(loop, head="n = s.shape[0]\ntotal = 0.0", after="return total", names="s")
    live_ins = {"s": torch.randn(6, 6, requires_grad=True), "n": 6, "total": 0.0}
    mask = "torch.arange(n) > torch.arange(n)[:, None]"
    found = tried_region(text, loop, f"total = torch.where({mask}, s, 0).sum()", live_ins)
    assert isinstance(found, Proved), found
    assert any("sizes differ" in line for line in found.proof.on)
    assert isinstance(tried_region(text, loop, "total = s.triu(1).sum()", live_ins), str)


def test_a_loop_variable_that_is_bound_again_before_it_is_read_need_not_be_left():
    loop = "for j in range(len(x)):\n    for i in range(x.shape[1]):\n        y[j, i] = x[j, i] ** 2"
    for after, proved in (("for i in range(2):\n    y = y * i", True), ("y = y * i", False)):
        text = in_function(loop, head="y = torch.zeros_like(x)", after=after.replace("\n", "\n    ") + "\nreturn y")
        found = tried_region(text, loop, "y = x ** 2", {"x": torch.randn(5, 4), "y": torch.zeros(5, 4)})
        assert isinstance(found, Proved) == proved, found
