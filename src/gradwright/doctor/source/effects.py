"""What a loop does beside computing: training, gradients of a live graph, and effects that forbid to run it again."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gradwright.doctor.source.names import events
from gradwright.doctor.source.statements import Origins

_TRAINING = {"backward", "step", "zero_grad"}

# Modules whose calls reach outside the process, or the clock; of os, what only computes is let through.
_OUTSIDE = {
    "os": "touches the operating system", "subprocess": "starts a process", "shutil": "changes files",
    "socket": "uses the network", "requests": "uses the network", "urllib": "uses the network",
    "http": "uses the network", "logging": "logs", "multiprocessing": "talks to other processes",
    "threading": "starts or waits for threads", "torch.distributed": "talks to other processes",
    "torch.multiprocessing": "talks to other processes", "wandb": "logs", "mlflow": "logs", "signal": "sends signals",
    "matplotlib": "draws", "builtins": "reaches for builtins by name", "importlib": "imports modules",
    "atexit": "registers an exit handler",
}  # fmt: skip
# Of torch.distributed: what only asks this process, and neither sends nor waits.
ASKING = (
    "get_backend", "get_backend_config", "get_default_backend_for_device", "get_global_rank",
    "get_group_rank", "get_node_local_rank", "get_process_group_ranks", "get_rank", "get_world_size", "is_available",
    "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
)  # fmt: skip
_HARMLESS = (
    "os.path.", "os.sep", "os.environ.get", "os.getenv", "os.fspath", "os.cpu_count", "os.getcwd",
    *(f"torch.distributed.{name}" for name in ASKING),
)  # fmt: skip

_CALLS = {
    "print": "prints", "input": "reads from the terminal", "open": "opens a file", "breakpoint": "stops in a debugger",
    "exec": "runs code from a string", "eval": "runs code from a string", "compile": "runs code from a string",
    "locals": "looks at its own variables", "globals": "looks at its own variables",
    "vars": "looks at its own variables", "dir": "looks at its own variables",
    "exit": "ends the program", "quit": "ends the program", "sys.exit": "ends the program",
    "next": "advances an iterator", "setattr": "sets attributes by name", "delattr": "deletes attributes",
    "__import__": "imports modules", "torch.save": "writes a file", "torch.load": "opens a file",
    "numpy.save": "writes a file", "numpy.savez": "writes a file", "numpy.savetxt": "writes a file",
    "pickle.dump": "writes a file", "json.dump": "writes a file", "time.sleep": "sleeps",
    "sys._getframe": "looks at its own variables", "inspect.currentframe": "looks at its own variables",
}  # fmt: skip

_METHODS = {
    "write": "writes", "writelines": "writes", "write_text": "writes a file", "write_bytes": "writes a file",
    "flush": "writes", "unlink": "changes files", "mkdir": "changes files", "rmdir": "changes files",
    "touch": "changes files", "savefig": "writes a file", "to_csv": "writes a file", "send": "sends",
    "sendall": "sends", "recv": "receives", "writerow": "writes", "writerows": "writes", "add_scalar": "logs",
    "add_scalars": "logs", "add_histogram": "logs", "add_image": "logs", "set_description": "prints",
    "set_postfix": "prints", "debug": "logs", "info": "logs", "warning": "logs", "critical": "logs",
}  # fmt: skip

# A function that holds one of these sees the frame's own view of its variables: none may be taken beside it.
FRAMES = {"_getframe", "currentframe"}
OWN_VARIABLES = {"locals", "vars", "dir", "eval", "exec", *FRAMES}


def suspends(nodes: Iterable[ast.AST]) -> bool:
    """Whether the frame may be left in the middle: ``yield``, ``await``, and what awaits without the word."""
    return any(
        isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith))
        or (isinstance(node, ast.comprehension) and node.is_async)
        for node in nodes
    )


def trains(nodes: Iterable[ast.AST]) -> bool:
    """Whether there is a call of ``backward``, ``step`` or ``zero_grad``, bound or not."""
    return any(
        isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr in _TRAINING)
            or (isinstance(node.func, ast.Name) and node.func.id == "zero_grad")
        )
        for node in nodes
    )


def takes_gradients(nodes: Iterable[ast.AST], origins: Origins) -> bool:
    """Whether there is a call of ``torch.autograd.grad``, whatever the file calls it."""
    for node in nodes:
        if isinstance(node, ast.Call):
            dotted = origins.dotted(node.func)
            if dotted.endswith("autograd.grad") or dotted == "grad":
                return True
    return False


def why_not_replayable(loop: ast.stmt, nodes: list[ast.AST], origins: Origins) -> str:
    """Why the loop can't be run again without harm, or apart from its surroundings; "" if nothing speaks against it."""
    happens = list(events([loop], into_functions=False))
    bound = {event.name for event in happens if event.kind == "bind"}
    for event in happens:
        if event.kind == "delete" and event.name not in bound:
            return f"it deletes {event.name}, which is not its own"
    for node in nodes:
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return f"it writes {', '.join(node.names)} outside its function"
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return "it imports modules"
        if isinstance(node, ast.Name) and node.id == "__class__":
            return "it uses the cell __class__ of its method"
        if isinstance(node, ast.Call):
            reason = _why_not(node, origins)
            if reason:
                return f"it {reason} (line {node.lineno}: {_short(node.func)})"
    if suspends(nodes):
        return "it is left in the middle by yield or await"
    return ""


# What outlives a forked child; prints and logs, for one, do not.
_LASTING = {
    "touches the operating system", "starts a process", "changes files", "uses the network", "writes a file", "sends",
    "talks to other processes", "opens a file",
}  # fmt: skip


def lasting_effect(text: str, line: int) -> str:
    """What a class or function defined at ``line`` does that a trial would leave behind; "" if nothing is evident.

    >>> lasting_effect("def f(x):\\n    open('log', 'a').write('x')\\n    return x\\n", 1)
    'opens a file (line 2: open)'
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    defined = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    here = next((node for node in ast.walk(tree) if isinstance(node, defined) and node.lineno == line), None)
    origins = Origins(tree)
    for node in ast.walk(here) if here is not None else ():
        if isinstance(node, ast.Call) and not _only_reads(node, origins):
            reason = _why_not(node, origins)
            if reason in _LASTING:
                return f"{reason} (line {node.lineno}: {_short(node.func)})"
    return ""


def _only_reads(call: ast.Call, origins: Origins) -> bool:
    dotted = origins.dotted(call.func)
    if dotted == "torch.load":
        return True
    modes = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    return dotted == "open" and all(
        isinstance(mode, ast.Constant) and isinstance(mode.value, str) and not set(mode.value) & set("wax+")
        for mode in modes
    )


def _why_not(call: ast.Call, origins: Origins) -> str:
    dotted = origins.dotted(call.func)
    if dotted == "super" and not call.args:
        return "uses the cell __class__ of its method"
    if dotted.endswith("autograd.grad") or dotted == "grad":
        return "needs a live graph"
    if dotted in _CALLS:
        return _CALLS[dotted]
    if dotted and not dotted.startswith(_HARMLESS):
        parts = dotted.split(".")
        if parts[0] not in origins.roots:
            parts = []  # a variable that happens to be called `signal` or `os`
        for length in range(len(parts) - 1, 0, -1):
            reason = _OUTSIDE.get(".".join(parts[:length]))
            if reason:
                return reason
    if not isinstance(call.func, ast.Attribute):
        return ""
    if call.func.attr == "log" and call.args and isinstance(call.args[0], (ast.Constant, ast.JoinedStr)):
        return "logs"  # no logarithm: a metric, by its name
    return _METHODS.get(call.func.attr, "")


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else text[:37] + "..."
