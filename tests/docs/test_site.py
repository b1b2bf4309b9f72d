"""The site is built strictly, offline, and nothing in it dangles; a planted fault of each kind is refused."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.docs.html_links import dangling, reachable
from tests.docs.site_build import ROOT, built


def test_every_link_picture_and_anchor_of_the_built_site_leads_somewhere(site: Path) -> None:
    found = dangling(site)
    assert not found, "\n".join(found)


def test_every_page_of_docs_is_reached_by_links_from_the_first(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages - reachable(site) == set()


def test_a_linked_source_is_a_page_with_its_lines(site: Path) -> None:
    page = (site / "source" / "examples" / "accumulation" / "parallel.py.html").read_text()
    assert "highlight" in page and "GradientAccumulator" in page


def test_the_site_names_no_place_that_it_would_fetch_from(site: Path) -> None:
    css = "".join(path.read_text() for path in site.rglob("*.css"))
    assert "fonts.googleapis" not in css and "https://unpkg" not in css
    for page in ("index.html", "reference/losses.html"):
        assert "fonts.g" not in (site / page).read_text()


def small(folder: Path, **pages: str) -> Path:
    """A tree with mkdocs.yml and hooks of ours, and these pages."""
    for name, text in {"index": "# First\n\nText.\n", **pages}.items():
        path = folder / "docs" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "docs" / "assets").mkdir()
    (folder / "docs" / "assets" / "site.css").write_text("")
    (folder / "tools").mkdir()
    (folder / "tools" / "site").symlink_to(ROOT / "tools" / "site")
    (folder / "src" / "gradwright").mkdir(parents=True)
    (folder / "src" / "gradwright" / "__init__.py").write_text("")
    (folder / "src" / "gradwright" / "errors.py").write_text('class Known(Exception):\n    """It is."""\n')
    (folder / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text())
    (folder / "beside.py").write_text("x = 1\n")
    return folder


REFUSED = {
    "a broken link": ("# First\n\n[there](nowhere.md)\n", "nowhere.md"),
    "a broken link out of docs": ("# First\n\n[there](../none.py)\n", "none.py"),
    "a broken anchor": ("# First\n\n[there](other.md#none)\n", "none"),
    "a broken anchor of its own": ("# First\n\n[there](#none)\n", "none"),
    "an absolute link": ("# First\n\n[there](/other.md)\n", "/other.md"),
    "a picture that is not there": ("# First\n\n![there](none.png)\n", "none.png"),
    "a name that the reference has not": ("# First\n\n::: gradwright.errors.NoSuchError\n", "NoSuchError"),
}


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the strict build says of all of them."""
    folder = tmp_path_factory.mktemp("refused")
    texts = {f"p{number}": text for number, (text, _) in enumerate(REFUSED.values()) if ":::" not in text}
    done = built(small(folder, other="# Other\n", **texts), folder / "out")
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.mark.parametrize("fault", [fault for fault, (text, _) in REFUSED.items() if ":::" not in text])
def test_a_planted_fault_is_refused_by_the_strict_build(fault: str, refusals: str) -> None:
    number = list(REFUSED).index(fault)
    assert any(f"p{number}.md" in line and REFUSED[fault][1] in line for line in refusals.split("\n")), refusals


def test_a_name_that_the_reference_has_not_is_refused(tmp_path: Path) -> None:
    text, said = REFUSED["a name that the reference has not"]
    done = built(small(tmp_path, p=text), tmp_path / "out")
    assert done.returncode != 0 and said in done.stdout + done.stderr


def test_a_tree_without_a_fault_is_built_and_its_links_out_of_docs_become_pages(tmp_path: Path) -> None:
    text = "# P\n\n::: gradwright.errors.Known\n\n[it](../beside.py) and [other](sub/other.md#two)\n"
    text += "\n```md\n[no](link.md)\n```\n"
    done = built(small(tmp_path, p=text, **{"sub/other": "# Other\n\n## Two\n"}), tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert dangling(tmp_path / "out") == []
    assert (tmp_path / "out" / "source" / "beside.py.html").is_file()


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ('<a href="none.html">', "a.html: none.html"),
        ('<a href="b.html#none">', "a.html: b.html#none (no such anchor)"),
        ('<a href="#none">', "a.html: #none (no such anchor)"),
        ('<img src="none.png">', "a.html: none.png"),
        ('<script src="https://cdn.example/x.js"></script>', "a.html: fetches https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "a.html: fetches //cdn.example/x.css"),
    ],
)
def test_a_link_of_built_pages_that_leads_nowhere_is_told(html: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(html)
    (tmp_path / "b.html").write_text('<a id="one" href="a.html">')
    assert dangling(tmp_path) == [said]


def test_a_page_that_the_navigation_leaves_out_is_refused(tmp_path: Path) -> None:
    folder = small(tmp_path, orphan="# Orphan\n")
    config = (folder / "mkdocs.yml").read_text().replace("  - tools/site/nav.py\n", "") + "\nnav: [index.md]\n"
    (folder / "mkdocs.yml").write_text(config)
    done = built(folder, folder / "out")
    assert "orphan.md" in done.stdout + done.stderr


def test_the_navigation_holds_every_page_in_the_order_of_names() -> None:
    import nav

    def leaves(part: Any) -> list[str]:
        if isinstance(part, str):
            return [part]
        return [leaf for one in (part.values() if isinstance(part, dict) else part) for leaf in leaves(one)]

    found = leaves(nav.nav(ROOT / "docs"))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert len(found) == len(set(found)) and set(found) == pages
    tutorial = [name for name in found if name.startswith("tutorial/")]
    assert tutorial == ["tutorial/index.md", *sorted(set(tutorial) - {"tutorial/index.md"})]


def test_a_page_that_no_link_leads_to_is_an_orphan(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<a href="sub/a.html">')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.html").write_text('<a href="../index.html">')
    (tmp_path / "sub" / "orphan.html").write_text("")
    assert reachable(tmp_path) == {"index.html", "sub/a.html"}


def test_the_build_leaves_the_tree_as_it_was(site: Path) -> None:
    done = subprocess.run(["git", "check-ignore", "site/"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, "site/ is not ignored"
