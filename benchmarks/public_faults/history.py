"""How the backwards of a package changed from version to version: the way the faults of this folder were found.

    python benchmarks/public_faults/history.py entmax torchlpc [--versions 14] [--record]

Up to that many versions a package, the first, the last and evenly between (pre-releases left out); of every Function
that two successive ones share, the diff of its backward. `--record` adds to looked_at.json how much was looked at.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import itertools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from packaging.version import InvalidVersion, Version
from wild.fetching import links, members, pin_of, read
from wild.scanning import functions_in

RECORD = Path(__file__).parent / "looked_at.json"


def versions_of(name: str, most: int) -> list[str]:
    found = set()
    for file in links(name):
        stem = file.removesuffix(".tar.gz").removesuffix(".zip")
        text = stem.split("-")[1] if file.endswith(".whl") else stem.rsplit("-", 1)[-1]
        try:
            if not Version(text).is_prerelease:
                found.add(text)
        except InvalidVersion:
            continue
    ordered = sorted(found, key=Version)
    if len(ordered) <= most:
        return ordered
    return [ordered[round(place * (len(ordered) - 1) / (most - 1))] for place in range(most)]


def backwards_of(name: str, version: str) -> dict[str, str]:
    """By class name: the source of its backward."""
    pin = pin_of(name, version, hashed=False)
    with tempfile.TemporaryDirectory() as folder:
        for member, data in members(pin.file, read(links(name)[pin.file])):
            if member.endswith(".py") and (target := (Path(folder) / member).resolve()).is_relative_to(folder):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
        return {key.split("::")[1]: _backward(source) for key, source in functions_in(Path(folder)).items()}


def _backward(source: str) -> str:
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    kept = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name in ("backward", "vjp")]
    return "\n".join(ast.unparse(item) for item in kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--versions", type=int, default=14)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for name in options.packages:
        versions = versions_of(name, options.versions)
        sources = {version: backwards_of(name, version) for version in versions}
        changed = 0
        for old, new in itertools.pairwise(versions):
            for function in sorted(sources[old].keys() & sources[new].keys()):
                if sources[old][function] != sources[new][function]:
                    changed += 1
                    print(f"=== {name} {old} -> {new}: {function}")
                    lines = (sources[version][function].splitlines() for version in (old, new))
                    print("\n".join(difflib.unified_diff(*lines, lineterm="", n=1)))
        record[name] = [len(versions), len(sources[versions[-1]]) if versions else 0, changed]
    if options.record:
        RECORD.write_text(json.dumps(dict(sorted(record.items())), indent=0) + "\n")


if __name__ == "__main__":
    main()
