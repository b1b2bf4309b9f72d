"""Values as Python-like text: operators, methods and public functions by their own names, nothing else."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from gradwright.doctor.probe.formula.brackets import MATRIX, PRODUCT, Text, bracketed
from gradwright.doctor.probe.formula.kernels import FUNCTIONS, WRITTEN_OUT
from gradwright.doctor.probe.formula.simpler import number
from gradwright.doctor.probe.formula.special import SPECIAL
from gradwright.doctor.probe.formula.values import NoFormula, Value, in_order, values_in
from gradwright.functions.derive.spelling import ATOM, INFIX, PREFIX, STRENGTH, UNARY, spelled
from gradwright.ground.torch_versions.operators import overload_name, schema_of

LONGEST = 120
# An expression so long gets a name of its own; where a line then is too long all the same, a shorter one does.
LONG = (64, 40, 24)
WORTH_A_NAME = 12  # where it is read twice
_COMMUTES = ("add", "mul")
_PREFIXES = ("torch.nn.functional.", "torch.linalg.", "torch.special.", "torch.")
_OPTIONS = ("keepdim", "approximate", "correction")
_QUIET = ("device", "layout", "pin_memory", "memory_format")
_WORD = re.compile(r"[A-Za-z_]\w*")


class Writer:
    """``known``: values with a name in reach. ``functions``: where the functions of the texts are found, by name;
    ``taken``: names that stand for values."""

    def __init__(self, taken: Sequence[str]) -> None:
        self.taken = set(taken)
        self.functions: dict[str, str] = {}
        self.shapes: list[tuple[tuple[int, ...], str]] = []

    def nested(self, value: Value, known: dict[Value, str], longest: int = LONGEST) -> str | None:
        """One expression; ``None`` if it is longer than that. Raises: NoFormula."""
        texts: dict[Value, Text] = {one: (name, ATOM) for one, name in known.items()}
        for one in in_order([value], known):
            if one.called == "item" or _is_tuple(one):
                continue
            if not all(inner in texts or inner.called == "item" or _is_tuple(inner) for inner in _below(one)):
                continue  # made of what is too long
            found = self.text(one, texts)
            if len(found[0]) <= longest:
                texts[one] = found
        if value.called == "item":
            found = self.text(value, texts)
            return found[0] if len(found[0]) <= longest else None
        return texts[value][0] if value in texts else None

    def statements(self, value: Value, known: dict[Value, str], result: str = "") -> list[str]:
        """Assignments, the last line being the value (assigned to ``result``, if it is to be). What is read twice, and
        what is long, gets a name; it is added to ``known``. Raises: NoFormula."""
        taken = {*self.taken}
        for long in LONG:
            self.taken, named = {*taken}, {**known}
            lines = self._statements(value, named, result, long)
            if all(len(line) <= LONGEST for line in lines):
                known.update(named)
                return lines
        raise NoFormula("a line is very long")

    def _statements(self, value: Value, known: dict[Value, str], result: str, long: int) -> list[str]:
        order = in_order([value], known)
        uses = Counter(inner for one in order for inner in _below(one))
        texts: dict[Value, Text] = {one: (name, ATOM) for one, name in known.items()}
        lines: list[str] = []
        for one in order:
            if one.is_leaf or _is_tuple(one):
                continue
            found = self.text(one, texts)
            size = len(found[0])
            if one is value:
                return [*lines, f"{result} = {found[0]}" if result else found[0]]
            if size > (long // 2 if one.name else long) or (uses[one] > 1 and size > WORTH_A_NAME):
                known[one] = self.name(one)
                lines.append(f"{known[one]} = {found[0]}")
                found = (known[one], ATOM)
            texts[one] = found
        return [self.text(value, texts)[0]]

    def name(self, value: Value, wanted: Sequence[str] = ()) -> str:
        """A name that nothing has yet: what the author calls it, if that is one."""
        for name in (*wanted, *([] if value.is_leaf else [value.name]), *(f"t{count}" for count in range(1, 100))):
            if is_free(name, self.taken) and name not in self.functions:
                self.taken.add(name)
                return name
        raise NoFormula("very many names")

    def text(self, value: Any, texts: dict[Value, Text]) -> Text:
        """Raises: NoFormula, for what has no public name."""
        if not isinstance(value, Value):
            return self.plain(value, texts)
        if value in texts:
            return texts[value]
        if value.op == "number":
            return self.plain(value.args[0], texts)
        if value.is_leaf:
            return value.name, ATOM
        if value.op == "item":
            whole, place = value.args
            if whole.called in ("log_sigmoid_forward", "native_layer_norm") and place == 0:
                return self._call(whole, texts)
            return f"{bracketed(self._call(whole, texts), ATOM)}[{place}]", ATOM
        return self._call(value, texts)

    def _call(self, value: Value, texts: dict[Value, Text]) -> Text:
        name = value.called
        if name in WRITTEN_OUT:
            return self._written_out(value, texts)
        operator = f"{name}.{overload_name(value.op)}"
        options = {key: item for key, item in value.kwargs.items() if item is not None and key not in _QUIET}
        if operator in INFIX and len(value.args) == 2 and set(options) <= {"alpha"}:
            left, right = value.args
            if (alpha := options.get("alpha", 1)) != 1:
                scaled = self.infix("*", (self.plain(alpha, texts)), self.text(right, texts))
                return self.infix(INFIX[operator], self.text(left, texts), scaled)
            if name in _COMMUTES and number(right) is not None and name == "mul":
                left, right = right, left
            return self.infix(INFIX[operator], self.text(left, texts), self.text(right, texts))
        if operator in PREFIX and not options:
            return PREFIX[operator] + bracketed(self.text(value.args[0], texts), UNARY), UNARY
        special = SPECIAL.get(name)
        if special is not None and (found := special(self, value, texts)) is not None:
            return found
        return self._function(value, options, texts)

    def infix(self, operator: str, first: Text, second: Text) -> Text:
        """Brackets as Python needs them, and none where a product or a sum is another's right side."""
        if operator == "@":
            return f"{bracketed(first, UNARY)} @ {bracketed(second, UNARY)}", MATRIX
        strength = STRENGTH[operator]
        tight = operator == "**" or strength == STRENGTH["=="]
        one = bracketed(first, strength + 1 if tight else strength)
        loose = operator in ("*", "+") or (operator == "**" and second[1] != UNARY)
        other = bracketed(second, strength if loose else strength + 1)
        gap = "" if operator == "**" else " "
        return f"{one}{gap}{operator}{gap}{other}", strength

    def _written_out(self, value: Value, texts: dict[Value, Text]) -> Text:
        strength, count, written = WRITTEN_OUT[value.called]
        plain = [arg for arg in value.args[count:] if isinstance(arg, (bool, str)) and arg not in (False, "none")]
        options = [item for item in value.kwargs.values() if item not in (None, "none")]
        if plain or options:
            raise NoFormula(f"{value.called} with options")
        given = [self.text(arg, texts) for arg in value.args[:count]]
        read = [bracketed(text, PRODUCT if place == 0 else ATOM) for place, text in enumerate(given[:2])]
        found = written(*read, *(text for text, _ in given[2:]))
        for word in _WORD.findall(found):
            if word in FUNCTIONS and word not in self.taken:
                self.functions[word] = FUNCTIONS[word]
        if any(word in self.taken for word in FUNCTIONS if re.search(rf"\b{word}\(", found) or word == "pi"):
            raise NoFormula("a variable is called like a function")
        return found, strength

    def _function(self, value: Value, options: dict[str, Any], texts: dict[Value, Text]) -> Text:
        how, dotted = spelled(value.op)
        if how == "kernel":
            raise NoFormula(f"{dotted} has no public name")
        args, named = self._arguments(value, options, texts)
        if how == "method":
            return (
                f"{bracketed(self.text(value.args[0], texts), ATOM)}.{dotted}({', '.join([*args[1:], *named])})",
                ATOM,
            )
        return f"{self.short(dotted)}({', '.join([*args, *named])})", ATOM

    def short(self, dotted: str) -> str:
        """The function's own name, or the dotted one where a variable is called like it."""
        prefix = next(prefix for prefix in _PREFIXES if dotted.startswith(prefix))
        name = dotted.removeprefix(prefix)
        if name in self.taken or "." in name or self.functions.get(name, dotted) != dotted:
            raise NoFormula(f"a variable is called {name}, like a function")
        self.functions[name] = dotted
        return name

    def _arguments(
        self, value: Value, options: dict[str, Any], texts: dict[Value, Text]
    ) -> tuple[list[str], list[str]]:
        schema, given = schema_of(value.op).arguments, list(value.args)
        while given and len(given) <= len(schema) and not any(values_in([given[-1]])):
            argument = schema[len(given) - 1]
            if not argument.has_default_value() or argument.default_value != given[-1]:
                break
            given.pop()
        args, named = [], []
        for place, item in enumerate(given):
            if item is None and place >= 1:
                named.append("")
                continue
            text = self.text(item, texts)[0]
            if place == 1 and isinstance(item, (list, tuple)) and len(item) == 1 and not any(values_in(item)):
                text = self.text(item[0], texts)[0]
            if schema[place].name in _OPTIONS or (named and named[-1] == ""):
                named.append(f"{schema[place].name}={text}")
            else:
                args.append(text)
        for key, item in options.items():
            if key == "dtype" and item in (torch.float64, value.args[0].dtype if _has_dtype(value) else None):
                continue
            named.append(f"{key}={self.text(item, texts)[0]}")
        return args, [one for one in named if one]

    def plain(self, value: Any, texts: dict[Value, Text]) -> Text:
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self.text(item, texts)[0] for item in value)}]", ATOM
        if isinstance(value, torch.dtype):
            self.functions["torch"] = "torch"
            return repr(value), ATOM
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            self.functions["inf"] = "torch.inf"
            return ("inf", ATOM) if value > 0 else ("-inf", UNARY)
        if isinstance(value, float) and value == int(value) and abs(value) < 1e6:
            value = int(value)
        if isinstance(value, (bool, int, float, str)) or value is None:
            if value != value:
                raise NoFormula("a number that is none")
            return repr(value), UNARY if isinstance(value, (int, float)) and value < 0 else ATOM
        raise NoFormula(f"a {type(value).__name__} among the arguments")


def _has_dtype(value: Value) -> bool:
    return bool(value.args) and isinstance(value.args[0], Value)


def _below(value: Value) -> list[Value]:
    return list(values_in((value.args, value.kwargs)))


def _is_tuple(value: Value) -> bool:
    return not isinstance(value.op, str) and value.dtype is None


def is_free(name: str, taken: set[str]) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name not in taken
