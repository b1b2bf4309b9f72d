"""The text in its forms: two plain functions for ``gw.custom_gradient``, or a class that needs torch alone."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradwright.functions.derive.compose import Parts
from gradwright.functions.derive.wrapping import WIDTH, wrapped


@dataclass(frozen=True)
class Signature:
    """``name`` of the forward; ``parameters``: all its parameters; ``fixed``: those that aren't tensors, with the
    values for which the text holds; ``tensors``: the tensors, in order; ``wanted``: those that get a gradient,
    ``possible``: those that could have one."""

    name: str
    parameters: tuple[str, ...]
    fixed: dict[str, str]
    tensors: tuple[str, ...]
    wanted: tuple[bool, ...]
    possible: tuple[bool, ...]

    @property
    def written(self) -> list[str]:
        """The parameters as they stand in a def: values that are fixed are the defaults, at the end of the row."""
        tail = len(self.parameters)
        while tail and self.parameters[tail - 1] in self.fixed:
            tail -= 1
        return [*self.parameters[:tail], *(f"{name}={self.fixed[name]}" for name in self.parameters[tail:])]

    @property
    def class_name(self) -> str:
        return "".join(part[:1].upper() + part[1:] for part in self.name.split("_")) or "Derived"


def comment(lines: Iterable[str]) -> list[str]:
    return [f"# {part}" for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="  ")]


def indented(lines: Iterable[str], by: int = 1) -> list[str]:
    return ["    " * by + line if line else line for line in lines]


@dataclass(frozen=True)
class SizeGuard:
    """A size at which the text would be wrong: ``test`` finds it, ``said`` is what the error says then; ``inputs``: the
    tensors that the test looks at; ``early``: in the forward, because the backward would raise in any case."""

    test: str
    said: str
    inputs: tuple[str, ...]
    early: bool = False

    @property
    def lines(self) -> list[str]:
        return [f"if {self.test}:", f'    raise ValueError("{self.said}")']


def forward_guards(parts: Parts, sizes: Sequence[SizeGuard]) -> list[SizeGuard]:
    """The guards whose tensors the backward doesn't have: they stand in the forward."""
    return [guard for guard in sizes if guard.early or not set(guard.inputs) <= set(parts.saved)]


def backward_guards(parts: Parts, sizes: Sequence[SizeGuard]) -> list[str]:
    """The statements of the other guards."""
    elsewhere = forward_guards(parts, sizes)
    return [line for guard in sizes if guard not in elsewhere for line in guard.lines]


def fixed_guards(signature: Signature) -> list[str]:
    """Statements that raise for another value of what is no tensor: it is written into the text."""
    found = []
    for name, value in signature.fixed.items():
        test = f"{name} is not {value}" if value in ("None", "True", "False") else f"{name} != {value}"
        found += [f"if {test}:", f'    raise ValueError(f"derived for {name}={_quoted(value)}, got {{{name}!r}}")']
    return found


def guards(parts: Parts, sizes: Sequence[SizeGuard]) -> list[str]:
    """Statements of the forward that raise at sizes for which the text doesn't hold."""
    return [line for guard in forward_guards(parts, sizes) for line in guard.lines]


def _quoted(value: str) -> str:
    return value.replace('"', "'").replace("{", "{{").replace("}", "}}")


def finished(lines: Sequence[str], returned: str) -> list[str]:
    """The statements and the return; a name that is given only to be returned is left out."""
    last = lines[-1] if lines else ""
    once = returned.isidentifier() and not any(used(returned, [line.partition(" = ")[2]]) for line in lines)
    if once and last.startswith(f"{returned} = "):
        return [*lines[:-1], f"return {last.removeprefix(f'{returned} = ')}"]
    return [*lines, *wrapped(f"return {returned}")]


def gradients_text(gradients: Iterable[str | None]) -> str:
    return ", ".join(str(gradient) for gradient in gradients)


def residual_names(parts: Parts, signature: Signature) -> dict[str, str]:
    """What the forward hands over, beside inputs and the output: name in the backward, expression in the forward."""
    found = {name: text for name, text in parts.kept.items() if name not in (*signature.tensors, "output")}
    return found | {name: f"{tensor}.shape" for name, tensor in parts.told.items()}


def plain_forward(parts: Parts, signature: Signature, sizes: Sequence[SizeGuard]) -> list[str]:
    """The forward as a plain function, with its residuals."""
    handed = residual_names(parts, signature)
    returned = parts.returned
    if handed:
        if len(parts.outputs) > 1:
            returned = f"({returned})" if not returned.startswith(("[", "{")) else returned
        returned += ", gw.residuals(" + ", ".join(f"{name}={text}" for name, text in handed.items()) + ")"
    body = [*guards(parts, sizes), *finished(parts.forward, returned)]
    return [*wrapped(f"def {signature.name}({', '.join(signature.written)}):"), *indented(body)]


def plain_backward(parts: Parts, signature: Signature, sizes: Sequence[SizeGuard]) -> list[str]:
    """The backward as a plain function: ``backward(grad_output, <names saved>)``."""
    names = [*parts.saved, *parts.told, *signature.fixed]
    lines = wrapped(f"def {signature.name}_backward({', '.join(['grad_output', *names])}):")
    body = [*fixed_guards(signature), *backward_guards(parts, sizes), *parts.unpacked, *parts.shared]
    for place in sorted(parts.single):
        body += parts.single[place]
    gradients = [
        "NotImplemented" if possible and not wanted else gradient
        for gradient, wanted, possible in zip(parts.gradients, signature.wanted, signature.possible, strict=True)
    ]
    return [*lines, *indented(_commented(finished(body, gradients_text(gradients)), parts))]


def _commented(body: Sequence[str], parts: Parts) -> list[str]:
    """The body, with a comment before the first call of each fused kernel."""
    waiting = dict(parts.kernels)
    found: list[str] = []
    for line in body:
        for packet in [packet for packet in waiting if f"torch.ops.aten.{packet}(" in line]:
            indent = line[: len(line) - len(line.lstrip())]
            found.append(f"{indent}# {packet}: {waiting.pop(packet)}")
        found.append(line)
    return found


def function_class(parts: Parts, signature: Signature, sizes: Sequence[SizeGuard]) -> list[str]:
    """The class, importing torch alone.

    With inputs and outputs saved it is in the style of ``setup_context``, so that torch.func and vmap work; with other
    residuals, forward and context are one, and a second backward raises.
    """
    alone = all(text in (*signature.tensors, *parts.outputs) for text in parts.kept.values())
    lines = [f"class {signature.class_name}(torch.autograd.Function):"]
    saved = ", ".join(parts.kept.values())
    shapes = [f"ctx.{name} = {tensor}.shape" for name, tensor in parts.told.items()]
    body: list[str] = []
    if alone:
        body += ["generate_vmap_rule = True", ""]
        body += ["@staticmethod", *wrapped(f"def forward({', '.join(signature.written)}):")]
        body += indented([*fixed_guards(signature), *guards(parts, sizes), *finished(parts.forward, parts.returned)])
        keep = ", ".join("output" if name == "output" else text for name, text in parts.kept.items())
        names = ", ".join(name if used(name, [*shapes, keep]) else "_" for name in signature.parameters)
        context = (
            [f"{names}{',' if len(signature.parameters) == 1 else ''} = inputs"] if set(names) - set("_, ") else []
        )
        if len(parts.outputs) > 1 and any(
            text in parts.outputs and text not in signature.tensors for text in parts.kept.values()
        ):
            outputs = [text if text in parts.kept.values() and text not in signature.tensors else "_"
                       for text in parts.outputs]  # fmt: skip
            context.append(f"{', '.join(outputs)} = output")
        context += [f"ctx.save_for_backward({keep})"] if keep else []
        body += [
            "",
            "@staticmethod",
            "def setup_context(ctx, inputs, output):",
            *indented([*context, *shapes] or ["pass"]),
        ]
    else:
        body += ["@staticmethod", *wrapped(f"def forward({', '.join(['ctx', *signature.written])}):")]
        body += indented([*fixed_guards(signature), *guards(parts, sizes), *parts.forward])
        body += indented([f"ctx.save_for_backward({saved})", *shapes, f"return {parts.returned}"])
    body += ["", "@staticmethod"]
    if not alone:
        body.append("@torch.autograd.function.once_differentiable  # what was saved has no graph of its own")
    body += backward_method(parts, signature, sizes)
    return [*lines, *indented(body)]


def used(name: str, lines: Iterable[str]) -> bool:
    return any(re.search(rf"(?<![\w.]){name}\b", line) for line in lines)


def backward_method(parts: Parts, signature: Signature, sizes: Sequence[SizeGuard]) -> list[str]:
    body: list[str] = []
    if parts.saved:
        names = ", ".join(parts.saved)
        body.append(f"({names},) = ctx.saved_tensors" if len(parts.saved) == 1 else f"{names} = ctx.saved_tensors")
    body += [f"{name} = ctx.{name}" for name in parts.told]
    body += backward_guards(parts, sizes)
    place_of = {name: place for place, name in enumerate(signature.parameters)}
    for name, wanted, possible in zip(signature.tensors, signature.wanted, signature.possible, strict=True):
        if possible and not wanted:
            body += [f"if ctx.needs_input_grad[{place_of[name]}]:",
                     f'    raise NotImplementedError("derived without a gradient for {name}")']  # fmt: skip
    body += parts.shared
    result = dict(zip(signature.tensors, parts.gradients, strict=True))
    if sum(gradient is not None for gradient in parts.gradients) == 1:
        for lines in parts.single.values():
            body += lines
    else:
        body += _guarded(parts, signature, place_of, result)
    body = finished(body, gradients_text(result.get(name) for name in signature.parameters))
    return [f"def backward(ctx, {', '.join(parts.cotangents)}):", *indented(_commented(body, parts))]


def _guarded(parts: Parts, signature: Signature, place_of: dict[str, int], result: dict[str, str | None]) -> list[str]:
    """What one gradient alone needs, done only if its input needs a gradient."""
    blocks, started = [], []
    for place, lines in parts.single.items():
        name, gradient = signature.tensors[place], parts.gradients[place]
        if not lines and (gradient is None or gradient.isidentifier()):
            continue
        own = list(lines)
        if gradient != f"grad_{name}":
            own.append(f"grad_{name} = {gradient}")
        result[name] = f"grad_{name}"
        started.append(f"grad_{name}")
        blocks += [f"if ctx.needs_input_grad[{place_of[name]}]:", *indented(own)]
    return [*([f"{' = '.join(started)} = None"] if started else []), *blocks]
