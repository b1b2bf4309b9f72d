"""What users of autograd ask about most, an item a row: a bad script that shows it, and its good twin."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HEAD = (
    "import torch\nfrom torch import nn\nimport torch.nn.functional as F\nfrom torch.autograd import Function, grad\n"
    "torch.manual_seed(0)\n"
)


@dataclass(frozen=True)
class Row:
    """``good``: the bad script with these pieces of text in the place of others."""

    code: str
    bad: str
    good: tuple[tuple[str, str], ...]

    def script(self, good: bool = False) -> str:
        text = textwrap.dedent(self.bad)
        for old, new in self.good if good else ():
            assert old in text
            text = text.replace(old, new)
        return HEAD + text

    @property
    def line(self) -> int | None:
        return next((at for at, line in enumerate(self.script().splitlines(), 1) if line.endswith("# here")), None)


LOOP = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(16, 4), torch.randn(16, 1)
"""


def check_bad(row: Row, run: Callable, folder: Path) -> None:
    """The bad script is told, by the row's code, at its line."""
    (folder / "train.py").write_text(row.script())
    found = {finding.code: finding for finding in run(folder / "train.py", fix_seconds=0.0).report.findings}
    assert row.code in found
    assert row.line in (found[row.code].location.line, None)


def check_good(row: Row, run: Callable, folder: Path) -> None:
    """Its good twin runs to its end, and nothing but information is told of it."""
    (folder / "train.py").write_text(row.script(good=True))
    ran = run(folder / "train.py", fix_seconds=0.0)
    assert ran.report.script.exit_code == 0, ran.stderr
    assert ran.faults == []
