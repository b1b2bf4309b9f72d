"""A script, written otherwise: the same program with other names, in other files, behind a main(), run as a module.

What the doctor finds must not depend on any of it.
"""

import ast
import builtins
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
_KEEP = {"forward", "backward", "setup_context", "vjp", "jvp", "self", "ctx", *dir(builtins)}


@dataclass(frozen=True)
class Variant:
    """Files to write, what to run (a path below the folder, or a module's name), and with which arguments."""

    files: dict[str, str]
    target: str
    module: bool = False
    arguments: tuple[str, ...] = ()
    options: dict = field(default_factory=dict)

    def write(self, folder: Path) -> Path | str:
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return self.target if self.module else folder / self.target


def as_it_is(text: str) -> Variant:
    return Variant({"train.py": text}, "train.py")


def renamed(text: str) -> Variant:
    """Every name that the script binds itself gets another one (keeping its end, as `_backward`)."""
    tree = ast.parse(text)
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {node.name for node in tree.body if isinstance(node, _DEFINITIONS)}
    bound -= _KEEP
    # An argument that is passed by keyword somewhere keeps its name: the keyword may belong to torch.
    bound -= {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in bound:
            node.id = "other_" + node.id
        elif isinstance(node, ast.arg) and node.arg in bound:
            node.arg = "other_" + node.arg
        elif isinstance(node, _DEFINITIONS) and node.name in bound:
            node.name = "other_" + node.name
    return Variant({"train.py": ast.unparse(tree)}, "train.py")


def in_a_package(text: str) -> Variant:
    """Classes and functions move to a module of a package; the script imports them."""
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    moved = [node for node in tree.body if isinstance(node, _DEFINITIONS)]
    rest = [node for node in tree.body if node not in imports and node not in moved]
    if not moved or _needs(moved) & _binds(rest):
        return as_it_is(text)
    names = ", ".join(node.name for node in moved)
    return Variant(
        {
            "parts/__init__.py": "",
            "parts/pieces.py": _unparse([*imports, *moved]),
            "train.py": _unparse([*imports, *ast.parse(f"from parts.pieces import {names}").body, *rest]),
        },
        "train.py",
    )


def behind_main(text: str) -> Variant:
    """The script's body moves into main(), called under the usual guard."""
    tree = ast.parse(text)
    stay = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom, *_DEFINITIONS))]
    body = [node for node in tree.body if node not in stay and not _is_docstring(node)]
    if not body or _needs([node for node in stay if isinstance(node, _DEFINITIONS)]) & _binds(body):
        return as_it_is(text)
    main = ast.parse("def main():\n    pass\n\nif __name__ == '__main__':\n    main()")
    main.body[0].body = body  # type: ignore[attr-defined]  # the def above
    return Variant({"train.py": _unparse([*stay, *main.body])}, "train.py")


_ARGUMENTS_AND_WORKERS = """
import argparse
from torch.utils.data import DataLoader, TensorDataset
_parser = argparse.ArgumentParser()
_parser.add_argument("--epochs", type=int, required=True)
_parser.add_argument("name")
_arguments = _parser.parse_args()
assert _arguments.epochs == 3 and _arguments.name == "--run"[2:]
for (_batch,) in DataLoader(TensorDataset(torch.arange(4.0)), batch_size=2, num_workers=1):
    assert _batch.shape == (2,)
"""


def with_arguments_and_workers(text: str) -> Variant:
    """argparse with a required option, and a DataLoader with a worker process, ahead of the rest."""
    tree = ast.parse(text)
    last_import = max(
        index for index, node in enumerate(tree.body) if isinstance(node, (ast.Import, ast.ImportFrom))
    )  # fmt: skip
    body = [*tree.body[: last_import + 1], *ast.parse("import torch" + _ARGUMENTS_AND_WORKERS).body]
    return Variant(
        {"train.py": _unparse([*body, *tree.body[last_import + 1 :]])}, "train.py", arguments=("--epochs", "3", "run")
    )


def as_a_module(text: str) -> Variant:
    """Run with -m, out of a package."""
    return Variant({"project/__init__.py": "", "project/train.py": text}, "project.train", module=True)


VARIANTS: dict[str, Callable[[str], Variant]] = {
    "renamed": renamed,
    "in a package": in_a_package,
    "behind main()": behind_main,
    "with argparse and workers": with_arguments_and_workers,
    "run with -m": as_a_module,
}


def _unparse(body: list[ast.stmt]) -> str:
    return ast.unparse(ast.Module(body=body, type_ignores=[])) + "\n"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _needs(nodes: list[ast.stmt]) -> set[str]:
    return {leaf.id for node in nodes for leaf in ast.walk(node) if isinstance(leaf, ast.Name)}


def _binds(nodes: list[ast.stmt]) -> set[str]:
    return {
        leaf.id
        for node in nodes
        for leaf in ast.walk(node)
        if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store)
    }
