"""A region is tried on the graph that is alive: right candidates pass, wrong ones and slow ones don't."""

import pytest
import torch

from gradwright.doctor.prove import live_graph
from gradwright.doctor.prove.live_graph import LiveRegion, prove_on_live_graph
from gradwright.doctor.session.model import Proof
from gradwright.doctor.session.proposal import Proposal
from gradwright.ground import clock

LOOP = """loss = 0.0
for j in range(len(y)):
    g = torch.autograd.grad(y[j, 0], z, create_graph=True)[0][j]
    loss = loss + (g.norm() - 1) ** 2
loss.backward()
"""
SUM = "g = torch.autograd.grad(y[:, 0].sum(), z, create_graph=True)[0]\n"
RIGHT = SUM + "loss = loss + ((g.norm(dim=1) - 1) ** 2).sum()"


def graph(*, coupled=False, samples=24):
    torch.manual_seed(0)
    z = torch.randn(samples, 4, requires_grad=True)
    norm = [torch.nn.BatchNorm1d(8)] if coupled else []
    above = torch.nn.Sequential(torch.nn.Linear(4, 8), *norm, torch.nn.Tanh(), torch.nn.Linear(8, 2))
    return {"torch": torch, "z": z, "y": above(z), "loss": 0.0}


def tried(candidate, names, *, loop=LOOP, lines=(2, 4), mutates=(), seconds=20.0):
    old = loop.split("\n")
    new = [*old[: lines[0] - 1], *candidate.split("\n"), *old[lines[1] :]]
    last = lines[0] + len(candidate.split("\n")) - 1
    changed = tuple(range(lines[0], last + 1))
    proposal = Proposal(
        "r", "net.py", "\n".join(new), "", "", "", "", changed[:1] * 2, changed, lines, (lines[0], last)
    )
    region = LiveRegion("net.py", loop, lines, names, mutates, 24)
    return prove_on_live_graph(proposal, region, "the live graph", clock.now() + seconds)


def test_a_right_candidate_passes_and_its_faulty_twins_do_not():
    proof = tried(RIGHT, graph())
    assert isinstance(proof, Proof), proof
    assert proof.mutants_rejected == proof.mutants_tried >= 20
    assert proof.worst_error < 1e-5 and proof.after_seconds > 0 < proof.before_seconds
    assert proof.before_operations > 5 * proof.after_operations > 0
    assert proof.before_moved_bytes > proof.after_moved_bytes > 0


def test_what_takes_long_on_a_live_graph_is_not_counted(monkeypatch):
    monkeypatch.setattr(live_graph, "LONG", 0.0)
    proof = tried(RIGHT, graph())
    assert isinstance(proof, Proof), proof
    assert proof.before_operations is proof.after_operations is proof.after_moved_bytes is None


WRONG = {
    "a mean for a sum": RIGHT.replace("** 2).sum()", "** 2).mean()"),
    "the other output": RIGHT.replace("y[:, 0]", "y[:, 1]"),
    "the norm of all": RIGHT.replace("g.norm(dim=1)", "g.norm()"),
    "no second gradient": RIGHT.replace("[0]\n", "[0].detach()\n"),
    "no graph": RIGHT.replace(", create_graph=True", ", retain_graph=True"),
    "another shape": RIGHT.replace("** 2).sum()", "** 2).sum(0, keepdim=True)"),
    "it raises": RIGHT.replace("dim=1", "dim=7"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_candidate_is_told_what_is_wrong(fault):
    told = tried(WRONG[fault], graph())
    assert isinstance(told, str) and "faulty twin" not in told


def test_a_sum_over_coupled_samples_is_rejected():
    told = tried(RIGHT, graph(coupled=True))
    assert isinstance(told, str) and "differs" in told


def test_a_candidate_that_is_no_faster_is_withheld():
    told = tried("\n".join([*LOOP.split("\n")[1:4], "torch.zeros(1000, 1000).sin().sum()"]), graph())
    assert isinstance(told, str)
    assert "no faster" in told


def test_what_the_script_holds_stays_as_it_was():
    names = graph()
    rows, table = [], torch.zeros(24, 4)
    names.update(rows=rows, table=table)
    loop = """for j in range(24):
    table[j] = torch.autograd.grad(y[j, 0], z, retain_graph=True)[0][j]
    rows.append(table[j].sum())
print(rows, table)
"""
    candidate = """table[:] = torch.autograd.grad(y[:, 0].sum(), z, retain_graph=True)[0]
rows.extend(table.sum(1).unbind())"""
    state = torch.random.get_rng_state()
    proof = tried(candidate, names, loop=loop, lines=(1, 3), mutates=("rows", "table"))
    assert isinstance(proof, Proof), proof
    assert rows == [] and not table.any() and names["z"].grad is None
    assert torch.equal(torch.random.get_rng_state(), state)


def test_what_nobody_reads_is_not_tried():
    loop = LOOP.replace("loss.backward()", "print(y)")
    assert "read afterwards" in str(tried(RIGHT, graph(), loop=loop))


def test_a_trial_without_time_says_so():
    assert "time" in str(tried(RIGHT, graph(), seconds=-1.0))
