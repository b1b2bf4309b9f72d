"""A loop with a true dependence, inside a Function, moved into a Numba kernel over the tensors' memory.

NOTE [what a kernel is compiled with]
``boundscheck=True``: an index out of range raises IndexError, as in torch; without it memory would be read or written
that is not the tensor's. It costs a tenth of the time, two thirds where a chain of additions is all there is; so it is
left out where every index is shown to be in range, given sizes that are asked before the call (``bounds``). What is too
short is then left to the old loop, which raises where it always did. ``error_model="numpy"``: 1 / 0 is inf, as in
torch; where Python's own numbers would raise, the kernel raises by itself. No ``cache=True``: it writes files beside
the user's script, fails where there is no file (a notebook, ``exec``) or no place to write, and takes constants of a
changed kernel for the old ones as long as the file's time stamp stands. Compiling costs about a second per process.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from gradwright.doctor.rewrite.kernels.buffers import read_buffers
from gradwright.doctor.rewrite.kernels.calling import call_of
from gradwright.doctor.rewrite.kernels.finishing import finished
from gradwright.doctor.rewrite.kernels.neighbours import choices
from gradwright.doctor.rewrite.kernels.placing import Placed, imports_for, module_names, place
from gradwright.doctor.rewrite.kernels.translation import Subject, Translated, translate
from gradwright.doctor.rewrite.kernels.views import Loop
from gradwright.doctor.rewrite.source_text import BOM, DeclinedError, SourceText
from gradwright.doctor.session.proposal import Proposal
from gradwright.doctor.source.liveness import read_after
from gradwright.doctor.source.loops import LoopSite
from gradwright.doctor.source.names import events
from gradwright.doctor.source.seen import Seen
from gradwright.doctor.source.statements import Definition, Origins, definitions

RECORDED = "outside the forward and backward of a Function, autograd may record the loop, and sees nothing of a kernel"


def compile_kernel(source: SourceText, site: LoopSite, seen: Seen) -> tuple[Proposal, ...]:
    """The loop at ``site`` as a kernel, called in its place on the CPU in float32 and float64; else the loop runs.

    Raises: DeclinedError, with one sentence for the user. Cost: a parse of the file, some tenths of a second at most.
    """
    tree = ast.parse(source.text.removeprefix(BOM))
    loop, around = _loop_at(tree, site)
    function = around[-1] if around else None
    if not site.in_function_class or seen.records_graph or not isinstance(function, ast.FunctionDef):
        raise DeclinedError(RECORDED)
    owner = next((one for one in reversed(around) if isinstance(one, ast.ClassDef)), None)
    if owner is None or function.name not in ("forward", "backward") or around[-2] is not owner:
        raise DeclinedError(RECORDED)
    _refuse_batches(owner)
    origins = Origins(tree)
    names = module_names(tree) | {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    if any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(function)):
        raise DeclinedError("its function binds names that are not its own")
    subject = Subject(loop, function, (), origins, _functions(tree), read_buffers(function, loop), frozenset(names))
    placed = _best(tree, source, subject, seen, owner)
    new_text = place(source, tree, around[0], placed)
    method = next(
        f
        for f in source.functions()
        if source.first_line(f) <= loop.lineno <= source.last_line(f) and f.name.value == function.name
    )
    what = f"the loop of {owner.name}.{function.name} is compiled by Numba, on the CPU in float32 and float64"
    proposal = source.proposal("compile_kernel", method, new_text, what)
    return (replace(proposal, lines=_lines(new_text, owner.name, function.name), added=placed.added),)


def _best(tree: ast.Module, source: SourceText, subject: Subject, seen: Seen, owner: ast.ClassDef) -> Placed:
    """With the neighbours of the loop that can go along, if no index needs a check then. Raises: DeclinedError."""
    kernel = _kernel_name(owner, subject.function, subject.loop, set(subject.names))
    for before, after in choices(source, subject.function, subject.loop, seen):
        alone = not before and not after
        try:
            whole = _with_what_is_read_after(tree, replace(subject, before=before, after=after))
            found = translate(whole, seen)
            found.arguments.check_shared(found.stores.written)
            placed, checked = _placed(tree, source, whole, found, kernel, owner)
        except DeclinedError:
            if alone:
                raise
            continue
        if alone or not checked:
            return placed
    raise AssertionError("the loop alone is the last choice")


def _with_what_is_read_after(tree: ast.Module, subject: Subject) -> Subject:
    """Raises: DeclinedError."""
    for node in (node for one in subject.statements for node in ast.walk(one)):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno != node.lineno:
            raise DeclinedError("the loop holds a string of several lines, which can't be indented")
    first, last = subject.statements[0], subject.statements[-1]
    bound = {event.name for event in events(subject.statements, into_functions=False) if event.kind == "bind"}
    read = read_after(tree, first.lineno, last.end_lineno or last.lineno)
    return replace(subject, live_outs=tuple(sorted(bound & read)))


def _loop_at(tree: ast.Module, site: LoopSite) -> tuple[Loop, tuple[Definition, ...]]:
    around: tuple[Definition, ...] = ()
    for one in definitions(tree):
        if one.node.lineno <= site.line <= (one.node.end_lineno or 0) and len(one.around) >= len(around):
            around = (*one.around, one.node)
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.While) and node.lineno == site.line:
            return node, around
    raise DeclinedError("the loop is no statement of its own")


def _refuse_batches(owner: ast.ClassDef) -> None:
    """Under vmap the tensors of such a Function have no memory of their own to hand to a kernel."""
    for node in ast.walk(owner):
        if isinstance(node, ast.Name) and node.id == "generate_vmap_rule":
            raise DeclinedError(
                "the Function lets vmap trace it (generate_vmap_rule), which does not see into a kernel"
            )


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Functions of the module by name, those that nothing else binds."""
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    bound = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    bound += [one.node.name for one in definitions(tree) if not one.around]
    return {name: node for name, node in found.items() if bound.count(name) == 1}


def _kernel_name(owner: ast.ClassDef, function: ast.FunctionDef, loop: Loop, names: set[str]) -> str:
    """A free name; by the loop's number in its function, as the kernel of another loop may come with another fix."""
    words = "".join(
        f"_{letter.lower()}" if letter.isupper() and (not at or not owner.name[at - 1].isupper()) else letter.lower()
        for at, letter in enumerate(owner.name)
    )
    wanted = f"_{words.strip('_')}_{function.name}"
    number = 1 + sum(isinstance(one, Loop) and one.end_lineno < loop.lineno for one in ast.walk(function))  # type: ignore[operator]  # of parsed text
    free = wanted if number == 1 else f"{wanted}_{number}"
    while free in names:
        number += 1
        free = f"{wanted}_{number}"
    return free


def _placed(
    tree: ast.Module, source: SourceText, subject: Subject, found: Translated, kernel: str, owner: ast.ClassDef
) -> tuple[Placed, bool]:
    """Also whether the kernel checks its indices."""
    returned = [*found.outputs, *(name for name in found.stores.lists)]
    codes = list(found.outputs)
    for name in found.stores.lists:
        kept = found.stores.lists[name]
        codes.append(kept.array if found.stores.exact(name) else f"{kept.array}[:{kept.count}]")
    body, checked = finished(subject, found, found.body, codes)
    if codes:
        body.append(ast.parse(f"return {codes[0]}").body[0])
    parameters = [one.parameter for one in sorted(found.arguments.given.values(), key=lambda one: one.tensor is None)]
    text = f"def {kernel}({', '.join(parameters)}): pass"
    definition = ast.parse(text).body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.body = body
    code = ast.unparse(ast.fix_missing_locations(ast.Module([definition], [])))
    code += "".join(f", {one}" for one in codes[1:])
    imports = imports_for(tree, code)
    checks = ", boundscheck=True" if checked else ""
    decorator = f'@{imports.names["numba"]}.njit(error_model="numpy"{checks})'
    for module, own in imports.names.items():
        short = {"numpy": "np"}.get(module, module)
        if own != short:
            code = imports.renamed(code, short, own)
    note = f"# The loop of {owner.name}.{subject.function.name}, compiled when it is first called."
    call = call_of(source, subject, found, kernel, returned, imports.torch)
    return Placed([note, decorator, *code.split("\n")], imports.lines, call), checked


def _lines(text: str, owner: str, function: str) -> tuple[int, int]:
    """Where the method is in the new text."""
    for one in definitions(ast.parse(text.removeprefix(BOM))):
        node = one.node
        if node.name == function and one.around and one.around[-1].name == owner:
            first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            return first, node.end_lineno or first
    raise DeclinedError("the method is not where it was")
