"""Every public name stands on exactly one page of the reference; what is generated there is complete."""

import re
from collections import Counter
from pathlib import Path

import gradwright
from gradwright import errors, losses, penalties, testing, training
from gradwright.doctor import settings

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
ROOMS = {"losses", "penalties", "training"}  # each is a page, its names are asked for by themselves


def public() -> set[str]:
    names = {f"gradwright.{name}" for name in gradwright.__all__ if name not in ROOMS and name != "__version__"}  # type: ignore[attr-defined]
    for room in (losses, penalties, training, testing):
        names |= {f"{room.__name__}.{name}" for name in room.__all__}
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    own = {name for name in classes if getattr(errors, name).__module__ == errors.__name__}
    return names | {f"gradwright.errors.{name}" for name in own if name not in gradwright.__all__}  # type: ignore[attr-defined]


def documented(folder: Path) -> Counter[str]:
    return Counter(
        name for page in folder.glob("*.md") for name in re.findall(r"^::: ([\w.]+)", page.read_text(), re.MULTILINE)
    )


def test_every_public_name_stands_on_exactly_one_page() -> None:
    found = documented(REFERENCE)
    assert {name for name, count in found.items() if count > 1} == set()
    assert public() - set(found) == set()


def test_a_name_that_is_missing_or_stands_twice_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("::: gradwright.check\n\n::: gradwright.derive\n")
    (tmp_path / "b.md").write_text("::: gradwright.check\n")
    assert documented(tmp_path) == {"gradwright.check": 2, "gradwright.derive": 1}
    assert "gradwright.custom_gradient" in public() - set(documented(tmp_path))


def test_the_built_reference_has_an_anchor_and_words_for_every_public_name(site: Path) -> None:
    html = "".join(path.read_text() for path in (site / "reference").glob("*.html"))
    assert [name for name in public() if f'id="{name}"' not in html] == []


def test_the_settings_page_tells_every_key_and_its_default() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| `(.+?)` \|", (REFERENCE / "settings.md").read_text(), re.MULTILINE))
    defaults = settings.Settings()
    assert set(rows) == set(settings._KINDS)
    for key, shown in rows.items():
        value = getattr(defaults, key.replace("-", "_"))
        told = {"true": "True", "false": "False", "[]": "()"}.get(shown, shown.strip('"'))
        assert told == str(value).removesuffix(".0"), key


def test_the_command_line_page_is_what_click_knows() -> None:
    from command_line import command_line_page

    assert (REFERENCE / "command_line.md").read_text() == command_line_page()
