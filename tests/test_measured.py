"""Figures on the pages are those of the results, and nothing else."""

import json
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATE = runpy.run_path(str(ROOT / "tools" / "generate.py"))
MEASURED = sys.modules["measured"]
MACHINE = {
    "date": "2001-02-03", "device": "cpu", "cpu": "Abacus", "cores": 2, "python": "3.11.7", "torch": "2.13.0",
    "allocator": "glibc, as it comes",
}  # fmt: skip
PAGE = "Before.\n\n<!-- measured: how_fast/By size -->\nan old table\n<!-- /measured -->\n\nAfter.\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of one page and one result."""
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    rows = {"a | b": {"took_ms": 1.5, "right": True}}
    data = {"machine": MACHINE, "results": {"all": {"of": 7}}, "tables": {"By size": rows}}
    (results / "how_fast.cpu.json").write_text(json.dumps(data))
    (tmp_path / "docs" / "questions").mkdir(parents=True)
    (tmp_path / "docs" / "questions" / "page.md").write_text(PAGE)
    return tmp_path


def differing(root: Path) -> list[str]:
    made = GENERATE["measured_pages"](root)
    return [name for name, text in made.files.items() if made.gist((root / name).read_text()) != made.gist(text)]


def test_a_block_holds_the_machine_the_date_and_the_table(root: Path) -> None:
    text = MEASURED.filled(PAGE, root / "benchmarks" / "results")
    assert text == (
        "Before.\n\n<!-- measured: how_fast/By size -->\n"
        "*Measured on 2001-02-03: Abacus, 2 cores, Python 3.11.7, torch 2.13.0, allocator: glibc, as it comes.*\n\n"
        "| | took ms | right |\n|---|---|---|\n| a \\| b | 1.5 | yes |\n<!-- /measured -->\n\nAfter.\n"
    )
    assert MEASURED.filled(text, root / "benchmarks" / "results") == text


def test_without_a_title_the_results_themselves_are_shown(root: Path) -> None:
    text = PAGE.replace("/By size", "")
    assert "| all | 7 |" in MEASURED.filled(text, root / "benchmarks" / "results")


def test_a_figure_that_is_typed_or_measured_anew_is_drift(root: Path) -> None:
    page = root / "docs" / "questions" / "page.md"
    assert differing(root) == ["docs/questions/page.md"]
    filled = MEASURED.filled(PAGE, root / "benchmarks" / "results")
    page.write_text(filled)
    assert differing(root) == []
    page.write_text(filled.replace("1.5", "1.4"))
    assert differing(root) == ["docs/questions/page.md"]
    page.write_text(filled)
    result = root / "benchmarks" / "results" / "how_fast.cpu.json"
    result.write_text(result.read_text().replace("2001-02-03", "2001-02-04"))
    assert differing(root) == ["docs/questions/page.md"]


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("<!-- measured: how_slow -->\n<!-- /measured -->", "there is no how_slow.cpu.json"),
        ("<!-- measured: how_fast/By colour -->\n<!-- /measured -->", "no table of that title, but By size"),
        ("<!-- measured: how_fast -->\n| |", "has no `<!-- /measured -->`"),
    ],
)
def test_a_block_that_names_nothing_is_refused(block: str, told: str, root: Path) -> None:
    with pytest.raises(SystemExit, match="measured") as raised:
        MEASURED.filled(block, root / "benchmarks" / "results")
    assert told in str(raised.value)


def test_two_makers_fill_one_page_in_one_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = root / "docs" / "questions" / "page.md"

    def shouted(root: Path):
        return GENERATE["Made"]({"docs/questions/page.md": page.read_text().replace("After.", "AFTER.")})

    main = GENERATE["main"]
    monkeypatch.setitem(main.__globals__, "MADE", (GENERATE["measured_pages"], shouted))
    assert main([], root) == 0
    assert "1.5" in page.read_text() and "AFTER." in page.read_text()
    assert main(["--check"], root) == 0
    page.write_text(page.read_text().replace("1.5", "1.4"))
    assert main(["--check"], root) == 1


def test_what_was_measured_on_a_gpu_leads(root: Path) -> None:
    results = root / "benchmarks" / "results"
    data = {"machine": {**MACHINE, "device": "cuda", "cpu": "Abacus 3000"}, "results": {}, "tables": {}}
    (results / "how_fast.cuda.json").write_text(json.dumps(data))
    assert "Abacus 3000" not in MEASURED.filled(PAGE, results)  # it has no table of that title
    data["tables"] = {"By size": {"a": {"took_ms": 0.1}}}
    (results / "how_fast.cuda.json").write_text(json.dumps(data))
    text = MEASURED.filled(PAGE, results)
    assert text.index("Abacus 3000") < text.index("| a | 0.1 |") < text.index("Abacus, 2 cores") < text.index("| 1.5 |")
    assert MEASURED.filled(text, results) == text
    assert "Abacus, 2 cores" not in MEASURED.filled(PAGE.replace("how_fast/", "how_fast.cuda/"), results)


def test_the_page_of_all_benchmarks_has_a_gpus_before_a_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page = runpy.run_path(str(ROOT / "benchmarks" / "table.py"))["page"]
    monkeypatch.setitem(page.__globals__, "RESULTS", tmp_path)
    for device, rows in (("cpu", {"a": {"ms": 2.5}}), ("cuda", {})):
        data = {"machine": {**MACHINE, "device": device}, "results": rows, "tables": {"Other": {"b": {"ms": 0.5}}}}
        (tmp_path / f"how_fast.{device}.json").write_text(json.dumps(data))
    text = page()
    assert text.index("## How fast? On a GPU") < text.index("| b | 0.5 |") < text.index("| a | 2.5 |")
