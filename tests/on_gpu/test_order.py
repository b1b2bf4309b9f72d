"""The order of the tests marked gpu names every file that holds some."""

import re
from pathlib import Path

from tests.on_gpu.order import GPU_FILES

ROOT = Path(__file__).parents[2]
# What marks a test: the device that is handed to it, or the marks of its file.
MARKED = re.compile(r"^from tests\.devices import .*\b(CUDA|MARKS)\b", re.MULTILINE)


def files_with_marked_tests() -> set[Path]:
    """A conftest's fixture ``device`` marks the tests beside it that ask for it."""
    found = {file for file in (ROOT / "tests").rglob("*.py") if MARKED.search(file.read_text())}
    for conftest in [file for file in found if file.name == "conftest.py"]:
        found.remove(conftest)
        found |= {file for file in conftest.parent.glob("test_*.py") if "(device: str" in file.read_text()}
    return found


def test_it_lists_the_files_that_take_their_device_from_the_helper_and_no_other() -> None:
    assert sorted(GPU_FILES) == sorted(str(file.relative_to(ROOT)) for file in files_with_marked_tests())


def test_no_file_marks_a_test_by_itself() -> None:
    marking = [
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("*.py")
        if "mark.gpu" in file.read_text() and file != Path(__file__)
    ]
    assert marking == ["tests/devices.py"]
