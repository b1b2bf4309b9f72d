"""A kernel's source becomes machine code, or a reason why not."""

import math
import sys
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernels.machine.by_hand import Call, begun, python, scaled, times

from gradwright.kernels.machine import compiling, first_kernel, lowering, objects
from gradwright.kernels.machine.compiling import NoMachineCode, kernel
from gradwright.kernels.machine.processor import Processor, _llvm, object_code, parsed, processor

UNTYPED = "def kernel(parameters):\n    return parameters.nothing\n"


def forget() -> None:
    """As a new process would."""
    compiling._kernels.clear()


def test_a_kernel_computes() -> None:
    assert Call().run(kernel(scaled(3), "triple")) == times(3)


def test_a_kernel_is_compiled_then_from_memory_then_from_disk() -> None:
    first, second = kernel(scaled(3), "triple"), kernel(scaled(3), "triple")
    forget()
    third = kernel(scaled(3), "triple")
    assert [each.origin for each in (first, second, third)] == ["compiled", "memory", "disk"]
    assert (first.seconds > 0, second.seconds, third.seconds > 0) == (True, 0, True)
    assert Call().run(second) == Call().run(third) == times(3)


def test_kernels_of_different_sources_are_different() -> None:
    three, four = kernel(scaled(3), "triple"), kernel(scaled(4), "fourfold")
    assert three.key != four.key
    assert (Call().run(three), Call().run(four)) == (times(3), times(4))


@pytest.mark.parametrize("what", ["source", "processor", "features", "version"])
def test_object_code_is_kept_apart_by_all_that_it_depends_on(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiling._key(scaled(3))
    assert compiling._key(scaled(3)) == before
    this = processor()
    if what == "processor":
        monkeypatch.setattr(compiling, "processor", lambda: Processor(this.triple, "i486", this.features))
    if what == "features":
        monkeypatch.setattr(compiling, "processor", lambda: Processor(this.triple, this.name, "-avx"))
    if what == "version":
        monkeypatch.setattr(compiling, "_versions", lambda: ("3.11", "0.99", "0.99", "another text of instructions"))
    assert compiling._key(scaled(4 if what == "source" else 3)) != before


def test_nothing_is_imported_before_a_kernel_is_wanted() -> None:
    ran = python(
        "import sys; from gradwright.kernels.machine import compiling, objects, pool; compiling.available();"
        "print([name for name in ('torch', 'numba', 'llvmlite') if name in sys.modules])"
    )
    assert ran.stdout == "[]\n", ran.stderr


def test_a_process_that_finds_its_kernel_on_disk_does_not_import_what_compiles_it() -> None:
    kernel(scaled(3), "triple")
    ran = python(
        "import sys; from tests.kernels.machine.by_hand import *; from gradwright.kernels.machine.compiling import *\n"
        "found = kernel(scaled(3), 'triple')\n"
        "compilers = {'numba', 'gradwright.kernels.machine.lowering'}\n"
        "print(found.origin, compilers & set(sys.modules), Call().run(found) == times(3))"
    )
    assert ran.stdout == "disk set() True\n", ran.stderr


def test_compiling_says_nothing_and_warns_of_nothing() -> None:
    ran = python(
        "from tests.kernels.machine.by_hand import *; from gradwright.kernels.machine.compiling import *\n"
        "assert Call().run(kernel(scaled(3), 'triple'), 2) == times(3)",
        "-Werror",
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize("origin", ["compiled", "disk"])
def test_float64_functions_are_those_of_the_mathematical_library(origin: str) -> None:
    source = "def kernel(parameters):\n    store_f64_0(parameters, 1, exp(real_word(parameters, 0)))\n"
    if origin == "disk":
        kernel(source, "exp")
        forget()
    found = kernel(source, "exp")
    words = array("d", [1.25, 0.0])
    found(words.buffer_info()[0])
    assert found.origin == origin
    assert math.isclose(words[1], math.exp(1.25), rel_tol=4e-16)


def test_what_kernels_can_not_do_is_refused_with_its_reason_and_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(
        NoMachineCode, match=r"could not be compiled: NotInKernels: line 2: .*parameters\.nothing"
    ) as first:
        kernel(UNTYPED, "nothing")
    monkeypatch.setattr(compiling, "_made", lambda *_: pytest.fail("tried again"))
    with pytest.raises(NoMachineCode) as second:
        kernel(UNTYPED, "nothing")
    assert str(first.value) == str(second.value)


def test_a_function_that_the_process_lacks_is_an_exception_and_not_its_end(capfd: pytest.CaptureFixture[str]) -> None:
    text = "declare void @not_of_this_process()\ndefine void @f() {\n call void @not_of_this_process()\n ret void\n}"
    with pytest.raises(RuntimeError):
        compiling.addresses(text, ("f",))
    assert capfd.readouterr() == ("", "")


def test_object_code_that_can_not_be_loaded_here_is_compiled_anew() -> None:
    key = compiling._key(scaled(3))
    text = "declare void @absent()\ndefine void @gradwright_kernel(i64 %p) {\n call void @absent()\n ret void\n}"
    objects.keep(key, object_code(parsed(text)), scaled(3))
    found = kernel(scaled(3), "triple")
    assert (found.origin, Call().run(found)) == ("compiled", times(3))
    forget()
    assert kernel(scaled(3), "triple").origin == "disk"


def test_without_llvmlite_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    compiling._llvmlite_unfit.cache_clear()
    with monkeypatch.context() as inside:
        inside.setitem(sys.modules, "llvmlite", None)
        with pytest.raises(NoMachineCode, match=r"^llvmlite is not installed \(pip install llvmlite\)$"):
            kernel(scaled(3), "triple")
    compiling._llvmlite_unfit.cache_clear()
    assert kernel(scaled(3), "triple").origin == "compiled"


def test_an_old_llvmlite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    compiling._llvmlite_unfit.cache_clear()
    with monkeypatch.context() as inside:
        inside.setattr(compiling, "_version_of_llvmlite", lambda: "0.44.1")
        assert compiling.available() == "llvmlite 0.44.1 is too old: 0.50 or later is needed"
    compiling._llvmlite_unfit.cache_clear()
    assert compiling.available() is None


@pytest.fixture
def newer_llvmlite(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An llvmlite that says it is of a version the tests have not met."""
    monkeypatch.setattr(compiling, "_version_of_llvmlite", lambda: "0.99.0")
    compiling._find_fault_of_llvmlite.cache_clear()
    yield
    compiling._find_fault_of_llvmlite.cache_clear()


@pytest.mark.usefixtures("newer_llvmlite")
def test_a_newer_llvmlite_that_compiles_right_is_used() -> None:
    assert Call().run(kernel(scaled(3), "triple")) == times(3)


@pytest.mark.usefixtures("newer_llvmlite")
def test_a_newer_llvmlite_that_compiles_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_kernel, "SOURCE", first_kernel.SOURCE.replace("x < half", "x > half"))
    with pytest.raises(NoMachineCode, match=r"^llvmlite 0\.99\.0 is newer than .* and fails: element 0 .* not 1\.0$"):
        kernel(scaled(3), "triple")


@pytest.mark.usefixtures("newer_llvmlite")
def test_a_newer_llvmlite_that_lacks_a_name_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(_llvm(), "create_pass_builder")
    with pytest.raises(NoMachineCode, match=r"fails: AttributeError: .*create_pass_builder"):
        kernel(scaled(3), "triple")


def test_threads_that_ask_at_once_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, start, results, origins = [], threading.Barrier(8), [], []
    truly = lowering.lowered
    monkeypatch.setattr(lowering, "lowered", lambda *given: (compiled.append(given), truly(*given))[1])  # type: ignore[func-returns-value]

    def ask() -> None:
        start.wait()
        triple = kernel(scaled(3), "triple")
        origins.append(triple.origin)
        results.append(Call().run(triple, 2))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled) == 1
    assert sorted(origins) == ["compiled"] + ["memory"] * 7
    assert results == [times(3)] * 8


def test_processes_that_compile_at_once_into_an_empty_cache_are_both_right(cache: Path) -> None:
    script = (
        "from tests.kernels.machine.by_hand import *; from gradwright.kernels.machine.compiling import *\n"
        "print(all(Call().run(kernel(scaled(k), 'k')) == times(k) for k in range(4)))"
    )
    processes = [begun(script) for _ in range(2)]
    assert [process.communicate()[0] for process in processes] == ["True\n"] * 2
    assert sorted(path.suffix for path in cache.iterdir()) == [".o"] * 4 + [".py"] * 4
    assert all(kernel(scaled(k), "k").origin == "disk" for k in range(4))
