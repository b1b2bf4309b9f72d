"""Masks of a file that are meant to complement each other and do not: see ``gradwright.ground.masks``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradwright.doctor.source.files import SourceFile
from gradwright.doctor.source.statements import DEFINITIONS, Origins, Placed, definitions
from gradwright.ground import masks
from gradwright.ground.masks import Masks


def mismatched_masks(file: SourceFile) -> Iterator[tuple[Placed | None, Masks]]:
    """At most one pair for each place where a complement is made, with the function around it (None: the script)."""
    origins = Origins(file.tree)
    script = [statement for statement in file.tree.body if not isinstance(statement, DEFINITIONS)]
    bodies: list[tuple[Placed | None, list[ast.stmt]]] = [(None, script)]
    bodies += [(p, p.node.body) for p in definitions(file.tree) if not isinstance(p.node, ast.ClassDef)]
    for placed, body in bodies:
        for pair in masks.mismatched_masks(body, origins.dotted):
            yield placed, pair
