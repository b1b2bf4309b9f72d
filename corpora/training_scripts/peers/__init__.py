"""Other tools on the same scripts, where they apply. They live in .venv-peers (requirements.txt beside this file).

- torch's anomaly mode: on the plants whose gradients or losses are not finite. Found: it raises. Right line: the
  traceback of the forward that it prints goes through a right line. Lightning's `detect_anomaly` is this mode:
  pytorch_lightning 2.6.6 enters `torch.autograd.set_detect_anomaly` around the run, so it has no column of its own.
- TorchFix reads scripts, with all its rules on; so does mldoct (its linter; its watchdog reads what a script prints).
- torch-audit's `autopatch(model, optimizer, every_n_steps=1)` is put on each optimizer where it is made, on the module
  that holds its parameters.
- torchtest2's `check_model(model, inputs, optimizer=optimizer)` is called at the first step of each optimizer, with the
  module that holds its parameters and what it was called with. It is given no loss: an unedited script offers none.

The last two say nothing of lines. Found, for all but anomaly mode: it says of the planted script what it does not say
of the clean one, whatever that is: whether that is the cause was not judged. The other way round, nothing is said of
a peer's silence where it could not run: those are counted.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora.training_scripts.kept import Scripts, digest

HERE = Path(__file__).parent
PYTHON = HERE.parents[2] / ".venv-peers" / "bin" / "python"


@dataclass(frozen=True)
class Peer:
    """``mode`` of asked.py; ``families``: of the plants that it applies to, all if empty; ``names_lines`` or not."""

    mode: str
    families: tuple[str, ...] = ()
    names_lines: bool = True

    @property
    def version(self) -> str:
        return digest((HERE / "asked.py").read_text())

    def ask(self, scripts: Scripts) -> Iterator[tuple[str, dict[str, Any]]]:
        """What it says of each script, as it says it."""
        with tempfile.TemporaryDirectory(prefix="gradwright-peers-") as folder:
            asked = []
            for number, (name, (file, text)) in enumerate(scripts.items()):
                path = Path(folder) / str(number) / file
                path.parent.mkdir()
                path.write_text(text)
                asked.append({"name": name, "path": str(path)})
            questions = Path(folder) / "asked.json"
            questions.write_text(json.dumps(asked))
            process = subprocess.Popen(
                [str(PYTHON), str(HERE / "asked.py"), self.mode, str(questions)], stdout=subprocess.PIPE, text=True
            )
            assert process.stdout is not None
            with process.stdout as lines:
                for line in lines:
                    if line.startswith("{"):
                        answer = json.loads(line)
                        yield answer.pop("name"), answer
            if process.wait():
                raise RuntimeError(f"{self.mode} ended with {process.returncode}")


PEERS = {
    "torch's anomaly mode": Peer("anomaly", ("NaN at an edge", "overflow", "a count of nothing", "0 times inf")),
    "TorchFix": Peer("torchfix"),
    "mldoct": Peer("mldoct"),
    "torch-audit": Peer("audit", names_lines=False),
    "torchtest2": Peer("torchtest2", names_lines=False),
}
