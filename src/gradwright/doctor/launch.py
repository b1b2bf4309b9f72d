"""Run a program as ``python`` itself would: its main module, its argv, its path, its exit code."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import runpy
import sys
import threading
import tokenize
import traceback
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwright.doctor.source.imports import hand_hook
from gradwright.errors import UsageError
from gradwright.ground.installed import is_installed

_OURS = str(Path(__file__).resolve().parents[1]) + os.sep


@dataclass(frozen=True)
class Program:
    """What is run: ``path`` is the file of the main module, ``spec`` its module spec under ``-m``."""

    path: str
    argv: tuple[str, ...]
    path0: str
    roots: tuple[Path, ...]
    package: str | None = None
    spec: importlib.machinery.ModuleSpec | None = None


def find_program(target: str, *, module: bool, arguments: Sequence[str]) -> Program:
    """Raises ``UsageError`` where there is no such script or module."""
    here = Path.cwd()
    if module:
        return _find_module(target, here, arguments)
    path = Path(target)
    if path.is_dir():
        if not (path / "__main__.py").is_file():
            raise UsageError(f"{target} is a directory without a __main__.py; name the script in it that should run")
        main = (path / "__main__.py").resolve()
        return Program(str(main), (target, *arguments), str(path.resolve()), (main.parent, here), package="")
    if not path.is_file():
        raise UsageError(f"there is no script {target} (in {here})")
    real = path.resolve()
    return Program(str(path.absolute()), (target, *arguments), str(real.parent), (real.parent, here))


def _find_module(name: str, here: Path, arguments: Sequence[str]) -> Program:
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(name + ".__main__")
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"no module named {name} can be run: {error}") from None
    if spec is None or spec.origin is None:
        raise UsageError(f"there is no module {name} that can be run (from {here})")
    return Program(spec.origin, (spec.origin, *arguments), str(here), (here,), spec.parent, spec)


def run_program(program: Program, compile_main: Callable[[str], Any], on_death: Callable[[BaseException], None]) -> int:
    """Run to the end, threads included, and return the exit code that ``python`` would have had.

    An exception is shown as Python shows it, less the frames that are ours, after ``on_death`` has seen it.
    """
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __file__=program.path, __package__=program.package)
    if sys.version_info < (3, 14):  # later ones make it when it is asked for
        main.__dict__.update(__annotations__={})
    if program.spec is not None:
        main.__spec__, main.__loader__ = program.spec, program.spec.loader
        main.__dict__["__cached__"] = program.spec.cached
    else:
        main.__dict__["__cached__"] = None
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", program.path)
        main.__spec__ = None
    sys.modules["__main__"] = main
    sys.argv[:] = program.argv
    sys.path[:] = [program.path0, *(entry for entry in sys.path if entry != program.path0)]
    pid = os.getpid()
    code = 0
    try:
        body = _code_of(program, compile_main)
        hand_hook(main, body)
        exec(body, main.__dict__)  # the user's script: running it is the point
    except SystemExit as leaving:
        code = _exit_code(leaving)
    except BaseException as error:
        on_death(error)
        from gradwright.doctor.observe.clock import StoppedEarly

        if isinstance(error, StoppedEarly):
            code = 0
        else:
            _show(error)
            code = 130 if isinstance(error, KeyboardInterrupt) else 1
    if os.getpid() != pid:
        return code
    with contextlib.suppress(KeyboardInterrupt):
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
    return code


def _code_of(program: Program, compile_main: Callable[[str], Any]) -> Any:
    if program.spec is not None and not program.path.endswith(".py"):
        return program.spec.loader.get_code(program.spec.name)  # type: ignore[union-attr]  # zip or bytecode only
    if program.spec is not None and is_installed(os.path.realpath(program.path)):
        return runpy._get_module_details(program.spec.name)[2]  # type: ignore[attr-defined]  # as `python -m` does
    check_encoding(program.path)
    return compile_main(program.path)


def check_encoding(path: str) -> None:
    """Raises: SyntaxError, in Python's words, where a file read by Python would; from bytes it lets comments pass."""
    data = Path(path).read_bytes()
    encoding, _ = tokenize.detect_encoding(iter(data.splitlines(keepends=True)).__next__)
    if not encoding.startswith("utf-8"):
        return
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            line.decode(encoding)
        except UnicodeDecodeError as error:
            code = f"Non-UTF-8 code starting with '\\x{line[error.start]:02x}' on line {number}"
            why = f"{code}, but no encoding declared; see https://peps.python.org/pep-0263/ for details"
            raise SyntaxError(why, (path, number, 0, "")) from None


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    print(leaving.code, file=sys.stderr)
    return 1


def _show(error: BaseException) -> None:
    """Through ``sys.excepthook``, which may be the user's own, as Python would have shown it without us.

    A fault of ours is shown by the command, at its end.
    """
    from gradwright.doctor.observe.guard import is_own_fault

    if is_own_fault(error):
        return
    _without_our_frames(error)
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception:
        traceback.print_exception(type(error), error, error.__traceback__)
    with contextlib.suppress(Exception):
        sys.stderr.flush()


def _without_our_frames(error: BaseException | None) -> None:
    """Take the frames of the watching out of the tracebacks of an exception and of those it came from."""
    seen = set()
    front = [error]
    while front:
        item = front.pop()
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        front += [item.__cause__, item.__context__]
        theirs = []
        link = item.__traceback__
        while link is not None:
            if not link.tb_frame.f_code.co_filename.startswith(_OURS):
                theirs.append(link)
            link = link.tb_next
        chain = None
        for link in reversed(theirs):
            chain = types.TracebackType(chain, link.tb_frame, link.tb_lasti, link.tb_lineno)
        item.__traceback__ = chain


def on_import_of_torch(call: Callable[[], None]) -> Callable[[], None]:
    """Call once, right after ``torch`` has been imported (at once if it is loaded). Returns what takes the wait back.

    Waiting, not importing: a script may set OMP_NUM_THREADS or CUDA_VISIBLE_DEVICES before its own import of torch.
    """
    return on_import_of("torch", call)


def on_import_of(module_name: str, call: Callable[[], None]) -> Callable[[], None]:
    """The same for any module."""
    if module_name in sys.modules:
        call()
        return lambda: None

    class Waiter:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
            if name != module_name:
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(module_name)
            if spec is not None and spec.loader is not None:
                loader = spec.loader
                execute = loader.exec_module

                def exec_module(module: types.ModuleType) -> None:
                    vars(loader).pop("exec_module", None)  # taken back: the loader lives as long as the module
                    execute(module)
                    call()

                loader.exec_module = exec_module  # type: ignore[method-assign]  # this one import only
            return spec

    waiter = Waiter()
    sys.meta_path.insert(0, waiter)

    def stop() -> None:
        if waiter in sys.meta_path:
            sys.meta_path.remove(waiter)

    return stop


def half_imported(module_name: str) -> bool:
    """Whether an import of the module began and was cut short: by an interruption, by an error of its own."""
    module = sys.modules.get(module_name)
    if module is not None:
        return bool(getattr(module.__spec__, "_initializing", False))
    return any(name.startswith(module_name + ".") for name in list(sys.modules))
