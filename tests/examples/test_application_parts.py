"""The parts of the applications that their results stand on: an exact solution is exact, a measure measures."""

import importlib.util
import math
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import gradwright as gw

EXAMPLES = Path(__file__).parents[2] / "examples"
NU = 0.01 / math.pi


def part(name: str) -> ModuleType:
    """A module beside an application's script, as that imports it."""
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def left_of_burgers(nu: float) -> float:
    """What the solution for ``nu``, put into the equation for NU, leaves of it at most."""
    draws = torch.Generator().manual_seed(0)
    xt = torch.rand(500, 2, dtype=torch.float64, generator=draws) * torch.tensor([2.0, 1.0]) - torch.tensor([1.0, 0.0])
    xt = xt.requires_grad_()
    u = part("burgers/exact").solution(xt[:, 0], xt[:, 1], nu)
    d = gw.penalties.partials(u, wrt=xt, names="xt", of=("t", "x", "xx"))
    return float((d["t"] + u * d["x"] - NU * d["xx"]).detach().abs().max())


def test_the_exact_solution_solves_burgers_equation() -> None:
    assert left_of_burgers(NU) < 1e-8
    assert left_of_burgers(1.01 * NU) > 1e-3


def test_the_exact_solution_begins_and_ends_where_the_problem_says() -> None:
    exact = part("burgers/exact").solution
    x, t = torch.linspace(-1, 1, 51).double(), torch.linspace(0, 1, 11).double()
    torch.testing.assert_close(exact(x, torch.zeros(51), NU), -(math.pi * x).sin(), rtol=0, atol=1e-12)
    torch.testing.assert_close(exact(torch.ones(11), t, NU), torch.zeros(11).double(), rtol=0, atol=1e-12)


def test_more_nodes_do_not_change_the_exact_solution_and_too_few_do() -> None:
    exact = part("burgers/exact").solution
    t, x = torch.meshgrid(torch.linspace(0, 1, 21).double(), torch.linspace(-1, 1, 65).double(), indexing="ij")
    many = exact(x, t, NU, nodes=180)
    assert (exact(x, t, NU) - many).abs().max() < 1e-12
    assert (exact(x, t, NU, nodes=20) - many).abs().max() > 1e-2


def test_the_frechet_distance_is_that_of_gaussians() -> None:
    frechet = part("wgan_gp/judged").frechet
    draws = torch.Generator().manual_seed(0)
    some = torch.randn(500, 4, generator=draws)
    assert frechet(some, some) == pytest.approx(0, abs=1e-9)
    assert frechet(some, some + 1) == pytest.approx(4)  # |m_a - m_b|^2 with four ones
    wider = 3 * some  # the roots of the variances differ by twice themselves: 4 tr(C), and the means by 2 m
    expected = 4 * some.double().T.cov().trace() + 4 * some.double().mean(0).square().sum()
    assert frechet(some, wider) == pytest.approx(float(expected))


def test_precision_sees_samples_elsewhere_and_recall_sees_what_is_left_out() -> None:
    measured = part("wgan_gp/judged").precision_and_recall
    draws = torch.Generator().manual_seed(0)
    left, right = torch.randn(200, 4, generator=draws), torch.randn(200, 4, generator=draws) + 50
    both = torch.cat([left, right])
    assert measured(both, both) == (1.0, 1.0)
    assert measured(left, right) == (0.0, 0.0)
    precision, recall = measured(both, left)  # one of two kinds
    assert precision == 1.0 and recall == 0.5
    precision, recall = measured(left, both)
    assert precision == 0.5 and recall == 1.0


@pytest.mark.parametrize(
    ("script", "without", "named"),
    [
        ("wgan_gp/train.py", {"sklearn"}, "pip install scikit-learn\n"),
        ("wgan_gp/train.py", {"sklearn", "matplotlib"}, "pip install scikit-learn matplotlib\n"),
        ("burgers/train.py", {"matplotlib"}, "pip install matplotlib\n"),
    ],
)
def test_what_an_application_lacks_is_named_before_it_begins(
    script: str,
    without: set[str],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in without else find(name))
    monkeypatch.setattr(sys, "argv", [script, "--plot", str(tmp_path / "plot.png")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(named)


@pytest.mark.parametrize(("script", "steps"), [("burgers/train.py", "5"), ("wgan_gp/train.py", "5")])
def test_the_doctor_finds_nothing_on_an_application(script: str, steps: str, run: Callable[..., Any]) -> None:
    ran = run(EXAMPLES / script, "--steps", steps)
    assert ran.report.script.exit_code == 0, ran.stderr
    assert ran.report.script.steps
    assert ran.faults == []


def test_the_doctor_would_find_the_loop_that_an_application_compares_with(
    tmp_path: Path, run: Callable[..., Any]
) -> None:
    for path in (EXAMPLES / "wgan_gp").glob("*.py"):
        text = path.read_text()
        if path.name == "step_cost.py":
            text, marks = re.subn(r"  # gradwright: ignore.*", "", text)
            assert marks == 1
        (tmp_path / path.name).write_text(text)
    ran = run(tmp_path / "train.py", "--steps", "1")
    assert [finding.code for finding in ran.faults] == ["GW302"]
