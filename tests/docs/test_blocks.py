"""Every code block of every page is run, compared, parsed, or has a reason why not."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pages import blocks
from tests.docs.block_kinds import unchecked

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "docs" / "rules"
PAGES = sorted(
    path
    for path in [
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "examples").rglob("README.md"),
    ]
    if path.parent != RULES
)
RUN = [path for path in PAGES if any(block.kind == "python" for block in blocks(path.read_text()))]
# Blocks of a kind that nothing checks, and why they may stand on this page. One block says so above itself, by
# `<!-- static: why -->`.
LISTED = {"docs/exercises.md": ("text", "formulas of the tasks: the page is generated, and tests grade the solutions")}


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", RUN, ids=named)
def test_the_blocks_of_a_page_run_and_print_what_it_shows(page: Path, faults_of: Callable) -> None:
    found = faults_of(page.read_text())
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_other_block_of_a_page_is_checked_by_its_kind(page: Path) -> None:
    found = unchecked(page.read_text(), ROOT, LISTED.get(named(page), ("", ""))[0])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", LISTED)
def test_a_listed_page_is_there_and_has_such_blocks(page: str) -> None:
    assert LISTED[page][0] in {block.kind for block in blocks((ROOT / page).read_text())}


@pytest.mark.parametrize("page", sorted(RULES.glob("GW*.md")), ids=lambda path: path.stem)
def test_the_code_of_a_rules_page_is_its_cases_which_tests_run(page: Path) -> None:
    cases = ROOT / "tests" / "cases" / page.stem
    kept = {path.read_text().rstrip("\n") for path in cases.glob("*.py")}
    shown = [block.text.rstrip("\n") for block in blocks(page.read_text()) if block.kind == "python"]
    assert all(text in kept for text in shown)
    assert len(shown) == sum((cases / name).is_file() for name in ("bad.py", "good.py"))


PLANTED = {
    "a block that fails": ("```python\nx = 1 / 0\n```\n", "ZeroDivisionError"),
    "a wrong printed output": ("```python\nprint(2)\n```\n\n<!-- prints -->\n```text\n3\n```\n", "printed\n2"),
    "a block that should raise": ("<!-- raises ValueError -->\n```python\nx = 1\n```\n", "should raise ValueError"),
    "another exception": ("<!-- raises ValueError -->\n```python\n{}[1]\n```\n", "should raise ValueError"),
    "another message": (
        "<!-- raises KeyError -->\n```python\n{}[1]\n```\n\n<!-- prints -->\n```text\n2\n```\n",
        "printed\n1",
    ),
    "a warning": ("```python\nimport warnings\nwarnings.warn('no')\n```\n", "UserWarning"),
    "a name that no block gave": ("```python\nprint(never)\n```\n", "NameError"),
    "an output without its block": ("<!-- prints -->\n```text\n3\n```\n", "printed\n"),
    "a page that kills its process": ("```python\nimport os\nos._exit(3)\n```\n", "did not end well"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_fault_planted_in_a_block_is_told(fault: str, faults_of: Callable) -> None:
    text, said = PLANTED[fault]
    assert any(said in one for one in faults_of("# A page\n\n" + text))


def test_a_page_that_does_what_it_says_has_no_fault(faults_of: Callable) -> None:
    page = (
        "<!-- given\nimport torch\nx = 1\n-->\n\n```python\nprint(x, 'took 3.1 ms')\n```\n\n<!-- prints -->\n```text\n"
        "1 took 12 ms\n```\n\n<!-- raises KeyError -->\n```python\n{}[x]\n```\n\n<!-- prints -->\n```text\n1\n```\n"
    )
    assert faults_of(page) == []


def test_a_script_is_a_file_whose_lines_are_those_of_its_blocks(faults_of: Callable) -> None:
    page = (
        "```python\ndef one():\n    return 1\n```\n\n```python\nimport inspect\n\n\ndef two():\n    return 2\n\n\n"
        "print(inspect.getsource(two), inspect.getsource(one))\n```\n\n<!-- prints -->\n```text\n"
        "def two():\n    return 2\n def one():\n    return 1\n```\n"
    )
    assert faults_of(page) == []


def test_pages_share_nothing(faults_of: Callable) -> None:
    assert faults_of("```python\nimport torch\ntorch.set_default_dtype(torch.float64)\nmine = 1\n```\n") == []
    assert faults_of("```python\nimport torch\nassert torch.get_default_dtype() == torch.float32\n```\n") == []
    assert any("NameError" in one for one in faults_of("```python\nmine\n```\n"))


UNCHECKED = {
    "a kind that nothing checks": ("```ruby\nputs 1\n```\n", "nothing checks"),
    "text that nothing made": ("```text\nas measured: 3 s\n```\n", "nothing checks"),
    "toml that is none": ("```toml\n[tool\n```\n", "is no toml"),
    "yaml that is none": ("```yaml\na: [\n```\n", "is no yaml"),
    "json that is none": ("```json\n{a}\n```\n", "is no json"),
    "an option that gradwright has not": ("```sh\ngradwright diagnose --fast train.py\n```\n", "--fast"),
    "a command that gradwright has not": ("```sh\ngradwright cure train.py\n```\n", "cure"),
    "a word that an option does not take": ("```sh\ngradwright report --format pdf\n```\n", "pdf"),
    "an example that is not there": ("```sh\npython examples/none.py\n```\n", "examples/none.py"),
    "an option that a script has not": ("```sh\npython examples/burgers/train.py --fast\n```\n", "--fast"),
    "a target that the Makefile has not": ("```sh\nmake coffee\n```\n", "coffee"),
    "a variable that the Makefile has not": ("```sh\nmake demo SUGAR=2\n```\n", "SUGAR"),
    "an option that pytest has not": ("```sh\npytest --gradwrong\n```\n", "--gradwrong"),
    "a module that is not there": ("```sh\npython -m gradwrong\n```\n", "gradwrong"),
    "a program that nothing knows": ("```sh\nconda install torch\n```\n", "conda"),
}


@pytest.mark.parametrize("fault", UNCHECKED)
def test_a_block_that_cannot_be_checked_is_told(fault: str) -> None:
    text, said = UNCHECKED[fault]
    assert any(said in one for one in unchecked(text, ROOT)), unchecked(text, ROOT)


def test_a_block_may_say_why_nothing_checks_it() -> None:
    assert unchecked("<!-- static: a picture -->\n```text\na -> b\n```\n", ROOT) == []
    assert unchecked("<!-- static: -->\n```text\na -> b\n```\n", ROOT) != []
