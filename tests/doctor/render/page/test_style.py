"""The page's colours: what is read can be read, light and dark (WCAG 2.2, AA)."""

from __future__ import annotations

import re

import pytest

from gradwright.doctor.render.page import STYLES, asset

NAMED = re.compile(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
COLOURS = {name: (light, dark) for name, light, dark in NAMED.findall(asset("colours.css"))}
GROUNDS = ("page", "raised")
READ = ("text", "muted", "accent", "bad", "doubt", "info", "good", "keyword", "string", "number", "defined")
WASHES = ("wash", "bad-wash", "doubt-wash", "good-wash")
DRAWN = (*(f"series{at}" for at in range(6)), "ramp4", "bad", "good", "doubt", "accent", "heat4")


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_that_of_the_standard():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", READ)
def test_words_stand_out_from_their_ground(name, theme):
    for ground in GROUNDS:
        assert contrast(COLOURS[name][theme], COLOURS[ground][theme]) >= 4.5, ground


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("wash", WASHES)
def test_source_stands_out_from_a_marked_line(wash, theme):
    for name in ("text", "muted", "keyword", "string", "number", "defined"):
        assert contrast(COLOURS[name][theme], COLOURS[wash][theme]) >= 4.5, name


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_changed_lines_stand_out_from_their_wash(theme):
    for name in ("good", "bad"):
        assert contrast(COLOURS[name][theme], COLOURS[f"{name}-wash"][theme]) >= 4.5, name


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_stands_out_from_the_page(name, theme):
    assert contrast(COLOURS[name][theme], COLOURS["page"][theme]) >= 3


def test_every_colour_that_is_used_is_named():
    style = "".join(map(asset, STYLES))
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", style)) - {"mono", "sans"}
    assert used <= set(COLOURS)
    written = [line for line in style.splitlines() if re.search(r"#[0-9a-f]{3,6}\b", line) and "light-dark" not in line]
    assert written == []
