"""The session as one page: a file that fetches nothing, is read without script, and is drawn and searched with it."""

from __future__ import annotations

import functools
from importlib import resources

import jinja2
from markupsafe import Markup

from gradwright.doctor.render.page.coloured import Coloured
from gradwright.doctor.render.page.costs import costs
from gradwright.doctor.render.page.findings import codes, told
from gradwright.doctor.render.page.functions import functions
from gradwright.doctor.render.page.nonfinite import ways
from gradwright.doctor.render.page.policy import policy
from gradwright.doctor.render.page.reproduce import fix_command, reproduce
from gradwright.doctor.render.page.text import program, said
from gradwright.doctor.render.page.timeline import timelines
from gradwright.doctor.render.page.training import training
from gradwright.doctor.render.page.unexamined import grouped
from gradwright.doctor.render.page.verdicts import strip
from gradwright.doctor.render.view import view
from gradwright.doctor.session.model import Report

__all__ = ["render"]

STYLES = ("colours.css", "page.css", "parts.css", "media.css")
_DRAWN = 'type="application/json"'  # what only a plot leaves in the page


def render(report: Report, *, width: int, color: bool) -> str:
    """An HTML document, UTF-8, ending in a newline. A page has no use for ``width`` and ``color``.

    Cost: linear in the report; 1.5 MB more where there is something to plot.
    """
    seen = view(report, listed=None)
    coloured = Coloured(report)
    findings = told(report, seen, coloured)
    death = report.script.exception
    body = _templates().get_template("body.html.jinja").render(
        seen=seen,
        strip=strip(report, seen),
        death_lines=coloured.excerpt(death.location.path, seen.death_excerpt) if death and death.location else (),
        traceback=program(death.traceback) if death else "",
        fix=fix_command(report),
        findings=findings,
        codes=codes(findings),
        functions=functions(report, seen, findings, coloured),
        costs=costs(report, findings, coloured),
        ways=ways(report, coloured),
        training=training(report),
        timelines=timelines(report),
        unexamined=grouped(seen.unexamined),
        reproduce=reproduce(report),
    )  # fmt: skip
    scripts = (*((asset("plotly-cartesian.min.js"),) if _DRAWN in body else ()), asset("page.js"))
    return _templates().get_template("document.html.jinja").render(
        title=strip(report, seen).title,
        policy=policy(scripts),
        style=Markup("\n").join(map(asset, STYLES)),
        scripts=scripts,
        body=Markup(body),
    )  # fmt: skip


@functools.cache
def asset(name: str) -> Markup:
    """A file of ours that goes into the page as it is."""
    text = resources.files(__name__).joinpath("assets", name).read_text(encoding="utf-8")
    return Markup(text)


@functools.cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(__name__),
        autoescape=True,  # whatever the templates are called
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["said"] = said
    return made
