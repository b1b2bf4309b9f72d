"""Cells by the names that people know them by: ``In[3]`` for the file that IPython made up for the third."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gradwright.doctor.session.codec import decode, encode
from gradwright.doctor.session.model import Report
from gradwright.doctor.source.places import relative


def cell_names(shell: Any) -> dict[str, str]:
    """From the file names of the cells that ran to ``In[n]``; of a cell that was run again, its last number."""
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None) or {}
    return {file: f"In[{number}]" for file, number in numbers.items()}


def running_shell() -> Any:
    """The IPython that this is typed into, if it is one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def renamed(report: Report, names: Mapping[str, str]) -> Report:
    """The report with ``names`` for these files wherever they stand, and without sources that nothing stands in.

    >>> from gradwright.doctor.session.model import NotExamined, Source
    >>> seen = Report(sources=(Source("/tmp/k/1.py", "", "x"), Source("/tmp/k/2.py", "", "y")),
    ...               not_examined=(NotExamined("the loop at /tmp/k/1.py:3", "it writes"),))
    >>> seen = renamed(seen, {"/tmp/k/1.py": "In[4]", "/tmp/k/2.py": "In[5]"})
    >>> seen.not_examined[0].what, [source.path for source in seen.sources]
    ('the loop at In[4]:3', ['In[4]'])
    """
    wanted = {relative(file): name for file, name in names.items()} | dict(names)
    found: set[str] = set()

    def name(text: str) -> str:
        for file, new in wanted.items():
            if file in text:
                found.add(new)
                text = text.replace(file, new)
        return text

    def walk(data: Any) -> Any:
        if isinstance(data, str):
            return name(data)
        if isinstance(data, list):
            return [walk(item) for item in data]
        if isinstance(data, dict):
            return {key: walk(value) for key, value in data.items()}
        return data

    told: Report = decode(Report, walk(encode(replace(report, sources=()))))
    cells = set(wanted.values())
    sources = [replace(source, path=wanted.get(source.path, source.path)) for source in report.sources]
    kept = [source for source in sources if source.path not in cells or source.path in found]
    return replace(told, sources=tuple(kept))
