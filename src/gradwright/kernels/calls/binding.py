"""The arguments of a call, one for each input of the formula, in their order."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from gradwright.kernels.calls.messages import listed, refusal

FOLDED = ("weight", "mask")  # reserved keywords, where the formula has no inputs of these names
_NONE: tuple[str, ...] = ()


class Binding:
    """``names``: of the formula's inputs. ``defaults``: numbers, for those that may be left out."""

    def __init__(self, name: str, names: Sequence[str], defaults: Mapping[str, float]) -> None:
        self.names = tuple(names)
        self.folds = not any(name in names for name in FOLDED)
        self._defaults = dict(defaults)
        self.where = f"a call of {name}({', '.join(names)})"

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], tuple[str, ...]]:
        """The inputs' values, then those that are folded in, and which those are.

        Raises: UsageError, where one is missing, unknown, or given twice.
        """
        if not kwargs and len(args) == len(self.names):
            return list(args), _NONE
        left = dict(kwargs)
        given = {name: left.pop(name, None) for name in FOLDED} if self.folds else {}
        if len(args) > len(self.names):
            raise self._too_many(args)
        values = list(args)
        for name in self.names[len(args) :]:
            if name in left:
                values.append(left.pop(name))
            elif name in self._defaults:
                values.append(self._defaults[name])
            else:
                raise self._missing(name, left)
        if left:
            raise self._unknown(next(iter(left)), args)
        folded = tuple([name for name, value in given.items() if value is not None])
        return [*values, *[given[name] for name in folded]], folded

    def _missing(self, name: str, left: Mapping[str, Any]) -> Exception:
        unknown = [given for given in left if given not in self.names]
        return refusal(
            f"the input {name} is missing",
            where=self.where,
            why=f"{listed(unknown)} is no input of the formula" if unknown else "",
            do=f"hand it over: {name}=a tensor or a number",
        )

    def _unknown(self, name: str, args: Sequence[Any]) -> Exception:
        if name in self.names:
            place = self.names.index(name) + 1
            return refusal(
                f"the input {name} is given twice",
                where=self.where,
                why=f"it is positional argument {place} of {len(args)}, and a keyword",
                do=f"leave {name}= out, or hand over fewer positional arguments",
            )
        known = [*self.names, *(FOLDED if self.folds else ())]
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        why = f"the inputs of the formula are {listed(self.names)}" + ("; weight and mask may be given" * self.folds)
        return refusal(
            f"{name} is no input" + (f" (did you mean {close[0]}?)" if close else ""),
            where=self.where,
            why=why,
            do=f"leave {name}= out",
        )

    def _too_many(self, args: Sequence[Any]) -> Exception:
        more = "; weight and mask are given by keyword: weight=..., mask=..." if self.folds else ""
        return refusal(
            f"{len(args)} positional arguments for {len(self.names)} inputs",
            where=self.where,
            do=f"hand over {listed(self.names)}{more}",
        )
