"""All cases of ``tests/losses/cases``."""

import importlib
from pathlib import Path

from tests.losses.case import Case

CASES: list[Case] = [
    case
    for path in sorted((Path(__file__).parent / "cases").glob("*.py"))
    for case in importlib.import_module(f"tests.losses.cases.{path.stem}").CASES
]
