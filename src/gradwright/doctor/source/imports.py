"""The user's own modules, compiled with their loops watched; every other import goes its usual way."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from gradwright.doctor.source.files import SourceFile, parse
from gradwright.doctor.source.loops import LoopSite, find_loops
from gradwright.doctor.source.own_looks import with_looks
from gradwright.doctor.source.transform import HOOK_NAME, instrument
from gradwright.ground.installed import STANDARD, is_installed

OnFile = Callable[[SourceFile, tuple[LoopSite, ...]], int]
OnFailure = Callable[[str, str], None]

_OURS = str(Path(__file__).resolve().parents[2])


def _ignore(path: str, reason: str) -> None:
    pass


class WatchedImports(MetaPathFinder):
    """Watches the loops of modules under ``roots`` from ``install`` to ``remove``, or inside a ``with``.

    ``on_file`` is called once for each file that is compiled, loops or none, and returns the number of its first loop;
    the hook itself is the caller's to put into ``builtins``. ``on_failure(path, reason)`` hears of a file that runs
    unwatched. Bytecode files of watched modules are neither read nor written. Installed packages, virtual environments,
    the standard library, Gradwright itself, zip files and modules with loaders of their own are left alone.
    """

    def __init__(
        self, roots: Sequence[Path], on_file: OnFile, on_failure: OnFailure = _ignore, *, hook_name: str = HOOK_NAME
    ) -> None:
        self.roots = tuple(os.path.realpath(root) for root in roots)
        self.on_file, self.on_failure, self.hook_name = on_file, on_failure, hook_name

    def install(self) -> WatchedImports:
        """Come first among the finders of ``sys.meta_path``."""
        sys.meta_path.insert(0, self)
        return self

    def remove(self) -> None:
        """Leave ``sys.meta_path``; modules that are loaded stay as they are."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]

    def __enter__(self) -> WatchedImports:
        return self.install()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.remove()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the other finders say, with our loader in place of Python's own where the file is watched."""
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or isinstance(finder, WatchedImports) or find is None:
                continue
            spec: ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                self._take_over(spec)
                return spec
        return None

    def _take_over(self, spec: ModuleSpec) -> None:
        origin, loader = spec.origin, spec.loader
        if not origin or not origin.endswith(".py") or not self.watches(origin):
            return
        if type(loader) is SourceFileLoader:
            try:
                spec.loader = _WatchedLoader(loader.name, loader.path, self)
            except (OSError, SyntaxError):
                pass  # Python's own loader says it in Python's own words, with no frame of ours in the traceback
        elif loader is not None:
            self.on_failure(str(Path(origin).absolute()), f"{type(loader).__name__} compiles it in its own way")

    def watches(self, path: str) -> bool:
        """Whether a file is the user's own: under a root, not installed, in no environment, not Python's or ours."""
        real = os.path.realpath(path)
        if _is_under(real, _OURS) or real.startswith(STANDARD) or is_installed(real):
            return False
        folder = str(Path(real).parent)
        return any(_is_under(real, root) and not _in_environment(folder, root) for root in self.roots)

    def compile(self, data: bytes, path: str) -> CodeType:
        """Bytes of a file to code. Raises what Python raises for them."""
        return _compile(data, path, self.on_file, self.on_failure, self.hook_name)


class _WatchedLoader(SourceFileLoader):
    """Python's own loader, with code compiled when the module was found: a fault then leaves no frame of ours."""

    def __init__(self, fullname: str, path: str, watched: WatchedImports) -> None:
        super().__init__(fullname, path)
        self._watched = watched
        self._code: CodeType | None = watched.compile(self.get_data(path), path)

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code, self._code = self._code, None
        return code or self._watched.compile(self.get_data(path), path)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        # Not in exec_module: a frame of ours there would stand in the traceback of whatever the module raises.
        module = ModuleType(spec.name)
        if self._code is not None:
            hand_hook(module, self._code, self._watched.hook_name)
        return module


def hand_hook(module: ModuleType, code: CodeType, hook_name: str = HOOK_NAME) -> None:
    """Give a module whose loops are watched the hook among its own globals, if there is one in ``builtins``.

    NOTE [hook among globals]: torch.compile inlines a watched loop's function, hook and all (which says at once that
    it is being compiled). It can do so with an object of the module's; anything foreign in ``builtins`` it refuses.
    The one in ``builtins`` stays for code that is run with other globals.
    """
    hook = getattr(builtins, hook_name, None)
    if hook is not None and _names(code, hook_name):
        module.__dict__[hook_name] = hook


def _names(code: CodeType, name: str) -> bool:
    """Whether code, or any code inside it, uses a global name."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return name in code.co_names or any(_names(part, name) for part in inner)


def compile_main(
    path: str | Path,
    on_file: OnFile,
    on_failure: OnFailure = _ignore,
    *,
    hook_name: str = HOOK_NAME,
) -> CodeType:
    """The script itself as code with its loops watched, under the file name that Python would give it.

    Raises: OSError; SyntaxError as Python would.
    """
    where = Path(path).absolute()
    return _compile(where.read_bytes(), str(where), on_file, on_failure, hook_name)


def _compile(data: bytes, path: str, on_file: OnFile, on_failure: OnFailure, hook_name: str) -> CodeType:
    try:
        file = parse(data, str(Path(path).absolute()), warn=True)
    except (RecursionError, MemoryError, UnicodeError) as error:
        code = _plainly(data, path)
        on_failure(str(Path(path).absolute()), f"its text could not be read as a syntax tree: {type(error).__name__}")
        return code
    except SyntaxError:
        return _plainly(data, path)  # raises Python's own error, with nothing of ours around it
    sites: tuple[LoopSite, ...] = ()
    try:
        sites = find_loops(file)
        base = on_file(file, sites)
        tree = instrument(with_looks(file, hook_name), sites, hook_name, base=base)
        watched: CodeType = compile(tree, path, "exec", dont_inherit=True)
        return watched
    except (RecursionError, MemoryError, SyntaxError) as error:
        code = _plainly(data, path)
        if sites or isinstance(error, SyntaxError):
            on_failure(file.path, f"its loops could not be watched: {type(error).__name__}: {error}")
        return code


def _plainly(data: bytes, path: str) -> CodeType:
    code: CodeType = compile(data, path, "exec", dont_inherit=True)
    return code


def _is_under(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


@lru_cache(maxsize=4096)
def _in_environment(folder: str, root: str) -> bool:
    """Whether ``folder`` lies in a virtual environment below ``root`` (the root itself may lie in one)."""
    while _is_under(folder, root) and folder != root:
        if Path(folder, "pyvenv.cfg").exists():
            return True
        folder = str(Path(folder).parent)
    return False
