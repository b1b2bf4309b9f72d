"""The user's modules are watched, everything else is imported as ever, and nobody can tell."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import inspect
import os
import pickle
import runpy
import subprocess
import sys
import traceback
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradwright.doctor.source.files import SourceFile
from gradwright.doctor.source.imports import WatchedImports, compile_main
from gradwright.doctor.source.loops import LoopSite
from gradwright.doctor.source.transform import HOOK_NAME

LOOP = "def f(x):\n    for i in range(len(x)):\n        x[i] = x[i] + 1\n    return x\n"


class Project:
    """A folder on the path, watched; what was reported of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: list[tuple[str, int]] = []
        self.failures: list[tuple[str, str]] = []
        self.entered: list[int] = []
        self.finder = WatchedImports((root,), self.on_file, self.on_failure)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        importlib.invalidate_caches()
        return path

    def on_file(self, file: SourceFile, sites: tuple[LoopSite, ...]) -> int:
        self.files.append((str(Path(file.path).relative_to(os.path.realpath(self.root))), len(sites)))
        return 10 * len(self.files)

    def on_failure(self, path: str, reason: str) -> None:
        self.failures.append((Path(path).name, reason))

    def enter(self, number: int) -> bool:
        self.entered.append(number)
        return False

    def record(self, number: int, names: dict[str, Any]) -> None:
        raise AssertionError("nobody asked")

    def leave(self, number: int) -> None:
        pass


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    root = Path(os.path.realpath(tmp_path)) / "home"
    root.mkdir()
    project = Project(root)
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.setattr(builtins, HOOK_NAME, project, raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = set(sys.modules)
    project.finder.install()
    yield project
    project.finder.remove()
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def load(name: str) -> Any:
    return importlib.import_module(name)


def test_a_module_of_the_users_is_watched(project: Project):
    project.write("gwt_plain.py", LOOP)
    assert load("gwt_plain").f([1, 2]) == [2, 3]
    assert project.files == [("gwt_plain.py", 1)]
    assert project.entered == [10]


def test_files_without_loops_are_told_too(project: Project):
    project.write("gwt_none.py", "x = 1\n")
    load("gwt_none")
    assert project.files == [("gwt_none.py", 0)]


def test_packages_relative_imports_and_namespace_packages_work(project: Project):
    project.write("gwt_pack/__init__.py", "from .ops import f\n")
    project.write("gwt_pack/ops.py", "from . import more\n" + LOOP)
    project.write("gwt_pack/more.py", "parent = __package__\n")
    project.write("gwt_space/inner.py", LOOP)
    assert load("gwt_pack").f([1]) == [2]
    assert load("gwt_pack.more").parent == "gwt_pack"
    assert load("gwt_space.inner").f([1]) == [2]
    assert load("gwt_space").__file__ is None
    assert len(project.entered) == 2


def test_a_module_looks_as_it_always_does(project: Project):
    path = project.write("gwt_looks.py", '"""Doc."""\n' + LOOP + "class A:\n    x = 1\n")
    watched = load("gwt_looks")
    facts = {key: value for key, value in vars(watched).items() if key not in ("__builtins__", HOOK_NAME)}
    source, text = inspect.getsource(watched.f), watched.__loader__.get_source("gwt_looks")
    assert pickle.loads(pickle.dumps(watched.A)) is watched.A
    project.finder.remove()
    del sys.modules["gwt_looks"]
    plain = load("gwt_looks")
    assert set(facts) == set(vars(plain)) - {"__builtins__"}
    assert (watched.__file__, watched.__cached__, watched.__doc__) == (plain.__file__, plain.__cached__, plain.__doc__)
    assert repr(watched) == repr(plain) and str(path) in repr(plain)
    assert source == inspect.getsource(plain.f) and text == plain.__loader__.get_source("gwt_looks")
    assert (watched.__spec__.origin, watched.__spec__.has_location) == (plain.__spec__.origin, True)
    assert watched.f.__code__.co_filename == plain.f.__code__.co_filename


def test_bytecode_files_are_neither_written_nor_read(project: Project):
    path = project.write("gwt_cache.py", LOOP)
    load("gwt_cache")
    cached = Path(importlib.util.cache_from_source(str(path)))
    assert not cached.exists()
    project.finder.remove()
    del sys.modules["gwt_cache"]
    load("gwt_cache")
    before = cached.read_bytes()
    del sys.modules["gwt_cache"]
    project.finder.install()
    load("gwt_cache").f([1])
    assert cached.read_bytes() == before
    assert len(project.entered) == 1


def test_reload_takes_the_new_text(project: Project):
    path = project.write("gwt_again.py", LOOP)
    module = load("gwt_again")
    path.write_text(LOOP.replace("+ 1", "+ 100"))
    assert importlib.reload(module).f([1]) == [101]
    assert [sites for _, sites in project.files] == [1, 1]


def test_running_a_module_of_a_package_as_main_is_watched(project: Project):
    project.write("gwt_run/__init__.py", "")
    project.write("gwt_run/__main__.py", "from . import train\n")
    project.write("gwt_run/train.py", LOOP + "result = f([1, 2]), __name__\n")
    assert runpy.run_module("gwt_run.train", run_name="__main__")["result"] == ([2, 3], "__main__")
    assert len(project.entered) == 1


@pytest.mark.parametrize("place", ["site-packages", "venv/lib", "lib/dist-packages"])
def test_installed_packages_and_environments_are_left_alone(place: str, project: Project, monkeypatch):
    project.write("venv/pyvenv.cfg", "home = /usr\n")
    project.write(f"{place}/gwt_installed.py", LOOP)
    monkeypatch.syspath_prepend(str(project.root / place))
    assert load("gwt_installed").f([1]) == [2]
    assert type(load("gwt_installed").__loader__) is importlib.machinery.SourceFileLoader
    assert project.files == []
    del sys.modules["gwt_installed"]


def test_modules_outside_the_roots_of_the_standard_library_and_ours_are_left_alone(
    project: Project, tmp_path, monkeypatch
):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "gwt_else.py").write_text(LOOP)
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    load("gwt_else")
    assert project.files == []
    everywhere = WatchedImports((Path("/"),), project.on_file, project.on_failure)
    assert everywhere.watches(str(tmp_path / "elsewhere" / "gwt_else.py"))
    assert not everywhere.watches(os.__file__)
    assert not everywhere.watches(inspect.getsourcefile(WatchedImports) or "")
    assert not everywhere.watches(pytest.__file__)


def test_a_root_inside_an_environment_is_the_users_own(tmp_path):
    (tmp_path / "pyvenv.cfg").write_text("")
    (tmp_path / "project").mkdir()
    watched = WatchedImports((tmp_path / "project",), lambda file, sites: 0)
    assert watched.watches(str(tmp_path / "project" / "train.py"))


def test_zip_files_are_left_alone(project: Project, monkeypatch):
    with zipfile.ZipFile(project.root / "code.zip", "w") as archive:
        archive.writestr("gwt_zipped.py", LOOP)
    monkeypatch.syspath_prepend(str(project.root / "code.zip"))
    assert load("gwt_zipped").f([1]) == [2]
    assert project.files == []
    del sys.modules["gwt_zipped"]


def test_a_module_that_is_not_there_is_not_there(project: Project):
    with pytest.raises(ModuleNotFoundError, match="No module named 'gwt_nowhere'"):
        load("gwt_nowhere")
    assert importlib.util.find_spec("gwt_nowhere") is None


@pytest.mark.parametrize(
    "text", ["def f(:\n", "return 1\n", b"x = 'caf\xe9'\n", "x = 1\nfor i in x:\n    break\nelse:\n    continue\n"]
)
def test_a_syntax_error_reads_as_it_always_does(project: Project, text):
    project.write("gwt_broken.py", text)
    project.write("gwt_importer.py", "import gwt_broken\n")

    def report() -> str:
        with pytest.raises(SyntaxError) as caught:
            load("gwt_importer")
        return "".join(traceback.format_exception(caught.value))

    watched = report()
    project.finder.remove()
    assert watched == report()
    assert project.failures == []


def test_an_exception_while_importing_reads_as_it_always_does(project: Project):
    project.write("gwt_raising.py", "def f(x):\n    for i in range(9):\n        x[i]\nf([1])\n")
    project.write("gwt_importing.py", "import gwt_raising\n")

    def report() -> str:
        with pytest.raises(IndexError) as caught:
            load("gwt_importing")
        return "".join(traceback.format_exception(caught.value))

    watched = report()
    project.finder.remove()
    assert watched == report()


def test_what_can_not_be_watched_runs_unwatched_and_is_reported(project: Project):
    # A loop in 20 blocks is all that Python allows; one more for the watching is too many.
    depth = 19
    nest = "import contextlib\nc = contextlib.nullcontext()\nrows = [0]\n"
    nest += "".join(f"{' ' * k}with c:\n" for k in range(depth)) + " " * depth + "for x in rows: pass\n"
    project.write("gwt_deep.py", nest)
    assert load("gwt_deep").x == 0
    assert [name for name, _ in project.failures] == ["gwt_deep.py"]
    assert "nested" in project.failures[0][1]


def test_an_expression_too_deep_for_the_tree_runs_and_is_reported_if_there_are_loops(project: Project):
    deep = "y = " + " + ".join(["1"] * 2500) + "\n"
    project.write("gwt_sum.py", deep)
    project.write("gwt_sum_loop.py", deep + LOOP)
    assert load("gwt_sum").y == 2500
    assert load("gwt_sum_loop").f([1]) == [2]
    assert [name for name, _ in project.failures] == ["gwt_sum_loop.py"]


def test_a_loader_of_someone_elses_is_respected_and_reported(project: Project):
    project.write("gwt_rewritten.py", LOOP)

    class Rewriting(importlib.machinery.SourceFileLoader):
        pass

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name != "gwt_rewritten":
                return None
            return importlib.util.spec_from_file_location(
                name, project.root / "gwt_rewritten.py", loader=Rewriting(name, str(project.root / "gwt_rewritten.py"))
            )

    sys.meta_path.insert(1, Finder())
    try:
        module = load("gwt_rewritten")
    finally:
        sys.meta_path.pop(1)
    assert type(module.__loader__) is Rewriting
    assert project.failures == [("gwt_rewritten.py", "Rewriting compiles it in its own way")]


def test_odd_text_is_compiled_as_python_does(project: Project):
    project.write("gwt_odd.py", b"\xef\xbb\xbf# bom\r\nx = '\xc3\xa9'\r\nfor i in [0]:\r\n\ty = x[i]\r\n")
    project.write("gwt_latin.py", "# coding: latin-1\nx = 'é'\nfor i in [0]: y = x[i]\n".encode("latin-1"))
    project.write("gwt_empty.py", b"")
    assert load("gwt_odd").y == load("gwt_latin").y == "é"
    load("gwt_empty")


def test_a_warning_of_the_parser_comes_once(project: Project):
    project.write("gwt_escape.py", "x = '\\d'\nfor i in [0]: y = x[i]\n")
    with pytest.warns((DeprecationWarning, SyntaxWarning)) as seen:
        load("gwt_escape")
    assert len(seen) == 1


def test_the_script_is_compiled_under_its_own_name(project: Project, tmp_path):
    path = project.write("train.py", LOOP + "result = f([1])\n")
    names: dict[str, Any] = {"__name__": "__main__"}
    code = compile_main(path, project.on_file, project.on_failure)
    exec(code, names)
    assert code.co_filename == str(path)
    assert names["result"] == [2] and project.entered == [10]


def test_a_script_with_a_syntax_error_or_missing_raises(project: Project):
    with pytest.raises(SyntaxError, match="was never closed"):
        compile_main(project.write("bad.py", "f(\n"), project.on_file)
    with pytest.raises(FileNotFoundError):
        compile_main(project.root / "nobody.py", project.on_file)
    assert project.files == []


def test_with_and_remove_leave_the_path_as_it_was(tmp_path):
    before = list(sys.meta_path)
    with WatchedImports((tmp_path,), lambda file, sites: 0) as finder:
        assert sys.meta_path[0] is finder
    assert sys.meta_path == before


def test_no_torch_is_imported_by_this_room():
    program = (
        "import sys, gradwright.doctor.source.imports, gradwright.doctor.source.reading; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
