"""Scripts that are run as a patient's are, and not examined any further.

The line that is to be told has ``# here`` in it.
"""

import textwrap
from collections.abc import Callable
from pathlib import Path

from gradwright.doctor.session.model import Finding

run: Callable = print  # another one by conftest

OURS = {"GW620", "GW621", "GW622", "GW623", "GW624", "GW625"}
HEAD = "import copy\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\ntorch.manual_seed(0)\n"
DATA = "x, y, c = torch.randn(24, 6), torch.randn(24), torch.randint(0, 4, (24,))\n"
SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
NET = "model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))\n" + SGD
COLUMN = "model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))\n" + SGD
DROPPING = "model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))\n" + SGD
STEP = "optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"


def loop(loss: str, steps: int = 6) -> str:
    return f"for step in range({steps}):\n    {loss}\n    {STEP}"


FIT = loop("loss = F.mse_loss(model(x)[:, 0], y)")


def findings_of(text: str, folder: Path) -> list[Finding]:
    """What our rules say of a script."""
    path = folder / "train.py"
    path.write_text(text)
    report = run(path, cwd=folder, to_end=True, probe_seconds=0.0, fix_seconds=0.0, rerun="never").report
    assert not [one for one in report.not_examined if "the watching failed" in one.why]
    return [finding for finding in report.findings if finding.code in OURS]


def script(text: str) -> str:
    """The parts in their own indentation, after the imports and the data."""
    lines, parts = text.splitlines(), []
    while lines:
        block = [lines.pop(0)]
        deep = block[0].startswith(" " * 8) or not block[0].strip()
        while lines and (lines[0].startswith(" " * 8) or not lines[0].strip()) == deep:
            block.append(lines.pop(0))
        parts.append(textwrap.dedent("\n".join(block)) if deep else "\n".join(block))
    return HEAD + DATA + "\n".join(parts) + "\n"


def told_of(text: str, folder: Path) -> tuple[str, str]:
    """Code and severity of the one finding, which must be at its line; information beside a fault is no second one."""
    text = script(text)
    findings = findings_of(text, folder)
    (finding,) = [one for one in findings if one.severity != "info"] or findings
    here = [number for number, line in enumerate(text.splitlines(), 1) if "# here" in line]
    assert not here or finding.location.line in here
    return finding.code, finding.severity
