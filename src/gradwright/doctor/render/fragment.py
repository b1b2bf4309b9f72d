"""The report as one HTML fragment, for notebooks: no script, nothing fetched, readable on light and on dark pages."""

from __future__ import annotations

import functools

import jinja2

from gradwright.doctor.render.view import view
from gradwright.doctor.session.model import Report


@functools.cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("gradwright.doctor.render"),
        autoescape=True,  # whatever the templates are called
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(report: Report) -> str:
    """A ``<div>`` with its own style, for ``_repr_html_`` or to be put into a page. Says what the terminal says."""
    return _templates().get_template("fragment.html.jinja").render(seen=view(report))
