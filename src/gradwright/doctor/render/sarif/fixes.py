"""A fix as the replacements that make it in the very file that it was tried on."""

from __future__ import annotations

import functools
import hashlib
import io
import re
import tokenize

from gradwright.doctor.render.remedies import proof_words
from gradwright.doctor.render.sarif.places import Files, Json, units
from gradwright.doctor.session.hunks import DoesNotFit, Edit, edits_of, path_of
from gradwright.doctor.session.model import Finding, Report, Source

_INSTALLED = {"site-packages", "dist-packages"}


def fixes(finding: Finding, report: Report, files: Files) -> list[Json]:
    """SARIF's ``fixes``: what ``gradwright fix`` would write, and only that.

    Empty where it would not write it without being asked for more: an unsafe fix, a file outside of the working
    directory or of an installed package, a diff that does not fit, a file whose line ends can't be told.
    """
    fix = finding.fix
    if fix is None or fix.unsafe:
        return []
    path = path_of(fix.diff) or finding.location.path
    source, relative = report.source(path), files.below_cwd(path)
    if source is None or not relative or _INSTALLED & set(relative.split("/")):
        return []
    end = line_end(source)
    if end is None:
        return []
    lines = _with_ends(source.text)
    try:
        edits = edits_of(fix.diff, lines)
    except DoesNotFit:
        return []
    change = {
        "artifactLocation": files.location(path),
        "replacements": [_replacement(edit, lines, end) for edit in edits],
    }
    return [{"description": {"text": proof_words(fix.proof)}, "artifactChanges": [change]}]


@functools.lru_cache(maxsize=8)  # a file may have many fixes
def line_end(source: Source) -> str | None:
    r"""How the lines of the file end, which a session's text does not say but its hash knows. ``None``: not told.

    Files of mixed line ends are not told, and those whose encoding can't be read from their first lines.

    >>> text, data = "x = 1\ny = 2\n", b"x = 1\r\ny = 2\r\n"
    >>> line_end(Source("a.py", hashlib.sha256(data).hexdigest(), text))
    '\r\n'
    """
    if "\r" in source.text:
        return None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source.text.encode("utf-8")).readline)
        for end in ("\n", "\r\n", "\r"):
            for data in (b"", b"\xef\xbb\xbf"):
                if hashlib.sha256(data + source.text.replace("\n", end).encode(encoding)).hexdigest() == source.sha256:
                    return end
    except (SyntaxError, UnicodeError):
        pass  # an unknown encoding, or characters that it does not have
    return None


@functools.lru_cache(maxsize=8)
def _with_ends(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _replacement(edit: Edit, lines: list[str], end: str) -> Json:
    """The lines of an edit as a stretch of characters.

    A stretch that reaches the end of a file leaves the last line's own end where it is: there is no line after it whose
    beginning could be named.
    """
    last, new = edit.last, "".join(edit.new)
    first = (edit.first + 1, 1)
    if last < len(lines):
        until = (last + 1, 1)
    elif not lines:
        until = first
    else:
        until = (len(lines), units(lines[-1].removesuffix("\n")) + 1)
        ended = lines[-1].endswith("\n")
        if ended and new.endswith("\n"):
            new = new[:-1]
            if edit.first == last:  # added at the end: after the last line's text, before its end
                first, new = until, "\n" + new
        elif ended and not new and edit.first:
            first = (edit.first, units(lines[edit.first - 1].removesuffix("\n")) + 1)
        elif ended:
            until = (len(lines) + 1, 1)  # the new text is empty, or ends without a line end
        elif not ended and edit.first == last:
            first = until
    deleted = {"startLine": first[0], "startColumn": first[1], "endLine": until[0], "endColumn": until[1]}
    return {"deletedRegion": deleted, "insertedContent": {"text": new.replace("\n", end)}}
