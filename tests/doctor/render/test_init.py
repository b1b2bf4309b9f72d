"""The door of the room: formats by name."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gradwright.doctor.render import FORMATS, render
from gradwright.doctor.session.codec import from_json
from gradwright.errors import UsageError


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_renders_and_ends_in_one_newline(make, format):
    text = render(make.first_sight(), format, width=80)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_json_format_is_the_session_and_valid_json(make):
    text = render(make.first_sight(), "json", color=True)
    assert json.loads(text)["schema_version"] == 1
    assert from_json(text) == make.first_sight()


def test_unknown_format_names_those_that_there_are(make):
    *others, last = FORMATS
    with pytest.raises(UsageError, match=f"no format 'pdf'; there are {', '.join(others)} and {last}$"):
        render(make.first_sight(), "pdf")


def test_rendering_imports_no_torch_and_no_template_engine():
    code = (
        "import sys; import gradwright.doctor.render; "
        "sys.exit(str(sorted({'torch', 'jinja2', 'libcst'} & set(sys.modules))))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert result.stderr.strip() == "[]"
