"""Session data to JSON and back, driven by the dataclasses' own annotations, so that no field is named twice."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from gradwright.doctor.session import facts as facts_module
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.misfit import Misfit, told
from gradwright.doctor.session.model import Report
from gradwright.doctor.session.place import Location
from gradwright.doctor.session.versions import may_be_read, written_elsewhere
from gradwright.errors import SessionError

T = TypeVar("T")
Decoder = Callable[[Any], Any]

FACT_KINDS: dict[str, type[Fact]] = {
    name: kind
    for name, kind in vars(facts_module).items()
    if isinstance(kind, type) and issubclass(kind, Fact) and kind is not Fact
}

# JSON has no word for these, and a reader in another language should not choke on Python's NaN.
_NONFINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_INTEGERS = range(-(2**63), 2**63)  # what any reader holds, and what a float can be made of
_PLACES = range(2**31)  # of lines and columns


def encode(value: Any) -> Any:
    """A dataclass, tuple or scalar as JSON data. A fact carries its kind; nan and infinities become strings."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields} if isinstance(value, Fact) else fields
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def decode(kind: Any, data: Any) -> Any:
    """JSON data as ``kind``. Raises ``SessionError``, naming the place, where it does not fit.

    >>> decode(Location, {"path": "train.py", "line": "18"})
    Traceback (most recent call last):
    gradwright.doctor.session.misfit.Misfit: line: expected an integer, found '18'
    """
    return _decoder(kind)(data)


def to_json(report: Report, indent: int | None = 1) -> str:
    text = json.dumps(encode(report), indent=indent, ensure_ascii=False, allow_nan=False) + "\n"
    # A lone surrogate (a file name that is no UTF-8, say) becomes its escape, which JSON reads back as what it was.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def from_json(text: str) -> Report:
    """Raises ``SessionError`` if the text is cut off, is no session, or was written by another version."""
    try:
        data = json.loads(text, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise SessionError(_no_json(error)) from None
    except RecursionError:
        raise SessionError("it is nested deeper than any session is") from None
    except ValueError:  # an integer of more digits than Python reads
        raise SessionError("it has an integer of thousands of digits in it, and no session has") from None
    may_be_read(data)
    try:
        report: Report = decode(Report, data)
    except Misfit as error:
        raise SessionError(f"{error}{written_elsewhere(data)}") from None
    return report


def _no_json(error: json.JSONDecodeError) -> str:
    if not error.doc.strip():
        return "it is empty: nothing was written, or it was cut off"
    at_end = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")
    if at_end:
        return f"it was cut off: its JSON ends in the middle, in line {error.lineno:,}"
    return f"it is no JSON: {error.msg} at line {error.lineno:,}, column {error.colno:,}"


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Readers differ in which of two values of one name they take."""
    found = dict(pairs)
    if len(found) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise SessionError(f"{told(twice)} stands twice in one object, and nobody can say which is meant")
    return found


# --- one decoder per annotation, made once ---------------------------------------------------------------------------


@functools.cache
def _decoder(kind: Any) -> Decoder:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _optional(next(option for option in typing.get_args(kind) if option is not types.NoneType))
    if origin is tuple:
        items = typing.get_args(kind)
        return _sequence(items[0]) if len(items) == 2 and items[1] is Ellipsis else _tuple(items)
    if origin is typing.Literal:
        return functools.partial(_one_of, typing.get_args(kind))
    if kind is Fact:
        return _fact
    if kind is Location:
        return functools.partial(_place, _fields(Location))
    if dataclasses.is_dataclass(kind):
        return _fields(typing.cast(type, kind))
    return {float: _float, int: _int, str: _str, bool: _bool}[kind]


def _optional(kind: Any) -> Decoder:
    inner = _decoder(kind)
    return lambda data: None if data is None else inner(data)


def _sequence(kind: Any) -> Decoder:
    item = _decoder(kind)

    def sequence(data: Any) -> Any:
        if not isinstance(data, list):
            raise Misfit(f"expected a list, found {told(data)}")
        made: list[Any] = []
        try:
            for one in data:
                made.append(item(one))
        except Misfit as error:
            raise error.inside(f"[{len(made)}]") from None
        return tuple(made)

    return sequence


def _tuple(kinds: tuple[Any, ...]) -> Decoder:
    items = [_decoder(kind) for kind in kinds]

    def exactly(data: Any) -> Any:
        if not isinstance(data, list) or len(data) != len(items):
            raise Misfit(f"expected a list of {len(items)}, found {told(data)}")
        return tuple(item(one) for item, one in zip(items, data, strict=True))

    return exactly


def _fields(kind: type) -> Decoder:
    hints = typing.get_type_hints(kind)
    parts: dict[str, Decoder] = {field.name: _decoder(hints[field.name]) for field in dataclasses.fields(kind)}
    needed = {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }

    def fields(data: Any) -> Any:
        if not isinstance(data, dict):
            raise Misfit(f"expected the fields of {kind.__name__}, found {told(data)}")
        values = {}
        for name, part in parts.items():  # a field that is not known is a later version's, and nothing hangs on it
            if name in data:
                try:
                    values[name] = part(data[name])
                except Misfit as error:
                    raise error.inside(f".{name}") from None
        missing = sorted(needed - values.keys())
        if missing:
            raise Misfit(f"a {kind.__name__} without {' and '.join(missing)}")
        return kind(**values)

    return fields


def _fact(data: Any) -> Any:
    named = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(named, str):
        raise Misfit(f"expected a fact with its kind, found {told(data)}")
    if named not in FACT_KINDS:
        raise Misfit(f"a kind of fact that is not known here, {told(named)}")
    kind: Any = FACT_KINDS[named]
    try:
        return _decoder(kind)(data)
    except Misfit as error:
        raise error.inside(f"({named})") from None


def _place(fields: Decoder, data: Any) -> Any:
    at = fields(data)
    for name in ("line", "column", "end_line", "end_column"):
        if getattr(at, name) not in _PLACES:
            raise Misfit(f"no file has such a place, {told(getattr(at, name))}").inside(f".{name}")
    return at


def _one_of(words: tuple[Any, ...], data: Any) -> Any:
    if data not in words:
        raise Misfit(f"expected one of {', '.join(words)}, found {told(data)}")
    return data


def _float(data: Any) -> float:
    if isinstance(data, str) and data in _NONFINITE:
        return _NONFINITE[data]
    if isinstance(data, bool) or not isinstance(data, (int, float)):
        raise Misfit(f"expected a number, found {told(data)}")
    try:
        return float(data)
    except OverflowError:
        raise Misfit(f"no such number fits, {told(data)}") from None


def _int(data: Any) -> int:
    if isinstance(data, bool) or not isinstance(data, int):
        raise Misfit(f"expected an integer, found {told(data)}")
    if data not in _INTEGERS:
        raise Misfit(f"no such integer fits, {told(data)}")
    return data


def _str(data: Any) -> str:
    if not isinstance(data, str):
        raise Misfit(f"expected text, found {told(data)}")
    return data


def _bool(data: Any) -> bool:
    if not isinstance(data, bool):
        raise Misfit(f"expected true or false, found {told(data)}")
    return data
