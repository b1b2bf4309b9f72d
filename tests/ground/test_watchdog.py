"""Work in this process: a value, an exception or the end of its time; and nothing left behind."""

import builtins
import importlib
import time
from pathlib import Path

from gradwright.ground.watchdog import under_watchdog


def test_a_value_and_an_exception_come_back() -> None:
    assert under_watchdog(lambda: 5, seconds=5).value == 5
    assert under_watchdog(lambda: 1 / 0, seconds=5).why.startswith("ZeroDivisionError")


def test_what_never_ends_is_interrupted() -> None:
    def endless() -> None:
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                pass

    assert under_watchdog(endless, seconds=0.3).how == "out of time"


def test_the_dog_does_not_bark_afterwards() -> None:
    under_watchdog(lambda: 5, seconds=0.05)
    time.sleep(0.2)


def test_a_package_whose_import_was_interrupted_can_be_imported_again(tmp_path: Path, monkeypatch) -> None:
    package = tmp_path / "slowly_imported"
    package.mkdir()
    (package / "part.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))

    def imported() -> object:
        module = importlib.import_module("slowly_imported")
        return module.part

    (package / "__init__.py").write_text(
        "import time\nimport slowly_imported.part\nfor _ in range(DELAY):\n    time.sleep(0.01)\n"
    )
    monkeypatch.setattr(builtins, "DELAY", 1000, raising=False)
    assert under_watchdog(imported, seconds=0.3).how == "out of time"
    monkeypatch.setattr(builtins, "DELAY", 0)
    assert under_watchdog(imported, seconds=30).how == "returned"
