"""Session data to JSON and back, driven by the dataclasses' own annotations, so that no field is named twice."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from typing import Any, TypeVar

from gradwright.doctor.session import facts as facts_module
from gradwright.doctor.session.facts import Fact
from gradwright.doctor.session.model import SCHEMA_VERSION, Report
from gradwright.errors import SessionError

T = TypeVar("T")

FACT_KINDS: dict[str, type[Fact]] = {
    name: kind
    for name, kind in vars(facts_module).items()
    if isinstance(kind, type) and issubclass(kind, Fact) and kind is not Fact
}

# JSON has no word for these, and a reader in another language should not choke on Python's NaN.
_NONFINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


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


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def decode(kind: Any, data: Any) -> Any:
    """JSON data as ``kind``. Raises ``SessionError``, naming the place, where it does not fit."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        if data is None:
            return None
        return decode(next(option for option in typing.get_args(kind) if option is not types.NoneType), data)
    if origin is tuple:
        if not isinstance(data, list):
            raise SessionError(f"expected a list, found {type(data).__name__}")
        items = typing.get_args(kind)
        if len(items) == 2 and items[1] is Ellipsis:
            return tuple(decode(items[0], item) for item in data)
        return tuple(decode(item_kind, item) for item_kind, item in zip(items, data, strict=True))
    if kind is Fact:
        if not isinstance(data, dict) or data.get("kind") not in FACT_KINDS:
            raise SessionError(f"unknown kind of fact {data.get('kind') if isinstance(data, dict) else data!r}")
        return _decode_fields(FACT_KINDS[data["kind"]], {key: value for key, value in data.items() if key != "kind"})
    if dataclasses.is_dataclass(kind):
        return _decode_fields(typing.cast(type, kind), data)
    if kind is float:
        if isinstance(data, str) and data in _NONFINITE:
            return _NONFINITE[data]
        if isinstance(data, bool) or not isinstance(data, (int, float)):
            raise SessionError(f"expected a number, found {data!r:.60}")
        return float(data)
    if origin is typing.Literal:
        if data not in typing.get_args(kind):
            raise SessionError(f"expected one of {typing.get_args(kind)}, found {data!r:.60}")
        return data
    if isinstance(kind, type) and not (isinstance(data, kind) and (kind is bool or not isinstance(data, bool))):
        raise SessionError(f"expected {kind.__name__}, found {data!r:.60}")
    return data


def _decode_fields(kind: type, data: Any) -> Any:
    if not isinstance(data, dict):
        raise SessionError(f"expected the fields of {kind.__name__}, found {type(data).__name__}")
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in data:
            try:
                values[field.name] = decode(_hints(kind)[field.name], data[field.name])
            except (SessionError, ValueError) as error:
                raise SessionError(f"{kind.__name__}.{field.name}: {error}") from None
    try:
        return kind(**values)
    except TypeError as error:
        raise SessionError(f"{kind.__name__}: {error}") from None


def to_json(report: Report, indent: int | None = 1) -> str:
    text = json.dumps(encode(report), indent=indent, ensure_ascii=False, allow_nan=False) + "\n"
    # A lone surrogate (a file name that is no UTF-8, say) becomes its escape, which JSON reads back as what it was.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def from_json(text: str) -> Report:
    """Raises ``SessionError`` if the text is cut off, is no session, or has another schema version."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SessionError(f"not a whole JSON document ({error}); was the file cut off?") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise SessionError(f"schema version {version!r}, this Gradwright reads {SCHEMA_VERSION}; run `diagnose` again")
    report: Report = decode(Report, data)
    return report
