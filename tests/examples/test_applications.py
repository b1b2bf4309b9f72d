"""CartPole and robust regression: their parts are what they say, what is recorded is within its limits."""

import importlib.util
import json
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import gradwright as gw

ROOT = Path(__file__).parents[2]
EXAMPLES, PAGES = ROOT / "examples", ROOT / "docs" / "applications"
RESULTS = ROOT / "benchmarks" / "results" / "what_do_the_applications_reach.cpu.json"


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def reward() -> ModuleType:
    return module(EXAMPLES / "cartpole" / "reward.py")


@pytest.fixture(scope="module")
def regression() -> ModuleType:
    return module(EXAMPLES / "robust_regression" / "train.py")


def some_states() -> torch.Tensor:
    draws = torch.Generator().manual_seed(0)
    return torch.randn(200, 4, generator=draws) * torch.tensor([2.0, 1.0, 0.2, 1.0])


def stepped(states: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gymnasium's next states, and where an episode ends there."""
    gymnasium = pytest.importorskip("gymnasium")
    envs = gymnasium.make_vec("CartPole-v1", num_envs=len(states), vectorization_mode="vector_entry_point").unwrapped
    envs.reset(seed=0)
    envs.state = states.T.double().numpy()
    following, _, over, _, _ = envs.step(right.long().numpy())
    return torch.from_numpy(following), torch.from_numpy(over)


# -- CartPole ----------------------------------------------------------------------------------------------------------


def test_the_model_moves_as_the_environment_does(reward: ModuleType) -> None:
    states, right = some_states(), torch.arange(200) % 2
    following, _ = stepped(states, right)
    torch.testing.assert_close(reward.motion(states, right), following, rtol=0, atol=1e-6)
    assert (reward.motion(states, 1 - right) - following).abs().max() > 0.1


def test_the_reward_ends_where_an_episode_does(reward: ModuleType) -> None:
    following, over = stepped(some_states(), torch.zeros(200))
    assert 20 < over.sum() < 180
    assert torch.equal(reward.standing(following) == 0, over)


def test_the_gradient_of_the_reward_is_that_of_the_bump_and_of_no_other(reward: ModuleType) -> None:
    def smaller(state: torch.Tensor) -> torch.Tensor:
        return 0.9 * reward.bump(state)

    states = some_states()[:8]
    assert gw.check(reward.standing, states, expect=reward.bump, level="quick").ok
    assert not gw.check(reward.standing, states, expect=smaller, level="quick").ok


def test_a_policy_hears_of_the_reward_through_the_model_alone(reward: ModuleType) -> None:
    torch.manual_seed(0)
    policy = torch.nn.Linear(4, 1)
    ahead = reward.lookahead(lambda state: policy(state).squeeze(-1), 0.1 * some_states())
    ahead.backward()
    assert 0 < ahead < 1 and policy.weight.grad.norm() > 1e-3


# -- robust regression -------------------------------------------------------------------------------------------------


def trained(regression: ModuleType, folder: Path) -> tuple[torch.nn.Linear, torch.Tensor]:
    x, y, truth, _ = regression.measurements(0, 0.2, 0.0)
    return regression.train(x, y, truth, gw.losses.HuberLoss(delta=2.0), updates=9, folder=folder), truth


def test_the_curves_are_read_back_as_they_were_written(regression: ModuleType, tmp_path: Path) -> None:
    model, truth = trained(regression, tmp_path)
    curves = {tag: list(curve) for tag, curve in regression.read(tmp_path).items()}
    assert set(curves) == set(regression.CURVES)
    assert all(steps == (1, 5, 9) for steps, _ in curves.values())
    distance = (regression.parameters(model) - truth).norm().item()
    assert curves["error/parameters"][1][-1] == pytest.approx(distance, rel=1e-6)
    assert curves["loss/loss"][1][0] > curves["loss/loss"][1][-1]


def test_the_noise_is_told_without_the_outliers(regression: ModuleType) -> None:
    draws = torch.Generator().manual_seed(0)
    residual = 2.0 * torch.randn(20_000, generator=draws)
    assert regression.noise(residual) == pytest.approx(2.0, rel=0.03)
    residual[:2000] += 100.0
    assert regression.noise(residual) < 2.5 < residual.std()


# -- what is missing, what is recorded ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "without", "told"),
    [
        ("cartpole", {"gymnasium"}, "pip install gymnasium\n"),
        ("cartpole", {"gymnasium", "matplotlib"}, "pip install gymnasium matplotlib\n"),
        ("robust_regression", {"sklearn", "tensorboard"}, "pip install scikit-learn tensorboard\n"),
    ],
)
def test_a_missing_package_is_named(
    name: str,
    without: set[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    find, script = importlib.util.find_spec, EXAMPLES / name / "train.py"
    monkeypatch.setattr(importlib.util, "find_spec", lambda sought: None if sought in without else find(sought))
    monkeypatch.setattr(sys, "argv", [str(script), "--plot", "plot.png"])
    monkeypatch.syspath_prepend(str(script.parent))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(told)


def test_what_was_not_run_again_is_kept_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    merged = module(ROOT / "benchmarks" / "what_do_the_applications_reach.py").merged
    first = {"tables": {"Burgers, a": {"row": {"x": 1}}}, "notes": ["of Burgers"]}
    other = {"tables": {"CartPole, a": {"row": {"x": 2}}}, "notes": ["of CartPole"]}
    before = merged({"burgers": (first, 10.0)}, {})
    both = merged({"cartpole": (other, 20.0)}, before)
    assert {name: row["seconds"] for name, row in both["results"].items()} == {"cartpole": 20, "burgers": 10}
    assert both["tables"] == other["tables"] | first["tables"]
    assert both["notes"] == ["of CartPole", "of Burgers"]
    assert merged({"burgers": ({"tables": {"Burgers, b": {}}}, 11.0)}, both)["tables"] == other["tables"] | {
        "Burgers, b": {}
    }


def test_every_recorded_application_kept_its_time_and_has_its_page_and_plot() -> None:
    recorded = json.loads(RESULTS.read_text())["results"]
    assert recorded
    for name, row in recorded.items():
        assert row["seconds"] <= row["limit"] == 300
        plot, page = PAGES / f"{name}.png", (PAGES / f"{name}.md").read_text()
        assert plot.stat().st_size <= 80_000
        assert f"]({name}.png)" in page
