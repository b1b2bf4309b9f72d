"""Whose a frame is, by its file: also where torch's folder is a link, as uv makes it with --link-mode=symlink."""

import subprocess
import sys
from pathlib import Path

import torch

SCRIPT = """
import sys
folder = sys.argv[1]
sys.path.insert(0, folder)
import torch
from gradwright.checking.nonfinite.frames import owner
from gradwright.doctor.prove import counting
from gradwright.doctor.source.places import is_user_file
from gradwright.functions.derive.refuse import is_users

methods = (torch.optim.SGD.__init__, torch.amp.GradScaler.step, torch.nn.ReLU.forward)
files = [method.__code__.co_filename for method in methods]
assert all(file.startswith(f"{folder}/torch/") for file in files), files
print(*[owner(file) for file in (*files, "train.py")])
print(*[is_users(file) or is_user_file(file) or not file.startswith(counting._TORCH) for file in files])
"""


def test_files_of_torch_are_torchs_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "torch").symlink_to(Path(torch.__file__).resolve().parent)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.stdout == "optim scaler other user\nFalse False False\n", ran.stderr
