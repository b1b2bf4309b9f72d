"""What is said of training of the example scripts that ship in published packages: tests/real/notes.md tells why it is
true. The scripts come from the packages' own source archives (tests/real/sdists.txt), unedited; each package's are also
run with a planted fault, which has to be found: silence is not blindness. Run by `make test-peers`.
"""

import hashlib
import re
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from gradwright.doctor.examination import RULE_FAILED
from gradwright.doctor.session.facts import OptimizerSteps
from gradwright.doctor.session.model import Finding, Report

pytestmark = pytest.mark.peers

PINS = Path(__file__).parent / "real" / "sdists.txt"
ARCHIVES = Path(sys.prefix) / "sdists"
SELECT = "GW3,GW4,GW5,GW6"  # the Functions inside the packages are another test's business: test_real.py
MOST_STEPS = 60  # of an optimizer; the slowest does ten in a second
AS_THE_MACHINE_IS = {"GW401"}  # information: whether its page faults cost so much


@dataclass(frozen=True)
class Example:
    """A script, how it is called, after how many steps it is stopped (or ends), and code and line of what is true."""

    script: str
    arguments: tuple[str, ...] = ()
    steps: int = MOST_STEPS
    said: tuple[tuple[str, int], ...] = ()
    as_module: bool = False  # by `python -m unittest`


RL, NAMES = "pytorch_ignite-0.5.5/examples/reinforcement_learning", "opacus-1.6.0/examples/char-lstm-classification.py"
ART = "adversarial_robustness_toolbox-1.20.1/examples/get_started_pytorch.py"
RANDOM, GP = "poutyne-1.19.0/examples/basic_random", "gpytorch-1.15.2/test/examples/test"
NAMED = ("--data-root", "names", "--device", "cpu", "--batch-size", "64", "--epochs", "2")
PLAIN = (*NAMED, "--disable-dp", "--learning-rate", "0.1")
SVGP = ("TestSVGPRegression.test_regression_error", "TestSVGPRegression.test_predictive_ll_regression_error")

EXAMPLES = {
    "ignite: REINFORCE": Example(f"{RL}/reinforce.py", ("--max-episodes", "20"), 20),
    "ignite: actor and critic": Example(f"{RL}/actor_critic.py", ("--max-episodes", "20"), 20),
    "opacus: an LSTM, privately": Example(NAMES, NAMED, 16),
    "opacus: a GRU": Example(NAMES, (*PLAIN, "--mode", "gru"), 16),
    "art: an attack on a CNN": Example(ART, (), 12),
    "poutyne: regression": Example(f"{RANDOM}_regression.py"),
    "poutyne: classification": Example(f"{RANDOM}_classification.py"),
    "poutyne: two classes": Example(f"{RANDOM}_binary_classification.py"),
    "gpytorch: inducing points, two models": Example(f"{GP}_svgp_gp_regression.py", SVGP, 160),
    "gpytorch: a spectral mixture": Example(f"{GP}_spectral_mixture_gp_regression.py"),
    "gpytorch: a regression": Example(
        f"{GP}_simple_gp_regression.py",
        steps=102,
        said=(("GW608", 248),),  # one more step behind the loop, with the gradients of the last one
    ),
    "gpytorch: missing observations": Example(f"{GP}_missing_data.py", as_module=True),
    "e3nn: tetris": Example("e3nn-0.6.0/examples/tetris.py", steps=40),
}

ENOUGH = 20  # steps that show a planted fault

# Beside each package's script: a text of it, what is put there instead, and the code that has to be told.
PLANTED = {
    "ignite: REINFORCE": ("    optimizer.zero_grad()\n", "", "GW601"),
    "opacus: a GRU": ("        optimizer.zero_grad()\n", "", "GW601"),
    "art: an attack on a CNN": ("self.fc_2(x)\n", "F.softmax(self.fc_2(x), dim=1)\n", "GW620"),
    "poutyne: classification": ("num_classes),\n)", "num_classes), nn.Softmax(1),\n)", "GW620"),
    "gpytorch: inducing points, two models": ("optimizer.zero_grad()\n", "pass\n", "GW601"),
    "e3nn: tetris": ("        optim.zero_grad()\n", "", "GW601"),
}


def test_the_examples_are_of_five_packages_and_each_has_a_planted_fault() -> None:
    archives = {name.split(":")[0]: example.script.split("/")[0] for name, example in EXAMPLES.items()}
    assert set(archives.values()) == {f"{name}-{version}" for name, version in _pins()}
    assert len(archives) >= 5
    assert {name.split(":")[0] for name in PLANTED} == set(archives)


def test_an_archive_with_another_byte_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = EXAMPLES["opacus: a GRU"]
    _unpacked(example, tmp_path)
    name = "opacus-1.6.0.tar.gz"
    (tmp_path / name).write_bytes((ARCHIVES / name).read_bytes() + b" ")
    monkeypatch.setitem(globals(), "ARCHIVES", tmp_path)
    with pytest.raises(AssertionError):
        _unpacked(example, tmp_path)


@pytest.mark.parametrize("name", EXAMPLES)
def test_of_its_training_only_what_is_true_is_said(name: str, gradwright: Callable, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    report = _told(example, _unpacked(example, tmp_path), gradwright, example.steps)
    assert {one.code for one in report.findings if one.severity == "info"} <= AS_THE_MACHINE_IS
    assert [_where(one) for one in report.findings if one.severity != "info"] == [*example.said]


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_planted_there_is_told(name: str, gradwright: Callable, tmp_path: Path) -> None:
    example, (text, instead, code) = EXAMPLES[name], PLANTED[name]
    script = _unpacked(example, tmp_path)
    assert text in script.read_text()
    script.write_text(script.read_text().replace(text, instead, 1))
    findings = _told(example, script, gradwright, min(example.steps, ENOUGH)).findings
    assert code in [finding.code for finding in findings]


def _where(finding: Finding) -> tuple[str, int]:
    return finding.code, finding.location.line if finding.location else 0


def _told(example: Example, script: Path, gradwright: Callable, steps: int) -> Report:
    folder = script.parent
    _write_names(folder / "names")
    _write_digits(folder / ".art" / "data")
    called = [script.stem] if example.as_module else [str(script)]
    target = ["-m", "unittest", *called] if example.as_module else [*called, *example.arguments]
    options = ["--select", SELECT, "--max-steps", str(steps)]
    ran = gradwright("diagnose", *options, *target, cwd=folder, env={"HOME": str(folder)})
    report = ran.session
    assert report is not None and ran.code in (0, 1), ran.stderr
    assert report.script.exit_code == 0 and report.script.exception is None, ran.stderr
    assert not [one for one in report.not_examined if one.why.startswith(RULE_FAILED)]
    assert sum(fact.steps for fact in report.facts if isinstance(fact, OptimizerSteps)) >= steps
    return report


def _pins() -> dict[tuple[str, str], str]:
    """Name and version of each archive, and its SHA-256."""
    found = re.findall(r"^([\w-]+)==([\w.]+) --hash=sha256:(\w{64})$", PINS.read_text(), re.MULTILINE)
    return {(name, version): sha256 for name, version, sha256 in found}


def _unpacked(example: Example, folder: Path) -> Path:
    """The script, alone, as it is in the archive whose SHA-256 is the pinned one."""
    package = example.script.split("/")[0]
    archive = ARCHIVES / f"{package}.tar.gz"
    if not archive.is_file():
        pytest.skip(f"no {archive}: `make test-peers` downloads it")
    name, version = package.rsplit("-", 1)
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == _pins()[name, version]
    with tarfile.open(archive) as sdist:
        text = sdist.extractfile(example.script)
        assert text is not None
        script = folder / Path(example.script).name
        script.write_bytes(text.read())
    return script


def _write_names(folder: Path) -> None:
    """Lists of names by language, as opacus's script reads them: each of letters of its own."""
    draw = np.random.default_rng(0)
    folder.mkdir()
    for language, letters in (("one", "abcde"), ("two", "klmno"), ("three", "uvwxyz")):
        names = ("".join(draw.choice(list(letters), draw.integers(3, 10))) for _ in range(200))
        (folder / f"{language}.txt").write_text("\n".join(names) + "\n")


def _write_digits(folder: Path) -> None:
    """Images in MNIST's form, where adversarial_robustness_toolbox keeps its own: a bar at the digit's place."""
    draw = np.random.default_rng(0)
    y = draw.integers(0, 10, 384)
    x = draw.integers(0, 50, (384, 28, 28), dtype=np.uint8)
    for image, digit in zip(x, y, strict=True):
        image[2 * digit : 2 * digit + 4, 4:24] += 200
    folder.mkdir(parents=True)
    np.savez(folder / "mnist.npz", x_train=x[:256], y_train=y[:256], x_test=x[256:], y_test=y[256:])
