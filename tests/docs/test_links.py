"""Links of every Markdown file of the repository: relative ones lead to files and headings, others are https.

That an external address answers can't be asked here: nothing is fetched.
"""

import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pages import anchors, headings, links

ROOT = Path(__file__).resolve().parents[2]


def texts(root: Path) -> list[Path]:
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(asked, cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    return [root / name for name in listed if name and (root / name).is_file()]


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    text = page.read_text(encoding="utf-8")
    found = []
    for link in links(text):
        parts = urlsplit(link.target)
        if parts.scheme or link.target.startswith("//"):
            if parts.scheme != "https" or "." not in parts.netloc or re.search(r"\s", link.target):
                found.append(f"{page}:{link.line}: {link.target} is no https address")
            continue
        there = (page.parent / parts.path).resolve() if parts.path else page
        if not there.exists():
            found.append(f"{page}:{link.line}: {link.target}")
        elif parts.fragment and there.suffix == ".md" and parts.fragment not in anchors(there.read_text()):
            found.append(f"{page}:{link.line}: {link.target} (no such heading)")
    return found


def test_every_link_of_every_page_leads_somewhere() -> None:
    pages = texts(ROOT)
    assert {ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"} <= set(pages)
    assert sum(len(list(links(page.read_text()))) for page in pages) > 200  # they are read at all
    found = [said for page in pages for said in broken(page)]
    assert not found, "\n".join(found)


def test_every_page_of_docs_has_one_title() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        levels = [level for _, level, _ in headings(page.read_text())]
        assert (levels[:1] == [1] and levels.count(1) == 1) or page.name == "checks.md", page


@pytest.mark.parametrize(
    "link",
    ["none.md", "#none", "there.md#none", "http://example.org", "https://nowhere", "ftp://a.b", "`code`.md", "../x/"],
)
def test_a_link_that_leads_nowhere_is_told(link: str, tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# There\n\n## Two words, `code`\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\nA [good one](there.md#two-words-code) and [this]({link}).\n")
    assert len(broken(page)) == 1


def test_links_in_code_are_no_links(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n`[a](b.md)`\n\n```text\n[a](b.md)\n```\n\n<!-- [a](b.md) -->\n")
    assert broken(page) == []
