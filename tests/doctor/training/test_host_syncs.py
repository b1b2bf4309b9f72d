"""Where a script waits for the GPU. There is none here: tensors of the CPU stand in for its, and nobody waits."""

import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gradwright.doctor.rules.rule import Facts
from gradwright.doctor.rules.speed.host_sync import judge
from gradwright.doctor.session.facts import HostSync
from gradwright.doctor.session.model import Finding, Subject
from gradwright.doctor.session.place import Location

HEAD = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(6, 3)
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(12, 6), torch.randint(0, 3, (12,))
mask = y == 1

def losses():
    return torch.nn.functional.cross_entropy(model(x), y, reduction="none")

def train(look, steps=30):
    for step in range(steps):
        optimizer.zero_grad()
        loss = losses()
        look(step, loss)
        loss.mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
"""
# What is called in each step, its name in the report, and how often.
WAITS = {
    "loss.mean().item()": ("item()", 1),
    "[one.item() for one in loss]": ("item()", 12),
    "float(loss[0])": ("float()", 1),
    "int(y[0]), int(y[1])": ("int()", 2),
    "loss.sum() > 0 and None": ("bool()", 1),
    "loss.detach().cpu()": ("cpu()", 1),
    "loss.tolist()": ("tolist()", 1),
    "print(loss.sum())": ("print()", 1),
    "f'{loss.sum():.3f}'": ("format()", 1),
    "torch.nonzero(mask)": ("nonzero()", 1),
    "mask.nonzero(as_tuple=True)": ("nonzero()", 1),
    "torch.where(mask)": ("where()", 1),
    "loss[mask]": ("a boolean mask", 1),
    "x[mask, 0]": ("a boolean mask", 1),
    "torch.masked_select(x[:, 0], mask)": ("masked_select()", 1),
    "torch.unique(y)": ("unique()", 1),
    "torch.equal(y, y)": ("equal()", 1),
}
QUIET = [
    "None",
    "loss.sum()",
    "torch.where(mask, loss, 0)",
    "loss[y]",
    "loss[:3]",
    "x.to(torch.float64)",
    "loss.shape[0], loss.dim(), len(loss)",
    "loss.detach().mean()",
]


@pytest.fixture
def seen(run: Callable, tmp_path: Path) -> Callable:
    def facts(text: str, **options) -> list[HostSync]:
        script = tmp_path / "train.py"
        script.write_text(HEAD + textwrap.dedent(text))
        report = run(script, cwd=tmp_path, probe_seconds=0.0, fix_seconds=0.0, **{"on_gpu": True, **options}).report
        assert report.script.exit_code == 0
        assert not [gap for gap in report.not_examined if "watching failed" in gap.why]
        return list(report.of(HostSync))

    return facts


def test_each_call_that_waits_is_counted_at_its_place(seen: Callable) -> None:
    lines = [f"    if turn: {text}" for text in WAITS]
    found = seen("def look(step, loss):\n    turn = step >= 0\n" + "\n".join(lines) + "\ntrain(look)")
    first = HEAD.count("\n") + 3
    told: Counter[tuple[int, str]] = Counter()
    for sync in found:
        told[sync.location.line - first, sync.call] += sync.calls
    assert told == {(line, call): 8 * count for line, (call, count) in enumerate(WAITS.values())}
    assert all(sync.seen_in == sync.steps == 8 and sync.first_step == 16 for sync in found)
    assert all(0 < sync.seconds < 8 * sync.step_seconds for sync in found)


def test_what_waits_for_nothing_or_is_a_librarys_is_not(seen: Callable) -> None:
    text = "def look(step, loss):\n    turn = step >= 0\n" + "\n".join(f"    if turn: {text}" for text in QUIET)
    assert seen(text + "\ntrain(look)") == []


@pytest.mark.parametrize(("every", "in_steps"), [(2, 4), (10, 1)])
def test_what_is_done_every_few_steps_is_known_to_be(every: int, in_steps: int, seen: Callable) -> None:
    (sync,) = seen(f"def look(step, loss):\n    if step % {every} == 0: loss.sum().item()\ntrain(look)")
    assert (sync.seen_in, sync.steps) == (in_steps, 8)


@pytest.mark.parametrize(
    "text",
    [
        "train(lambda step, loss: loss.sum().item(), steps=20)",
        "with torch.device('cpu'):\n    train(lambda step, loss: loss.sum().item())",
    ],
    ids=["a short run", "under a mode of the script's"],
)
def test_nothing_is_known_where_it_was_not_looked_at(text: str, seen: Callable) -> None:
    assert seen(text) == []


def test_without_a_gpu_nothing_is_looked_at(seen: Callable) -> None:
    assert seen("train(lambda step, loss: [one.item() for one in loss])", on_gpu=False) == []


def test_results_are_the_same_as_without(run: Callable, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        HEAD + "train(lambda step, loss: loss.sum().item())\n"
        "print(model.weight.sum().item(), torch.rand(1).item(), torch._C._len_torch_function_stack())\n"
    )
    printed = {run(script, on_gpu=on_gpu, probe_seconds=0.0, fix_seconds=0.0).stdout for on_gpu in (True, False)}
    (once,) = printed
    assert once.endswith(" 0\n")


# --- the rule --------------------------------------------------------------------------------------------------------

SUBJECT = Subject(id="sgd", kind="optimizer", name="SGD", location=Location("train.py", 9))


def sync(line: int = 20, **fields: object) -> HostSync:
    known = {"call": "item()", "calls": 8, "seen_in": 8, "steps": 8, "first_step": 16, "seconds": 4e-3}
    known |= {"step_seconds": 1e-2, "id": f"waits {line}", "location": Location("train.py", line, 5)}
    return HostSync(subject="sgd", **(known | fields))  # type: ignore[arg-type]


def found(*facts: HostSync) -> list[Finding]:
    return list(judge(SUBJECT, Facts(facts, SUBJECT)))


def test_the_longest_wait_is_told_first_with_what_it_costs() -> None:
    mask = sync(30, call="a boolean mask", calls=16, seconds=8e-3)
    (finding,) = found(sync(), mask)
    assert (finding.code, finding.severity, finding.location.line) == ("GW317", "info", 30)
    assert finding.message == "the script waits for the GPU 3 times in each step, 1.5 ms of the 10 ms that a step takes"
    assert (
        "In steps 17 to 24: a boolean mask at train.py:30, 2 times a step, 1 ms; item() at train.py:20" in finding.why
    )
    assert len(finding.hints) == 2


@pytest.mark.parametrize(
    "facts",
    [
        [],
        [sync(seen_in=4, calls=80)],  # every other step
        [sync(seconds=1e-4)],  # once a step, and hardly waited for
        [sync(seen_in=1, seconds=1.0)],
    ],
)
def test_what_is_seldom_or_costs_nothing_is_not_told(facts: list[HostSync]) -> None:
    assert found(*facts) == []


def test_many_short_waits_are() -> None:
    (finding,) = found(sync(seconds=1e-5, calls=64))
    assert "8 times in each step" in finding.message
