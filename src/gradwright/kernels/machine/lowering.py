"""A kernel's source becomes object code: Numba types it and writes LLVM's code for it, LLVM optimises it.

Imports Numba (about 0.2 s, and 0.3 s more for its first function); imported only where a kernel is in no cache.

NOTE [One symbol]: Numba's own wrappers (`cfunc`, `njit`) make object code that needs Numba's run time to be loaded. The
function that Numba lowers is put into a function of ours instead, which takes the address and nothing else, and LLVM
optimises the whole once, as one module. What comes out needs nothing but the mathematical library: a process that finds
it in the cache does not import Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from numba.core import types
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from gradwright.kernels.machine.processor import ENTRY, object_code

# Numba's calling convention: a place for the result, a place for an exception, the arguments; the result is a status,
# which is always 0: nothing in generated source raises.
_WRAPPER: Final = """
declare i32 @"{name}"(ptr, ptr, i64)

define void @{entry}(i64 %parameters) nounwind {{
  %result = alloca ptr
  %exception = alloca ptr
  %status = call i32 @"{name}"(ptr %result, ptr %exception, i64 %parameters)
  ret void
}}
"""


def lowered(source: str, path: str) -> bytes:
    """The object code of ``kernel(parameters)`` in a text that we have generated, under the name ``ENTRY``.

    ``path``: the file that tracebacks name.
    """
    names: dict[str, Any] = {"__name__": "gradwright.kernels.generated"}
    exec(compile(source, path, "exec"), names)
    with global_compiler_lock:
        return object_code(_module_of(names["kernel"]))


def _module_of(function: Callable[[int], None]) -> Any:
    """LLVM's module of it, with one symbol; see NOTE [One symbol]."""
    flags: Any = Flags()  # type: ignore[no-untyped-call]
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.forceinline = True  # into the wrapper
    flags.no_rewrites = True  # of array expressions
    flags.error_model = "numpy"  # 1 / 0 is infinite
    lowered = compile_extra(  # type: ignore[no-untyped-call]
        cpu_target.typing_context, cpu_target.target_context, function, (types.int64,), types.void, flags, {}
    )
    module = llvm.parse_assembly(lowered.library.get_llvm_str())
    for library in dict.fromkeys(lowered.library._linking_libraries):  # `min` and others that Numba wrote in Python
        module.link_in(library._get_module_for_linking(), preserve=True)
    wrapper = llvm.parse_assembly(_WRAPPER.format(name=lowered.fndesc.llvm_func_name, entry=ENTRY))
    wrapper.triple, wrapper.data_layout = module.triple, module.data_layout
    module.link_in(wrapper)
    for symbol in (*module.functions, *module.global_variables):
        if not symbol.is_declaration and symbol.name != ENTRY:
            symbol.linkage = "internal"
    module.verify()
    return module
