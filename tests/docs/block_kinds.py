"""Blocks that are no Python: commands name what there is, data can be parsed, and what can't be checked says why."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import tomllib
from pathlib import Path

import click
import yaml
from pages import Block, blocks

# Programs that are not ours: they are named, and no more can be said of them here.
OTHERS = {"pip", "git", "cd", "tensorboard", "apt-get", "patch", "export", "eval", "source", "python3"}
OURS = ("examples/", "benchmarks/", "corpora/", "tools/", "tests/", "docs/", "src/")
PYTEST = {"-n", "-q", "-k", "-m", "-x", "-p", "-v", "--gradwright", "--no-gradwright"}


def unchecked(text: str, root: Path, listed: str = "") -> list[str]:
    """What is wrong with the blocks of a page that are not run; those of the kind ``listed`` are left alone."""
    found = []
    for block in blocks(text):
        if block.kind not in ("python", "given", listed):
            found += [f"line {block.line}: {said}" for said in _of(block, root)]
    return found


def _of(block: Block, root: Path) -> list[str]:
    if block.marker.startswith("static:") or block.marker == "prints" or block.within:
        return []
    if block.kind in ("sh", ""):
        return [said for words in commands(block.text) for said in command_faults(words, root)]
    parse = {"toml": tomllib.loads, "yaml": yaml.safe_load, "json": json.loads}.get(block.kind)
    if parse is None:
        return [f"nothing checks a {block.kind} block that no marker says where from: {block.text[:60]!r}"]
    try:
        parse(block.text)
    except (ValueError, yaml.YAMLError) as error:
        return [f"is no {block.kind}: {error}"]
    return []


def commands(text: str) -> list[list[str]]:
    """The commands of a sh block, each as its words.

    >>> commands("$ make demo  # a comment\\nA=1 gradwright fix \\\\\\n  a.py && pip install .")
    [['make', 'demo'], ['gradwright', 'fix', 'a.py'], ['pip', 'install', '.']]
    """
    found = []
    for line in text.replace("\\\n", " ").split("\n"):
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="&|;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("&|;"):
                found += [words] if words else []
                words = []
            elif words or not re.fullmatch(r"\w+=.*", word):
                words.append(word)
    return found


def command_faults(words: list[str], root: Path) -> list[str]:
    program, *given = words
    missing = [f"there is no {word}" for word in given if word.startswith(OURS) and not (root / word).exists()]
    if missing:
        return missing
    if program == "gradwright":
        return gradwright_faults(given)
    if program == "make":
        makefile = (root / "Makefile").read_text()
        known = {*re.findall(r"^([\w-]+):", makefile, re.MULTILINE), *re.findall(r"\$\((?:if )?(\w+)[,)]", makefile)}
        return [f"the Makefile has no {word}" for word in given if word.partition("=")[0] not in known]
    if program in ("pytest", "torchrun"):
        return _pytest(given, root) if program == "pytest" else _torchrun(given, root)
    if program == "python":
        return _python(given, root)
    return [] if program in OTHERS else [f"nothing is known of {program}"]


def gradwright_faults(given: list[str]) -> list[str]:
    """Whether the command line would take these words; nothing is run."""
    from gradwright.doctor.cli import main

    if not given or given[0] in ("--help", "--version", "-h"):
        return []
    if given[0] not in main.commands:
        return [f"gradwright has no command {given[0]}"]
    try:
        main.commands[given[0]].make_context(given[0], list(given[1:]))
    except click.exceptions.Exit:
        pass  # --help
    except click.UsageError as error:
        return [f"gradwright {given[0]}: {error.format_message()}"]
    return []


def _python(given: list[str], root: Path) -> list[str]:
    if given[:1] == ["-m"]:
        if given[1] == "gradwright":
            return gradwright_faults(given[2:])
        return [] if importlib.util.find_spec(given[1].split(".")[0]) else [f"there is no module {given[1]}"]
    if not given or not given[0].startswith(OURS):
        return []
    beside = "".join(path.read_text() for path in (root / given[0]).parent.glob("*.py"))
    return [f"{given[0]} has no {word}" for word in given[1:] if word.startswith("--") and f'"{word}"' not in beside]


def _torchrun(given: list[str], root: Path) -> list[str]:
    scripts = [at for at, word in enumerate(given) if word == "-m" or word.endswith(".py")]
    return _python(given[scripts[0] :], root) if scripts else ["torchrun runs no script"]


def _pytest(given: list[str], root: Path) -> list[str]:
    plugin = (root / "src" / "gradwright" / "testing" / "plugin.py").read_text()
    options = [word.partition("=")[0] for word in given if word.startswith("-")]
    return [f"pytest has no {word}" for word in options if word not in PYTEST and f'"{word}"' not in plugin]
