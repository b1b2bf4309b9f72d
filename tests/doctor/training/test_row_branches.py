"""Rows that go through the same operations one by one: what a graph and the text show of them, and what is told."""

import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradwright.doctor.observe.training.costly_nodes import costly
from gradwright.doctor.observe.training.row_branches import loop_around
from gradwright.doctor.rules.rule import Facts
from gradwright.doctor.rules.speed import cat_in_loop, python_loop_over_rows
from gradwright.doctor.session.facts import CostlyGraph, LoopsTreated
from gradwright.doctor.session.model import Subject
from gradwright.doctor.session.place import Location

torch.manual_seed(0)
NET = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
CELL, HEADS = nn.RNNCell(6, 8), nn.ModuleList([nn.Linear(6, 1) for _ in range(20)])
NORMED = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
X = torch.randn(20, 6)


def rows_of(loss: Tensor) -> list[tuple[int, int]]:
    """How many rows, and how many operations each."""
    return [(one.count, one.operations) for one in costly(loss.grad_fn) if one.kind == "rows"]


def steps_of(loss: Callable[[Tensor], Tensor]) -> Tensor:
    h, total = torch.zeros(1, 8), torch.zeros(())
    for t in range(20):
        h = CELL(X[t : t + 1], h)
        total = total + loss(h)
    return total


def episode() -> Tensor:
    played = [NET(X[t]) for t in range(20)]
    return torch.stack([(one * 2.0 - 1.0).pow(2).sum() for one in played]).mean()


def grown() -> Tensor:
    embedded, out = NET[0](X), torch.zeros(0, 20)
    for i in range(20):
        out = torch.cat([out, (embedded[i] - embedded).pow(2).sum(1).add(1e-6).sqrt()[None]])
    return out.mean()


FOUND = {
    "a model, sample by sample": (lambda: sum(NET(X[i : i + 1]).sum() / 20 for i in range(20)), 20),
    "a list that is stacked": (lambda: torch.stack([NET(X[i]).pow(2) for i in range(20)]).mean(), 20),
    "distances that grow by cat": (grown, 20),
}  # fmt: skip
NOT = {
    "a few": lambda: sum(NET(X[i : i + 1]).sum() / 20 for i in range(12)),
    "a batch": lambda: NET(X).pow(2).mean(),
    "the steps of a recurrence": lambda: steps_of(lambda h: h.pow(2).mean().sqrt()),
    "the last state of a recurrence": lambda: steps_of(lambda h: h.sum() * 0.0) + CELL(X[:1]).tanh().sum(),
    "heads of their own": lambda: sum(head(X).pow(2).mean() for head in HEADS),
    "losses of what was played before": episode,
    "a normalisation that knows its batch": lambda: sum(NORMED(X[i : i + 2]).pow(2).sum() for i in range(18)),
    "rows of different lengths": lambda: sum(NET(X[: i + 1]).pow(2).mean() for i in range(20)),
    "parameters that shrink": lambda: sum(head.weight.pow(2).sum().sqrt() for head in HEADS),
    "residuals": lambda: nn.Sequential(*(Residual() for _ in range(20)))(X).mean(),
}  # fmt: skip


class Residual(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + F.relu(HEADS[0](x)).tanh() * 0.1


@pytest.mark.parametrize("what", FOUND)
def test_rows_that_are_alike_are_found(what: str) -> None:
    loss, count = FOUND[what]
    ((rows, operations),) = rows_of(loss())
    assert count - 1 <= rows <= count  # the first one may begin the sum
    assert operations >= 3


@pytest.mark.parametrize("what", NOT)
def test_what_is_no_row_is_not_found(what: str) -> None:
    assert rows_of(NOT[what]()) == []


LOOPS = {
    "rows by their number": ("for i in range(n):\n    total = total + f(x[i])  # here", 1),
    "slices": ("for b in range(0, n, 2):\n    y = f(x[b : b + 2])\n    out.append(y)  # here", 1),
    "a comprehension": ("out = torch.stack([f(x[i]) for i in range(n)])  # here", 1),
    "the inner loop": ("for step in range(9):\n    for i in range(n):\n        s = s + f(x[i])  # here\n", 2),
    "a state": ("for t in range(n):\n    h = f(x[t], h)  # here\n    total = total + h", 0),
    "a world": ("for t in range(n):\n    s = f(env.step(a[t]))  # here\n    total = total + s", 0),
    "samples": ("for t in range(n):\n    total = total + policy(x[t]).sample()  # here", 0),
    "a number that takes no row": ("for step in range(n):\n    total = total + f(x)  # here", 0),
    "a row that is only written": ("for t in range(n):\n    out[t] = f(x)  # here", 0),
    "modules": ("for layer in layers:\n    x = layer(x[0])  # here", 0),
    "no loop": ("total = f(x[0])  # here", 0),
}  # fmt: skip


@pytest.mark.parametrize("what", LOOPS)
def test_the_text_says_whether_it_is_a_loop_over_rows(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, line = LOOPS[what]
    path = tmp_path / "rows.py"
    path.write_text(text + "\n")
    here = next(number for number, one in enumerate(text.splitlines(), 1) if "# here" in one)
    column = text.splitlines()[here - 1].index("f(") + 1 if "f(" in text.splitlines()[here - 1] else 9
    found = loop_around(Location(str(path), here, column, here, column + 4))
    assert (found.line if found is not None else 0) == line


SUBJECT = Subject("gradient_call:x", "gradient_call", "backward in the script", Location("train.py", 20))
COST = CostlyGraph(
    id="cost", subject=SUBJECT.id, pattern="rows", count=48, shape=(48, 48, 4), other=(48, 4), bytes=1 << 16,
    looks=3, first=1, seconds=0.05, step_seconds=0.2, step_cpu_seconds=0.1, text="f(x[i])", operations=7,
    location=Location("train.py", 12, 8, 12, 15), loop=Location("train.py", 11, 1, 13, 30),
)  # fmt: skip
TREATED = LoopsTreated(id="loops treated", subject="script", told=())


def judged(rule, *facts) -> list:
    return list(rule.judge(SUBJECT, Facts(facts, SUBJECT)))


def test_the_loop_is_told_once_with_what_it_costs() -> None:
    again = replace(COST, id="again", location=Location("train.py", 13, 8, 13, 15))
    (told,) = judged(python_loop_over_rows, COST, again, TREATED)
    assert told.location == COST.loop
    assert "48 rounds of the same 7 operations" in told.message
    assert "50 ms more than all at once, 50 % of a step's work" in told.why


def test_a_tensor_that_grows_in_such_a_loop_is_not_told_again() -> None:
    cat = replace(COST, id="cat", pattern="cat")
    assert judged(cat_in_loop, cat, TREATED) != []
    assert judged(cat_in_loop, COST, cat, TREATED) == []


@pytest.mark.parametrize(
    "facts",
    [
        [COST],
        [replace(COST, loop=None), TREATED],
        [replace(COST, seconds=0.02), TREATED],
        [replace(COST, looks=1), TREATED],
        [COST, replace(TREATED, told=(COST.loop,))],
    ],
    ids=["loops not tried yet", "the text speaks against it", "cheap", "seen once", "a loop that is told"],
)
def test_what_is_not_worth_a_word_is_not_told(facts: list) -> None:
    assert judged(python_loop_over_rows, *facts) == []


SCRIPTS = {
    "a score for each pair of rows": ("for i in range(len(a)):", """
        def score(a, b):
            return torch.exp(-(a - b).pow(2).sum(-1)).sum() + (a * b).sum()
        def kernel(a, b):
            rows = []
            for i in range(len(a)):
                rows.append(score(a[i], b).sqrt())
            return torch.stack(rows)
        for step in range(4):
            optimizer.zero_grad()
            kernel(model(x), x).mean().backward()
            optimizer.step()
        """),
    "a recurrence with a loss at each step": ("", """
        cell = nn.GRUCell(6, 6)
        for step in range(4):
            optimizer.zero_grad()
            h, loss = torch.zeros(1, 6), 0.0
            for t in range(len(x)):
                h = cell(model(x[t : t + 1]), h)
                loss = loss + (h - x[t]).pow(2).mean().sqrt() / len(x)
            loss.backward()
            optimizer.step()
        """),
    "an episode that is played": ("", """
        class World:
            def reset(self): return torch.zeros(6)
            def step(self, action): return torch.randn(6), float(action)
        world = World()
        for episode in range(4):
            optimizer.zero_grad()
            state, logs, rewards = world.reset(), [], []
            for t in range(24):
                chosen = torch.distributions.Categorical(logits=model(state))
                action = chosen.sample()
                logs.append(chosen.log_prob(action))
                state, reward = world.step(action)
                rewards.append(reward)
            loss = sum(-logs[i] * rewards[i] for i in range(24))
            loss.backward()
            optimizer.step()
        """),
    "micro-batches in one graph": ("", """
        wide = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
        many = torch.randn(16 * 256, 256)
        for step in range(3):
            loss = 0.0
            for i in range(16):
                loss = loss + wide(many[i * 256 : (i + 1) * 256]).pow(2).mean()
            loss.backward()
            optimizer.step()
        """),
}  # fmt: skip
HEAD = """
import torch
import torch.nn as nn
torch.manual_seed(0)
model = nn.Linear(6, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64, 6)
"""


@pytest.mark.parametrize("what", SCRIPTS)
def test_scripts_are_told_of_their_loops_over_rows_and_of_no_others(what: str, run: Callable, tmp_path: Path) -> None:
    line, text = SCRIPTS[what]
    (tmp_path / "train.py").write_text(HEAD + textwrap.dedent(text))
    report = run(tmp_path / "train.py", probe_seconds=0.0, fix_seconds=0.0, to_end=True).report
    assert not [one for one in report.not_examined if "the watching failed" in one.why]
    lines = (HEAD + textwrap.dedent(text)).splitlines()
    told = [lines[one.location.line - 1].strip() for one in report.findings if one.code == "GW304"]
    assert told == ([line] if line else [])


def test_a_loop_is_found_behind_text_that_is_not_ascii(tmp_path: Path) -> None:
    line = 'parts = {"éé😀😀": sum(x[i].exp() for i in range(9))}'
    script = tmp_path / "train.py"
    script.write_text(f"{line}\n")
    first, last = line.index("x[i]") + 1, line.index("exp()") + 6
    found = loop_around(Location(str(script), 1, first, 1, last))
    assert found is not None
    assert line[found.column - 1 : found.end_column - 1] == "(x[i].exp() for i in range(9))"
