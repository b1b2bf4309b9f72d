"""How many wrong gradients are found, and how many right ones are called wrong?

The corpus (``corpus/``): operators of torch's own op_db as custom Functions, transparent and opaque, right in several
styles and spoiled in many ways; what a spoiler does not change, measured, is left out. The judges, side by side:
``gw.check`` at levels quick and standard, ``gradcheck`` slow and fast, ``gradcheck`` + ``gradgradcheck``, and
``opcheck`` where it applies (every 20th case, as a custom operator: see corpus/as_custom_op.py). Split by kind of
fault: a wrong value, which gradcheck is for, and contracts that it never promised to look at.

A full run takes hours; it is shared among processes, and what was judged is kept (in .gradwright/, by the version of
the corpus and of gradwright), so that it can be interrupted and taken up again.

    python benchmarks/how_many_wrong_gradients_are_found.py [--operators N | --every K [--offset I] | --only NAME ...]
        [--judges quick,standard] [--misses FILE] [--processes 2] [--both] [--fresh] [--save]
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import hashlib
import json
import multiprocessing
import os
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpus import report
from recording import describe_machine, save

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".gradwright" / "benchmarks" / "wrong_gradients"
SECONDS = {"quick": 30.0, "standard": 60.0}
OPCHECK_EVERY = 20
OURS = ("quick", "standard")


def version(*folders: str) -> str:
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def versions() -> dict[str, str]:
    corpus = version("benchmarks/corpus")
    return {
        "corpus": corpus,
        "ours": f"{corpus}-{version('src/gradwright/checking', 'src/gradwright/ground')}",
    }


def chosen_operators(options: argparse.Namespace) -> list[str]:
    from corpus import operator_names

    names = operator_names()
    if options.only:
        return [name for name in names if name in options.only]
    names = names[options.offset :: options.every]
    if options.operators:
        names = names[:: max(len(names) // options.operators, 1)][: options.operators]
    return names


def fit_operators(options: argparse.Namespace) -> list[str]:
    """Those chosen that have a specimen; the others were left out for a reason (see corpus/admission.py)."""
    from corpus.operators import specimens

    return [name for name in chosen_operators(options) if specimens(name, 1)[0]]


class Record:
    """What one process has judged, a line of JSON each: read when it starts, added to as it goes."""

    def __init__(self, path: Path, known: dict[str, str]) -> None:
        self.path, self.versions = path, known
        self.lines: dict[tuple[str, str], dict[str, Any]] = {}
        self.begun: dict[tuple[str, str], int] = {}
        if path.exists():
            for text in path.read_text().splitlines():
                try:
                    self._take(json.loads(text))
                except json.JSONDecodeError:  # it was interrupted while it wrote
                    continue
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("a", buffering=1)

    def version_of(self, what: str) -> str:
        return self.versions["ours" if what in OURS else "corpus"]

    def _take(self, line: dict[str, Any]) -> None:
        place = (line["case"], line["what"])
        if line["version"] != self.version_of(line["what"]):
            return
        if line.get("begun"):
            self.begun[place] = self.begun.get(place, 0) + 1
        else:
            self.lines[place] = line

    def get(self, case: str, what: str) -> dict[str, Any] | None:
        return self.lines.get((case, what))

    def crashed(self, case: str, what: str) -> bool:
        """Did the process die of it, twice?"""
        return self.begun.get((case, what), 0) >= 2

    def write(self, case: str, what: str, **line: Any) -> dict[str, Any]:
        line = {"case": case, "what": what, "version": self.version_of(what), **line}
        self._take(line)
        self.file.write(json.dumps(line) + "\n")
        return line


def judge_case(case: Any, judges: list[str], record: Record) -> None:
    from corpus import judged

    about = record.get(case.key, "case")
    if about is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            failed = ""
            try:
                differs = case.is_spoiled_in_truth()
                accepted = case.accepted() if differs else []
            except Exception as error:  # a fault of the corpus: told in the results
                differs, accepted, failed = False, [], f"{type(error).__name__}: {error}"[:200]
            about = record.write(
                case.key,
                "case",
                kind=case.spoiler.kind if case.spoiler else "right",
                spoiler=case.style,
                operator=case.operator,
                opaque=case.opaque,
                fault=case.fault,
                kinked=case.right is not None and case.right.specimen.kinked,
                kept=differs or case.spoiler is None,
                accepted=accepted,
                failed=failed,
            )
    if not about["kept"]:
        return
    for judge in judges:
        if record.get(case.key, judge) is not None:
            continue
        if judge == "opcheck" and zlib.crc32(case.key.encode()) % OPCHECK_EVERY:
            continue
        if record.crashed(case.key, judge):
            record.write(case.key, judge, rejected=None, why="the process died")
            continue
        record.write(case.key, judge, begun=True)
        verdict = judged(case, judge, SECONDS.get(judge, 30.0))
        record.write(case.key, judge, **dataclasses.asdict(verdict))


def work(shard: int, operators: list[str], options: argparse.Namespace, known: dict[str, str]) -> None:
    """One process's share: every so manieth operator."""
    import torch
    from corpus import right_cases, shipped_cases, spoiled_cases

    torch.set_num_threads(1)
    gc.freeze()
    record = Record(options.kept / f"{shard}-of-{options.processes}.jsonl", known)
    judges = options.judges

    def cases() -> Iterator[Any]:
        if shard == 0 and not options.only:
            yield from shipped_cases()
        for number, operator in list(enumerate(operators))[shard :: options.processes]:
            started = time.monotonic()
            own = [*right_cases(operator)]
            if not options.right_only:
                own += spoiled_cases(operator, number, both=options.both)
            yield from own[number % options.in_turn :: options.in_turn]
            took = time.monotonic() - started
            print(f"[{shard}] {number + 1} of {len(operators)}: {operator}, {took:.1f} s", file=sys.stderr, flush=True)

    for case in cases():
        judge_case(case, judges, record)


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every shard to its end, begun anew where a process died; what they recorded."""
    known, operators = versions(), chosen_operators(options)
    if options.fresh:
        for path in options.kept.glob("*.jsonl"):
            path.unlink()
    context = multiprocessing.get_context("spawn")

    def start(shard: int) -> Any:
        process = context.Process(target=work, args=(shard, operators, options, known), daemon=True)
        process.start()
        return process

    running = {shard: start(shard) for shard in range(options.processes)}
    deaths = 0
    while running:
        for shard, process in list(running.items()):
            process.join(0.5)
            if process.is_alive():
                continue
            del running[shard]
            if process.exitcode != 0 and deaths < 50:
                deaths += 1
                print(f"[{shard}] died ({process.exitcode}); begun anew", file=sys.stderr)
                running[shard] = start(shard)
            elif process.exitcode != 0:
                print(f"[{shard}] given up: the results are incomplete", file=sys.stderr)
    wanted = set(operators) | ({"autograd_function_db"} if not options.only else set())
    lines = []
    for shard in range(options.processes):
        record = Record(options.kept / f"{shard}-of-{options.processes}.jsonl", known)
        lines += [line for line in record.lines.values() if line["case"].split(" | ")[0] in wanted]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, help="this many, spread over op_db")
    parser.add_argument("--every", type=int, default=1, help="every so manieth operator")
    parser.add_argument("--offset", type=int, default=0, help="begin with this one")
    parser.add_argument("--only", nargs="+", help="these operators, by full name")
    parser.add_argument("--judges", default="quick,standard,gradcheck,gradcheck fast,gradgradcheck,opcheck")
    parser.add_argument("--misses", type=Path, help="write every miss, false alarm and wrong cause here")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--both", action="store_true", help="each spoiler transparent and opaque, not in turn")
    parser.add_argument("--in-turn", type=int, default=1, help="of each operator's cases every so manieth, in turn")
    parser.add_argument("--right-only", action="store_true", help="no spoiled ones")
    parser.add_argument("--kept", type=Path, default=KEPT, help="where verdicts are kept")
    parser.add_argument("--fresh", action="store_true", help="forget what was judged before")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results")
    options = parser.parse_args()
    options.judges = options.judges.split(",")
    os.nice(5)
    before = versions()
    lines = run(options)
    cases = report.gathered(lines)
    data = report.summary(cases, options.judges)
    data["versions"] = before
    data["problems"] = report.problems(lines, fit_operators(options))
    if versions() != before:
        data["problems"].append("the sources changed while it ran: what was judged is no one version")
    print(report.as_text(data))
    if options.misses:
        options.misses.write_text(report.misses(cases))
    if options.save and any("no one version" in problem for problem in data["problems"]):
        sys.exit("not saved: " + "; ".join(data["problems"]))
    if options.save:
        question = "how_many_right_ones_are_rejected" if options.right_only else "how_many_wrong_gradients_are_found"
        save(question, {"machine": describe_machine(), **data})


if __name__ == "__main__":
    main()
