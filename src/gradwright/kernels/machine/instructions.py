"""What a generated CPU kernel may do besides arithmetic: load, store, select, and take the next block of the launch.

Addresses are int64, indices count elements. Imported only where a kernel is compiled: it imports Numba.

NOTE [No alias checks]: operands and results of a launch never overlap. Loads are marked as invariant, and every result
has a slot of its own, which is a TBAA type of its own: LLVM then vectorises without comparing addresses at run time.
What a kernel has stored is read again only by ``reload`` of the same slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.core.typing.templates import Signature

from gradwright.kernels.machine.emission import (
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    Lane,
    Typed,
    instruction,
    multiply_add,
    reals,
)

SLOTS: Final = 16
SCRATCH: Final = 1024  # elements in a scratch buffer, which lies on the stack of the thread that runs the kernel
_HALF: Final = ir.HalfType()
_REALS: Final[dict[str, tuple[Any, ir.Type]]] = {"f32": (types.float32, F32), "f64": (types.float64, F64)}
# What an operand is made of in memory, and for integers whether it has a sign.
_STORED: Final = {"f32": F32, "f64": F64, "f16": _HALF, "bf16": I16, "i8": I8, "i16": I16, "i32": I32, "i64": I64}
_UNSIGNED: Final = {"u8": I8, "bool": I8}
LOADED: Final = (*_STORED, *_UNSIGNED)
RESULTS: Final = ("f32", "f64", "f16", "bf16")


def _of_its_own_kind(builder: ir.IRBuilder, access: Any, kind: str) -> None:
    """Mark a load or store with a TBAA type: two kinds never overlap."""
    module = builder.module
    zero = ir.Constant(I64, 0)
    root = module.add_metadata(["gradwright memory"])
    described = module.add_metadata([kind, root, zero])
    access.set_metadata("tbaa", module.add_metadata([described, described, zero]))


def _place(builder: ir.IRBuilder, address: ir.Value, index: ir.Value, stored: ir.Type) -> ir.Value:
    start = builder.inttoptr(address, ir.PointerType())
    return builder.gep(start, [index], inbounds=True, source_etype=stored)


def _loaded(builder: ir.IRBuilder, address: ir.Value, index: ir.Value, stored: ir.Type) -> ir.Value:
    value = builder.load(_place(builder, address, index, stored), typ=stored)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    _of_its_own_kind(builder, value, "operand")
    return value


def _widened(builder: ir.IRBuilder, value: ir.Value, kind: str, real: ir.Type) -> ir.Value:
    if kind == "bf16":  # the upper half of a float32
        bits = builder.shl(builder.zext(value, I32), ir.Constant(I32, 16))
        return Lane(builder, bits).real().to(real).value
    if kind in ("f16", "f32", "f64"):
        if value.type == real:
            return value
        return builder.fptrunc(value, real) if kind == "f64" else builder.fpext(value, real)
    if kind == "bool":  # any byte but 0 is true
        return builder.uitofp(builder.icmp_unsigned("!=", value, ir.Constant(I8, 0)), real)
    return builder.uitofp(value, real) if kind in _UNSIGNED else builder.sitofp(value, real)


def _narrowed(value: Lane, kind: str) -> ir.Value:
    """Rounded to nearest even; from float64 to 16 bits by way of float32, as torch does."""
    if kind in ("f32", "f64"):
        return value.to(_STORED[kind]).value
    single = value.to(F32)
    if kind == "f16":
        return value.builder.fptrunc(single.value, _HALF)
    bits = single.bits()
    rounded = bits + (bits.shifted_right(16) & 1) + 0x7FFF
    # A NaN keeps its sign and the upper bits of its payload; the quiet bit keeps it from becoming infinite.
    kept = single.is_nan().choose(bits | 0x400000, rounded)
    return value.builder.trunc(kept.shifted_right(16).value, I16)


def _load(kind: str, precision: str) -> Any:
    described, real = _REALS[precision]
    stored = {**_STORED, **_UNSIGNED}[kind]

    def emit(builder: ir.IRBuilder, address: ir.Value, index: ir.Value) -> ir.Value:
        return _widened(builder, _loaded(builder, address, index, stored), kind, real)

    return instruction(f"load_{kind}_as_{precision}", 2, _of_words(described, 2), emit)


def _load_condition(builder: ir.IRBuilder, address: ir.Value, index: ir.Value) -> ir.Value:
    byte = _loaded(builder, address, index, I8)
    return builder.icmp_unsigned("!=", byte, ir.Constant(I8, 0))


def _store(kind: str, slot: int) -> Any:
    def emit(builder: ir.IRBuilder, address: ir.Value, index: ir.Value, value: ir.Value) -> None:
        store = builder.store(_narrowed(Lane(builder, value), kind), _place(builder, address, index, _STORED[kind]))
        _of_its_own_kind(builder, store, f"result {slot}")

    def typed(arguments: Sequence[types.Type]) -> Signature | None:
        value = arguments[2]
        return types.void(types.int64, types.int64, value) if value in (types.float32, types.float64) else None

    return instruction(f"store_{kind}_{slot}", 3, typed, emit)


def _reload(kind: str, slot: int) -> Any:
    described, stored = _REALS[kind]

    def emit(builder: ir.IRBuilder, address: ir.Value, index: ir.Value) -> ir.Value:
        value = builder.load(_place(builder, address, index, stored), typ=stored)
        _of_its_own_kind(builder, value, f"result {slot}")
        return value

    return instruction(f"reload_{kind}_{slot}", 2, _of_words(described, 2), emit)


def _scratch(builder: ir.IRBuilder) -> ir.Value:
    with builder.goto_entry_block():
        memory = builder.alloca(ir.ArrayType(F64, SCRATCH))
        memory.align = 64
        return builder.ptrtoint(memory, I64)


def _word(builder: ir.IRBuilder, parameters: ir.Value, k: ir.Value) -> ir.Value:
    return _loaded(builder, parameters, k, I64)


def _real_word(builder: ir.IRBuilder, parameters: ir.Value, k: ir.Value) -> ir.Value:
    return _loaded(builder, parameters, k, F64)


def _next_block(builder: ir.IRBuilder, parameters: ir.Value) -> ir.Value:
    first = builder.inttoptr(parameters, ir.PointerType())
    return builder.atomic_rmw("add", first, ir.Constant(I64, 1), "monotonic")


def _block_done(builder: ir.IRBuilder, parameters: ir.Value) -> None:
    second = _place(builder, parameters, ir.Constant(I64, 1), I64)
    builder.atomic_rmw("add", second, ir.Constant(I64, 1), "release")  # what was stored is seen by who sees the count


def _typed_select(arguments: Sequence[types.Type]) -> Signature | None:
    condition, a, b = arguments
    return a(condition, a, b) if condition == types.boolean and a == b else None


def _add_in_any_order(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.fadd(a, b, flags=("reassoc", "nsz"))


def _in_order(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The integer of the same width that orders as reals do; a NaN with no sign is above infinity."""
    return _turned(Lane(builder, value).bits()).value


def _from_order(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    return _turned(Lane(builder, value)).real().value


def _turned(bits: Lane) -> Lane:
    """The bits below the sign, turned round where it is set."""
    width = 32 if bits.type == I32 else 64
    below_the_sign: int = 2 ** (width - 1) - 1
    return bits ^ ((bits >> (width - 1)) & below_the_sign)


def _fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return multiply_add(*[Lane(builder, value) for value in (a, b, c)]).value


def _typed_in_order(arguments: Sequence[types.Type]) -> Signature | None:
    real = arguments[0]
    if real not in (types.float32, types.float64):
        return None
    return (types.int32 if real == types.float32 else types.int64)(real)


def _typed_from_order(arguments: Sequence[types.Type]) -> Signature | None:
    integer = arguments[0]
    if integer not in (types.int32, types.int64):
        return None
    return (types.float32 if integer == types.int32 else types.float64)(integer)


def _of_words(result: types.Type, count: int) -> Typed:
    """Of a function of so many integers."""
    return lambda _: result(*[types.int64] * count)


def _table() -> dict[str, Any]:
    table = {
        "load_bool": instruction("load_bool", 2, _of_words(types.boolean, 2), _load_condition),
        "word": instruction("word", 2, _of_words(types.int64, 2), _word),
        "real_word": instruction("real_word", 2, _of_words(types.float64, 2), _real_word),
        "next_block": instruction("next_block", 1, _of_words(types.int64, 1), _next_block),
        "block_done": instruction("block_done", 1, _of_words(types.void, 1), _block_done),
        "select": instruction("select", 3, _typed_select, lambda builder, *values: builder.select(*values)),
        "add_in_any_order": instruction("add_in_any_order", 2, reals, _add_in_any_order),
        "fma": instruction("fma", 3, reals, _fma),
        "in_order": instruction("in_order", 1, _typed_in_order, _in_order),
        "from_order": instruction("from_order", 1, _typed_from_order, _from_order),
    }
    table |= {f"load_{kind}_as_{real}": _load(kind, real) for kind in LOADED for real in _REALS}
    table |= {f"store_{kind}_{slot}": _store(kind, slot) for kind in RESULTS for slot in range(SLOTS)}
    table |= {f"reload_{kind}_{slot}": _reload(kind, slot) for kind in _REALS for slot in range(SLOTS)}
    return table | {
        f"scratch_{k}": instruction(f"scratch_{k}", 0, _of_words(types.int64, 0), _scratch) for k in range(SLOTS)
    }


# By the names that generated source uses.
INSTRUCTIONS: Final[dict[str, Any]] = _table()


def __getattr__(name: str) -> Any:
    """What generated source imports by name."""
    if name in INSTRUCTIONS:
        return INSTRUCTIONS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
