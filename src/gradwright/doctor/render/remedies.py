"""The words for a fix: what it changes, how it was shown to be one, what it saves, or why there is none."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from gradwright.doctor.render.excerpt import DiffLine, Line, diff_body
from gradwright.doctor.render.wording import UNSHOWABLE, clean, counted, number, seconds, size
from gradwright.doctor.session.model import Finding, Fix, Proof, Report


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of source and what is known of it; ``unsafe`` says where it means something else."""

    lines: tuple[DiffLine, ...]
    proof: str
    held: bool
    unsafe: str = ""


def remedy(finding: Finding, lines: tuple[Line, ...]) -> Remedy | None:
    """The fix, or the first candidate that nothing speaks against; ``lines`` are those shown above it."""
    if finding.fix is not None:
        return Remedy(
            _body(finding, finding.fix.diff, lines), proof_words(finding.fix.proof), True, unsafe_words(finding.fix)
        )
    untried = next((candidate for candidate in finding.candidates if candidate.counterexample is None), None)
    if untried is None:
        return None
    words = "not verified: a suggestion, to be read before it is used"
    return Remedy(_body(finding, untried.diff, lines), words, held=False)


def _body(finding: Finding, diff: str, lines: tuple[Line, ...]) -> tuple[DiffLine, ...]:
    changed = diff.split("\n", 1)[0].split("\t", 1)[0]
    same_file = PurePath(changed).name == PurePath(finding.location.path).name
    return diff_body(diff, frozenset(line.number for line in lines) if same_file else frozenset())


def proof_words(proof: Proof) -> str:
    """How a fix was shown to be one, and what it saves.

    >>> proof_words(Proof("verified", ("a", "b"), 0.0, 1e-6, 0, 14.1, 0.009))
    'verified on 2 inputs, worst difference 0: 14.1 s -> 9 ms'
    >>> proof_words(Proof("proved", ("a",), 5e-8, 1e-6, 31, 0.2658, 19e-6, mutants_tried=31, exact=("[3]", "[2, 2]"),
    ...                   certificate="each element stands alone.", before_bytes=480_000, after_bytes=160_000))
    'proved for all shapes (each element stands alone), exact at 2 shapes, verified on 1 input; \
31 of 31 faulty twins rejected; worst difference 5e-08: 265.8 ms -> 19 us, 480 kB -> 160 kB'
    """
    on = clean(proof.run) or counted(len(proof.on), "input")
    parts = [f"verified on {on}"]
    if proof.exact:
        parts.append(f"exact at {counted(len(proof.exact), 'shape')}")
    if proof.verdict == "proved":
        reason = clean(proof.certificate).rstrip(".")
        parts.append("proved for all shapes" + (f" ({reason})" if reason else ""))
        parts.reverse()
    words = ", ".join(parts)
    if proof.mutants_tried:
        words += f"; {proof.mutants_rejected:,} of {counted(proof.mutants_tried, 'faulty twin')} rejected;"
    else:
        words += ","
    words += f" worst difference {number(proof.worst_error)}"
    saved = savings(proof)
    return f"{words}: {saved}" if saved else words


def savings(proof: Proof) -> str:
    """``14.1 s -> 9 ms, 480 kB -> 160 kB``, as far as it was measured."""
    parts = []
    if proof.before_seconds is not None and proof.after_seconds is not None:
        parts.append(f"{seconds(proof.before_seconds)} -> {seconds(proof.after_seconds)}")
    before, after = size(proof.before_bytes or 0), size(proof.after_bytes or 0)
    if None not in (proof.before_bytes, proof.after_bytes) and before != after:
        parts.append(f"{before} -> {after}")
    return ", ".join(parts)


def unsafe_words(fix: Fix) -> str:
    return f"unsafe: {clean(fix.unsafe)}" if fix.unsafe else ""


def failures(finding: Finding) -> tuple[str, ...]:
    """Why there is no fix: each candidate that failed, and the first input that shows it; what can't be rewritten."""
    if finding.fix is not None:
        return ()
    words = []
    for candidate in finding.candidates:
        if candidate.counterexample is not None and candidate.diff:
            what = f"{clean(candidate.rewrite)} was tried and is no fix"
            words.append(f"{what}: {clean(candidate.counterexample)}")
        elif candidate.counterexample:
            words.append(f"can't be rewritten: {clean(candidate.counterexample)}")
    return tuple(words)


def fixes_counted(findings: Iterable[Finding]) -> list[str]:
    """``1 proved fix``, ``2 verified fixes``; how many of them are unsafe."""
    fixes = [finding.fix for finding in findings if finding.fix is not None]
    kinds = Counter(fix.proof.verdict for fix in fixes)
    words = [counted(kinds[kind], f"{kind} fix", f"{kind} fixes") for kind in sorted(kinds)]
    unsafe = sum(bool(fix.unsafe) for fix in fixes)
    if unsafe and words:
        words[-1] += f" ({unsafe} unsafe)" if len(fixes) > 1 else " (unsafe)"
    return words


def how_to_fix(report: Report) -> str:
    """The command that shows and makes the fixes of a script's report; "" where there are none, or no script."""
    count = sum(finding.fix is not None for finding in report.findings)
    if not count or not report.script.argv:
        return ""
    them = "it" if count == 1 else "them"
    return f"gradwright fix {command_line(typed(report))} shows {them}, --apply makes {them}"


def typed(report: Report) -> list[str]:
    """The script and its arguments as they stand in a command, from the directory that it ran in."""
    script, here = report.script, report.environment.cwd or "."
    if script.module or not script.argv:
        return [*(["-m", script.module] if script.module else []), *script.argv[1:]]
    program, *arguments = script.argv
    if PurePath(program).is_relative_to(here):
        program = str(PurePath(program).relative_to(here))
    return [program, *arguments]


def command_line(argv: Iterable[str]) -> str:
    r"""The script and its arguments as they are typed into a shell, all of it to be seen and pasted.

    >>> print(command_line(["train.py", "two words", "a\x1b[31m", "\udcff"]))
    train.py 'two words' $'a\x1b[31m' $'\xff'
    """
    return " ".join(shlex.quote(word) if not UNSHOWABLE.search(word) else _escaped(word) for word in argv)


def _escaped(word: str) -> str:
    """A word with what can't be shown in it, as bash, zsh and ksh write one: byte by byte, in ASCII."""
    try:
        data = word.encode("utf-8", "surrogateescape")  # a byte of the command line that is no UTF-8
    except UnicodeEncodeError:
        data = word.encode("utf-8", "surrogatepass")
    shown = (chr(byte) if 0x20 <= byte < 0x7F and byte not in b"\\'" else f"\\x{byte:02x}" for byte in data)
    return f"$'{''.join(shown)}'"
