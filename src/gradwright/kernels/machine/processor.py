"""This processor, as LLVM knows it: LLVM's modules become object code for it, object code becomes addresses.

Everything here needs llvmlite, which is imported at the first use (about 25 ms).
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

ENTRY: Final = "gradwright_kernel"  # what the one function of a kernel's object code is called

_NUMBERS: Final = itertools.count()


@dataclass(frozen=True, slots=True)
class Processor:
    """What machine code is made for."""

    triple: str
    name: str
    features: str


@cache
def processor() -> Processor:
    """This one, or what ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` say instead.

    >>> "-" in processor().triple
    True
    """
    llvm = _llvm()
    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        try:
            features = llvm.get_host_cpu_features().flatten()
        except RuntimeError:  # LLVM can't ask this kind of processor; its name says what it can do
            features = ""
    return Processor(llvm.get_process_triple(), name, features)


def object_code(module: Any) -> bytes:
    """The code of an LLVM module (which is changed), optimised for this processor."""
    llvm = _llvm()
    machine = _target_machine()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = False  # the loops are what there is to vectorise
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def parsed(text: str) -> Any:
    """LLVM's module of a text in its language. Raises: RuntimeError, where it is wrong."""
    module = _llvm().parse_assembly(text)
    module.triple = processor().triple
    module.data_layout = str(_target_machine().target_data)
    return module


def addresses_of(entries: Sequence[str], code: bytes) -> tuple[int, ...]:
    """Bring object code into memory, for as long as the process lives; where its functions ``entries`` begin.

    Raises: RuntimeError, if it is no object code, lacks an entry, or needs a function that this process does not have
    (LLVM's older engine, MCJIT, ends the process then).
    """
    library = _llvm().JITLibraryBuilder().add_object_img(code).add_current_process()
    for entry in entries:
        library.export_symbol(entry)
    loaded = library.link(_linker(), f"gradwright {next(_NUMBERS)}")
    addresses = tuple(int(loaded[entry]) for entry in entries)
    loaded.detach()  # never unloaded: a thread may be inside when the interpreter ends
    return addresses


@cache
def _llvm() -> Any:
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def _target_machine() -> Any:
    this = processor()
    target = _llvm().Target.from_triple(this.triple)
    return target.create_target_machine(
        cpu=this.name, features=this.features, opt=3, reloc="pic", codemodel="default", jit=True
    )


@cache
def _linker() -> Any:
    # JITLink knows ELF and Mach-O; it prints what it misses, unless told not to.
    return _llvm().create_lljit_compiler(use_jit_link=sys.platform != "win32", suppress_errors=True)
