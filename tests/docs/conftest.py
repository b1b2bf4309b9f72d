"""Pages are run by forks of one process that has torch; the site is built once."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tools" / "site"))  # what pages are read by is a plain module there


@pytest.fixture(scope="session")
def runner() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "page_runner.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.wait(20)
    process.stdout.close()


@pytest.fixture
def faults_of(runner: subprocess.Popen[str], tmp_path: Path) -> Callable[[str], list[str]]:
    """What is wrong with a page's blocks when they are run: ``faults_of(text)``."""
    from tests.docs import page_runner

    return lambda text: page_runner.ask(runner, text, tmp_path)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.docs.site_build import built

    out = tmp_path_factory.mktemp("site")
    done = built(ROOT, out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out
