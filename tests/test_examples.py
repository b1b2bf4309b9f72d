"""Every shipped example says what its author would say of it, its mended twin is clean, and what is shown is so."""

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.warm import OURS

EXAMPLES = Path(__file__).parents[1] / "examples"

# Script, its arguments, the codes of its errors and warnings.
SAID = [
    ("cube/train.py", (), ["GW204", "GW206"]),
    ("cube/mended.py", (), []),
    ("passes_gradcheck/train.py", (), ["GW101"]),
    ("passes_gradcheck/mended.py", (), []),
    ("element_loop/train.py", ("--size", "100"), ["GW301", "GW301"]),
    ("element_loop/mended.py", ("--size", "100"), []),
    ("gradient_penalty/train.py", ("--epochs", "1"), ["GW302", "GW302"]),
    ("gradient_penalty/mended.py", ("--epochs", "1"), []),
    ("huber/vector_loss.py", (), ["GW611"]),
    ("huber/mask_bug.py", (), ["GW501"]),
    ("huber/mended.py", (), []),
]

# Scripts that ask gw.check themselves and end with 1, and the codes that they print.
ASKING = [("wrong_gradient/check.py", ["GW101", "GW105"])]

# Scripts that show what the library is for, and what they print.
SHOWING = {
    "accumulation/large_batch.py": r"means +differs .* [2-4]\.\de-01.*ulator +differs .* \d\.\de-0[78].*loss 0\.00",
    "accumulation/adversarial.py": r"update 400 .*radius (0\.9|1\.0)\d",
    "accumulation/smoothing.py": r"8 samples: 2[12]\.\d% .*256 samples: 9\.\d% .*about right.*a larger one.*: 2\d\.\d%",
    "accumulation/parallel.py": r"mean per rank +differs .* 2\.7e-01.*Accumulator +differs .* \d\.\de-0[78]",
    "accumulation/contrastive.py": r"refused: .*couples the samples.*differs .* \d\.\de-0[78].*pairs (9\d|100)% find",
    "accumulation/pipeline.py": r"schedule alone +differs .* \d\.\de-01.*ulator +differs .* \d\.\de-0[78]",
    "first_custom_gradient/train.py": r"cube: no fault found.*step 150   loss 0\.000",
    "domain_adversarial/train.py": r"(seed \d +[45]\d\.\d% +(8[5-9]|9\d)\.\d%\s+){3}",
    "reversible_network/train.py": r"gw\.check: right.*accuracy on unseen points: (1\.000|0\.9\d\d)",
    "learnt_spring/train.py": r"k1  learnt (1\.00|0\.99).*k2  learnt 1\.40.*c   learnt 0\.(30[0-2]|29[7-9]).*"
    r"at most \d\.\de-0[3-9] .*doesn't drift",
    "cartpole/train.py": r"standing: no fault found.*environment's by \de-0[78].*"
    r"PPO and the reward's gradient: .*fresh, greedy [345]\d\d\..*PPO: .*fresh, greedy [12]?\d\d\.",
    "robust_regression/train.py": r"Huber +0\.1\d .* 0\.[67]\d .*left out +0\.1\d .* 0\.1\d .*"
    r"differs from losses.HuberLoss by at most \de-0[67]",
    "burgers/train.py": r"everywhere +[1-5]\.\de-01.*nested autograd.grad +7\d\d +[67]\.\d.*"
    r"by hand +[56]\d\d +5\.\d.*partials +[56]\d\d +5\.\d+ +1\.0 +\de-0[67]",
    "nanogpt/train.py": r"step +1  loss 4\.3\d.*step   40  loss 4\.\d.*unseen",
    "nanogpt/plain.py": r"step +1  loss 4\.3\d.*step   40  loss 4\.\d.*unseen",
    "wgan_gp/train.py": r"learnt from +100% +10 .*noise +\d+% +10 .* 0% +0%.*held by the penalty.*"
    r"a loop over samples +3\d{3} .*by hand +1[78]\d .*gradient_penalty +(19|20)\d +1\.0 +\de-0[67]",
}


# What such a script shows, it shows of a smaller network too, in half the time.
_TINY_GPT = ("--steps", "40", "--layers", "2", "--heads", "2", "--width", "16", "--block", "8", "--sample", "40")
SMALLER = {
    "nanogpt/train.py": (*_TINY_GPT, "--no-curves"),
    "nanogpt/plain.py": _TINY_GPT,
    "reversible_network/train.py": ("--depth", "6", "--steps", "100"),
    "cartpole/train.py": ("--updates", "8", "--seeds", "1"),
    "robust_regression/train.py": ("--updates", "100", "--seeds", "1"),
    "burgers/train.py": ("--steps", "60"),
    "wgan_gp/train.py": ("--steps", "20"),
}


def parts_of(script: str) -> set[str]:
    """The modules beside a script that it imports, and those that they import."""
    found, unread = set[str](), [script]
    while unread:
        path = EXAMPLES / unread.pop()
        names = re.findall(r"^ *(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
        beside = {(path.parent / f"{name}.py") for name in names}
        new = {part.relative_to(EXAMPLES).as_posix() for part in beside if part.exists()} - found
        found |= new
        unread += new
    return found


def test_no_example_is_left_out():
    shipped = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py") if path.parent.name != "data"}
    scripts = {script for script, _ in ASKING} | {script for script, _, _ in SAID} | set(SHOWING)
    assert shipped == scripts.union(*(parts_of(script) for script in scripts))
    table = (EXAMPLES / "README.md").read_text()
    assert all(f"`{script}`" in table for script in scripts)


@pytest.mark.parametrize(("script", "arguments", "codes"), SAID, ids=[script for script, _, _ in SAID])
def test_an_example_looks_like_its_golden(
    script: str, arguments: tuple[str, ...], codes: list[str], run: Callable, shown: Callable, golden: Callable
) -> None:
    path = EXAMPLES / script
    ran = run(path, *arguments, ignore=("GW303",))  # information that hangs on a stopwatch
    assert sorted(finding.code for finding in ran.faults) == codes
    report = replace(
        ran.report, script=replace(ran.report.script, not_selected=0)
    )  # how many GW303: the same stopwatch
    golden(shown(report), path.with_suffix(".golden.txt"))


def test_a_mask_bug_that_is_stopped_while_its_loss_is_finite_is_not_called_nan(run: Callable) -> None:
    ran = run(EXAMPLES / "huber/mask_bug.py", max_steps=20)
    assert ran.codes == ["GW501"]
    assert "at step 0" in ran.report.findings[0].message


def test_both_phases_of_the_slow_function_come_with_a_verified_fix(run: Callable) -> None:
    ran = run(EXAMPLES / "element_loop/train.py", "--size", "100", select=("GW301",))
    assert [finding.message.split()[0] for finding in ran.report.findings] == [
        "SlowCube.forward",
        "SlowCube.backward",
    ]
    assert all(finding.fix is not None for finding in ran.report.findings)


# A fork of the zygote, which has torch: a script as `python script` runs it, three seconds cheaper.
_AS_A_SCRIPT = (
    f"{OURS}options import Options; import os, runpy, sys; del sys.argv[0]; "
    "sys.path.insert(0, os.path.dirname(sys.argv[0])); runpy.run_path(sys.argv[0], run_name='__main__')"
)


@pytest.fixture
def printed(warm_python: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run_script(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        words = [warm_python, "-c", _AS_A_SCRIPT, EXAMPLES / script, *arguments]
        return subprocess.run(words, capture_output=True, text=True, timeout=300)

    return run_script


@pytest.mark.parametrize(("script", "codes"), ASKING, ids=[script for script, _ in ASKING])
def test_an_example_that_asks_prints_what_is_wrong(script: str, codes: list[str], printed: Callable) -> None:
    done = printed(script)
    assert done.returncode == 1, done.stderr
    assert re.findall(r"^(GW\d+) [a-z-]+ \((?:error|warning)\)$", done.stdout, re.MULTILINE) == codes


@pytest.mark.parametrize("script", SHOWING)
def test_an_example_prints_what_it_shows(script: str, printed: Callable) -> None:
    done = printed(script, *SMALLER.get(script, ()))
    assert done.returncode == 0, done.stderr
    assert re.search(SHOWING[script], done.stdout, re.DOTALL), done.stdout
