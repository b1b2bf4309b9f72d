"""What is right is verified; what is wrong in any way that a caller could notice is not."""

import collections
import types

import pytest
import torch

from gradwright.doctor.prove import Proved, attempt, prove
from gradwright.doctor.prove.trial import run
from gradwright.doctor.rewrite import propose
from gradwright.doctor.rewrite.source_text import SourceText
from gradwright.doctor.session.facts import GradientVerdict
from gradwright.doctor.session.model import Finding
from gradwright.doctor.session.place import Location
from gradwright.ground import clock


@pytest.fixture(autouse=True)
def quick(monkeypatch, request):
    """Exact evaluation is a rung of its own: only where a certificate is asked for it has anything to add here."""
    if "certificate" not in request.node.name:
        monkeypatch.setattr(attempt, "EXACT_LENGTHS", ())


LOOP = """import torch

raise_if_run_again = []


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = torch.zeros_like(x)
        for r in range(len(x)):
            for c in range(x.shape[1]):
                y[r, c] = FORWARD
        return y

    @staticmethod
    def backward(ctx, cotangent):
        (x,) = ctx.saved_tensors
        result = torch.zeros_like(x)
        for r in range(len(x)):
            for c in range(x.shape[1]):
                BODY
        return result
"""


def slow(body="result[r, c] = cotangent[r, c] * 2 * x[r, c]", forward="x[r, c] ** 2"):
    return LOOP.replace("FORWARD", forward).replace("BODY", body)


def loaded(text):
    module = types.ModuleType("net")
    exec(compile(text, "net.py", "exec"), vars(module))
    return vars(module)


def replaced(text, old, new):
    """A proposal that says nothing but: ``new`` stands where ``old`` stood."""
    assert text.count(old) == 1
    source = SourceText("net.py", text)
    functions = [f for f in source.functions() if old.strip().split("\n")[0].strip() in source.code(f)]
    return source.proposal("by hand", functions[-1], text.replace(old, new), "by hand")


FORWARD_LOOP = """        y = torch.zeros_like(x)
        for r in range(len(x)):
            for c in range(x.shape[1]):
                y[r, c] = x[r, c] ** 2
"""
BACKWARD_LOOP = """        result = torch.zeros_like(x)
        for r in range(len(x)):
            for c in range(x.shape[1]):
                BODY
        return result
"""


def tried(code, text=None, body="result[r, c] = cotangent[r, c] * 2 * x[r, c]", specimens=None, seconds=25.0):
    text = text or slow(body)
    lines = "".join(f"        {line}\n" for line in code.split("\n"))
    proposal = replaced(text, BACKWARD_LOOP.replace("BODY", body), lines)
    namespace = loaded(text)
    if specimens is None:
        specimens = [((torch.linspace(-2, 3, 30).reshape(5, 6),), (True,))]
    return prove(proposal, namespace["Slow"], namespace, specimens, expect="same", deadline=clock.now() + seconds)


def test_array_code_that_does_the_same_is_verified():
    proved = tried("return 2 * x * cotangent")
    assert isinstance(proved, Proved), proved
    proof = proved.proof
    assert proof.verdict == "verified"
    assert proof.mutants_rejected == proof.mutants_tried >= 20
    assert not proved.unsafe
    assert proof.worst_error <= proof.tolerance < 1e-4
    assert proof.before_seconds > proof.after_seconds > 0
    told = "\n".join(proof.on)
    for part in ("float32 [5, 6]", "float64", "NaN", "an axis 0 long", "transposed", "expanded", "second order"):
        assert part in told


WRONG = {
    "another constant": ("return 2.001 * x * cotangent", "returned"),
    "another sign": ("return -2 * x * cotangent", "returned"),
    "another formula": ("return 2 * x.abs() * cotangent", "returned"),
    "the cotangent's mean": ("return 2 * x * cotangent.mean()", "returned"),
    "half the precision": ("return (2 * x.bfloat16() * cotangent).to(x.dtype)", "returned"),
    "transposed": ("return (2 * x * cotangent).t()", "raised"),
    "no second order": ("return (2 * x * cotangent).detach()", "second"),
    "the cotangent changed": ("return cotangent.mul_(2 * x)", "cotangent 0"),
    "the input changed": ("x.data.mul_(2)\nreturn x * cotangent", "changed x in place"),
    "an exception on empty tensors": ("assert x.numel()\nreturn 2 * x * cotangent", "AssertionError"),
    "an exception on one row": ("assert x.shape[0] != 1\nreturn 2 * x * cotangent", "AssertionError"),
    "contiguous memory taken for granted": ("return 2 * x.view(-1).view(x.shape) * cotangent", "view"),
    "a cotangent's memory taken for granted": ("return 2 * x * cotangent.view(-1).view(x.shape)", "view"),
    "square inputs taken for granted": ("return 2 * x * cotangent.t().reshape(x.shape)", "returned"),
    "None": ("return None", "expected"),
    "the shape of one row": ("return (2 * x * cotangent)[:1].expand(x.shape)", "returned"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_candidate_is_rejected_with_a_counterexample(name):
    code, word = WRONG[name]
    answer = tried(code)
    assert isinstance(answer, str)
    assert word in answer


def test_a_tie_broken_the_other_way_is_rejected():
    body = "result[r, c] = cotangent[r, c] * (x[r, c] > 0)"
    assert isinstance(tried("return cotangent * (x > 0)", body=body), Proved)
    assert isinstance(tried("return cotangent * (x >= 0)", body=body), str)


def test_the_gradient_of_where_is_rejected_where_its_branch_has_a_domain():
    body = "result[r, c] = cotangent[r, c] * torch.sqrt(x[r, c]) if x[r, c] > 0 else 0.0 * cotangent[r, c]"
    answer = tried("return torch.where(x > 0, cotangent * x.sqrt(), 0.0 * cotangent)", body=body)
    assert isinstance(answer, str)
    assert "second-order" in answer


def test_item_in_the_original_asks_for_no_second_order():
    body = "result[r, c] = 2 * x[r, c].item() * cotangent[r, c].item()"
    assert isinstance(tried("return 2 * x * cotangent", body=body), Proved)


def test_an_output_that_is_never_negative_has_an_equivalent_twin():
    text = slow(forward="1 / (1 + torch.exp(-x[r, c]))")
    loop = text[text.index("        y = torch") : text.index("        return y")]
    proposal = replaced(text, loop, "        y = 1 / (1 + torch.exp(-x))\n")
    namespace = loaded(text)
    specimens = [((torch.randn(6, 5),), (True,))]
    proof = prove(proposal, namespace["Slow"], namespace, specimens, expect="same", deadline=clock.now() + 25)
    assert isinstance(proof, Proved), proof


def test_an_output_that_is_the_input_is_rejected():
    text = slow(forward="x[r, c]")
    loop = text[text.index("        y = torch") : text.index("        return y")]
    proposal = replaced(text, loop, "        y = x.view_as(x)\n")
    namespace = loaded(text)
    specimens = [((torch.randn(3, 4),), (True,))]
    answer = prove(proposal, namespace["Slow"], namespace, specimens, expect="same", deadline=clock.now() + 20)
    assert isinstance(answer, str)
    assert "shares memory" in answer


def test_a_change_that_no_trial_reaches_is_not_verified():
    text = slow().replace(
        "        return result\n", "        if x.dim() == 7:\n            result = result + 1\n        return result\n"
    )
    proposal = replaced(text, "            result = result + 1\n", "            result = result + 2\n")
    namespace = loaded(text)
    specimens = [((torch.randn(3, 4),), (True,))]
    answer = prove(proposal, namespace["Slow"], namespace, specimens, expect="same", deadline=clock.now() + 20)
    assert isinstance(answer, str)
    assert "0 of" in answer


def test_nothing_is_verified_without_specimens_or_time():
    assert tried("return 2 * x * cotangent", specimens=[]) == "there is no specimen to try it on"
    assert "no time" in tried("return 2 * x * cotangent", seconds=0.0)


def test_an_original_that_raises_leaves_nothing_to_compare():
    answer = tried("return 2 * x * cotangent", specimens=[((torch.randn(3),), (True,))])
    assert isinstance(answer, str)
    assert "raises" in answer


def test_the_script_does_not_run_again_and_its_namespace_stays():
    text = slow().replace("raise_if_run_again = []", "raise_if_run_again.append(1)")
    namespace = {"raise_if_run_again": []}
    exec(compile(text, "net.py", "exec"), namespace)
    before = dict(namespace)
    proposal = replaced(text, FORWARD_LOOP, "        y = x**2\n")
    specimens = [((torch.randn(4, 4),), (True,))]
    proof = prove(proposal, namespace["Slow"], namespace, specimens, expect="same", deadline=clock.now() + 20)
    assert isinstance(proof, Proved), proof
    assert namespace == before and namespace["raise_if_run_again"] == [1]


def test_a_class_inside_a_function_keeps_what_it_closes_over():
    inner = (
        slow()
        .split("\n\n\n")[1]
        .replace("2 * x[r, c]", "scale * x[r, c]")
        .replace("x[r, c] ** 2", "x[r, c] ** 2 * scale / 2")
    )
    text = "import torch\n\n\ndef make(scale):\n" + "".join(
        f"    {line}\n" if line else "\n" for line in inner.split("\n")
    )
    text += "    return Slow\n"
    namespace = loaded(text)
    loop = "        result = torch" + text.split("        result = torch")[1].split("            return")[0]
    proposal = replaced(text, loop, "        result = scale * x * cotangent\n")
    specimens = [((torch.randn(4, 4),), (True,))]
    proof = prove(proposal, namespace["make"](6.0), namespace, specimens, expect="same", deadline=clock.now() + 20)
    assert isinstance(proof, Proved), proof


# Nobody waits for the first forward at that size; of the second one, one round keeps something else.
FORWARDS = {
    "a slow loop": (FORWARD_LOOP, True),
    "rows kept": (FORWARD_LOOP + """        rows = []
        for row in x:
            rows.append(row * 1)
        ctx.save_for_backward(torch.stack(rows))
""", False),
}  # fmt: skip


@pytest.mark.parametrize("name", FORWARDS)
def test_large_inputs_are_cut_and_the_run_s_own_seconds_are_kept(name):
    forward, at_full_size = FORWARDS[name]
    text = slow().replace(FORWARD_LOOP, forward)
    namespace = loaded(text)
    loop = BACKWARD_LOOP.replace("BODY", "result[r, c] = cotangent[r, c] * 2 * x[r, c]")
    proposal = replaced(text, loop, "        return 2 * x * cotangent\n")
    specimens = [((torch.randn(3000, 2000),), (True,))]
    proof = prove(
        proposal, namespace["Slow"], namespace, specimens, expect="same", deadline=clock.now() + 9, seconds=14.1
    )
    assert isinstance(proof, Proved), proof
    assert any(line.endswith(": ties") and line.startswith("float32") for line in proof.proof.on)
    assert (proof.proof.before_seconds == 14.1) == at_full_size
    assert any(line.startswith("timed on float32") for line in proof.proof.on) != at_full_size
    assert proof.proof.after_seconds < 14.1
    assert proof.proof.before_bytes is None or not at_full_size


def test_an_output_of_another_dtype_is_rejected():
    text = slow()
    loop = text[text.index("        y = torch") : text.index("        return y")]
    namespace = loaded(text)
    proposal = replaced(text, loop, "        y = (x**2).double()\n")
    specimens = [((torch.randn(3, 4),), (True,))]
    answer = prove(proposal, namespace["Slow"], namespace, specimens, expect="same", deadline=clock.now() + 20)
    assert isinstance(answer, str)
    assert "float64" in answer


def test_a_candidate_that_is_no_faster_is_not_offered():
    text = slow()
    namespace = loaded(text)
    old = "                result[r, c] = cotangent[r, c] * 2 * x[r, c]\n"
    new = "                value = x[r, c] + x[r, c]\n"
    new += "                result[r, c] = value.clone().clone().clone().clone().clone().clone() * cotangent[r, c]\n"
    proposal = replaced(text, old, new)
    specimens = [((torch.randn(4, 5),), (True,))]
    answer = prove(proposal, namespace["Slow"], namespace, specimens, expect="same", deadline=clock.now() + 25)
    assert isinstance(answer, str)
    assert "no faster" in answer


HALVED = """import torch


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.t(), 0.5 * x.t() @ g
"""


def _finding(name, line, evidence=()):
    return Finding("GW", name, "speed", "warning", "s", Location("net.py", line), "", "", evidence=evidence)


def test_a_mended_factor_is_verified_as_right():
    fact = GradientVerdict(
        id="v",
        subject="s",
        specimen="",
        input_index=1,
        input_name="w",
        verdict="wrong",
        cause="constant factor",
        factor=0.5,
    )
    namespace = loaded(HALVED)
    specimens = [((torch.randn(5, 4), torch.randn(4, 3)), (True, True))]
    (proposal,) = propose("mend_gradient", _finding("gradient-value-wrong", 10, ("v",)), (fact,), HALVED)
    proof = prove(proposal, namespace["Halved"], namespace, specimens, expect="right", deadline=clock.now() + 25)
    assert isinstance(proof, Proved), proof
    assert proof.proof.mutants_rejected >= 5


def test_a_mutant_runs_once_on_a_trial_and_what_rejected_the_last_one_is_asked_first(monkeypatch):
    """Most mutants of a backward have the right outputs: trials see nothing, the judge of gradients does."""
    ran = []

    def counted(subject, trial, names, **options):
        ran.append((subject, trial, options.get("double", False)))  # held, so that no id comes twice
        return run(subject, trial, names, **options)

    monkeypatch.setattr("gradwright.doctor.prove.learning.run", counted)
    namespace = loaded(HALVED)
    proposal = replaced(HALVED, "0.5 * x.t() @ g", "x.t() @ g")
    specimens = [((torch.randn(5, 4), torch.randn(4, 3)), (True, True))]
    proof = prove(proposal, namespace["Halved"], namespace, specimens, expect="right", deadline=clock.now() + 25)
    assert isinstance(proof, Proved), proof
    of_each = collections.Counter(id(subject) for subject, _, _ in ran)
    original_and_candidate = {subject for subject, _ in of_each.most_common(2)}
    times = collections.Counter((id(subject), id(trial), double) for subject, trial, double in ran)
    assert {n for (subject, _, _), n in times.items() if subject not in original_and_candidate} == {1}
    on_all = max(n for subject, n in of_each.items() if subject not in original_and_candidate)
    rejected_at_once = sum(n == 1 for n in of_each.values())  # but for the trial that tells a program from none
    assert on_all > 20 and rejected_at_once >= 10


@pytest.mark.parametrize("wrong", ["2 * x.t() @ g", "-x.t() @ g", "(x.t() @ g).abs()", "0.99 * x.t() @ g"])
def test_a_factor_mended_wrongly_is_rejected(wrong):
    namespace = loaded(HALVED)
    proposal = replaced(HALVED, "0.5 * x.t() @ g", wrong)
    specimens = [((torch.randn(5, 4), torch.randn(4, 3)), (True, True))]
    answer = prove(proposal, namespace["Halved"], namespace, specimens, expect="right", deadline=clock.now() + 25)
    assert isinstance(answer, str)
    assert "input 1 is wrong" in answer


def test_a_mended_gradient_may_not_change_the_output():
    namespace = loaded(HALVED)
    proposal = replaced(HALVED, "return x @ w", "return 2 * x @ w")
    specimens = [((torch.randn(5, 4), torch.randn(4, 3)), (True, True))]
    answer = prove(proposal, namespace["Halved"], namespace, specimens, expect="right", deadline=clock.now() + 25)
    assert isinstance(answer, str)
    assert "output 0" in answer


def test_one_of_two_wrong_gradients_may_be_mended_alone():
    text = HALVED.replace("return g @ w.t()", "return 3 * g @ w.t()")
    namespace = loaded(text)
    specimens = [((torch.randn(5, 4), torch.randn(4, 3)), (True, True))]
    deadline = clock.now() + 25
    proposal = replaced(text, "0.5 * x.t() @ g", "x.t() @ g")
    proof = prove(proposal, namespace["Halved"], namespace, specimens, expect="right", deadline=deadline)
    assert isinstance(proof, Proved), proof
    spoilt = replaced(text, "return 3 * g @ w.t(), 0.5 * x.t() @ g", "return 2 * g @ w.t(), x.t() @ g")
    answer = prove(spoilt, namespace["Halved"], namespace, specimens, expect="right", deadline=deadline)
    assert isinstance(answer, str)
    assert "input 0 is wrong" in answer


@pytest.mark.parametrize("body", ["g @ w.t(), x.t() @ g / 2", "(w @ g.t()).t(), 0.5 * x.t() @ g"])
def test_a_change_that_mends_nothing_is_rejected(body):
    namespace = loaded(HALVED)
    proposal = replaced(HALVED, "g @ w.t(), 0.5 * x.t() @ g", body)
    specimens = [((torch.randn(5, 4), torch.randn(4, 3)), (True, True))]
    answer = prove(proposal, namespace["Halved"], namespace, specimens, expect="right", deadline=clock.now() + 25)
    assert isinstance(answer, str)
    assert "mends nothing" in answer


def test_an_input_that_wanted_no_gradient_is_judged_too():
    namespace = loaded(HALVED)
    specimens = [((torch.randn(5, 4), torch.randn(4, 3)), (False, True))]
    for body, verified in (("g @ w.t(), x.t() @ g", True), ("2 * g @ w.t(), x.t() @ g", False)):
        proposal = replaced(HALVED, "g @ w.t(), 0.5 * x.t() @ g", body)
        deadline = clock.now() + 25
        answer = prove(proposal, namespace["Halved"], namespace, specimens, expect="right", deadline=deadline)
        assert isinstance(answer, Proved) == verified, answer
