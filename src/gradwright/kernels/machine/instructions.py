"""What a generated CPU kernel may do besides arithmetic: load, store, select, and take the next block of the launch.

Addresses are int64, indices count elements. Imported only where a kernel is compiled: it imports llvmlite.

NOTE [No alias checks]: operands and results of a launch never overlap. Loads are marked as invariant, and every result
has a slot of its own, which is a TBAA type of its own: LLVM then vectorises without comparing addresses at run time.
What a kernel has stored is read again only by ``reload`` of the same slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]

from gradwright.kernels.machine.emission import (
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Instruction,
    Lane,
    accepts,
    accepts_reals,
    multiply_add,
)

SLOTS: Final = 16
SCRATCH: Final = 1024  # elements in a scratch buffer, which lies on the stack of the thread that runs the kernel
_HALF: Final = ir.HalfType()
_PRECISIONS: Final = {"f32": F32, "f64": F64}
_A_PLACE: Final = accepts(I64, I64)  # an address and an index
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


def _load(kind: str, precision: str) -> Instruction:
    real = _PRECISIONS[precision]
    stored = {**_STORED, **_UNSIGNED}[kind]

    def emit(builder: ir.IRBuilder, address: ir.Value, index: ir.Value) -> ir.Value:
        return _widened(builder, _loaded(builder, address, index, stored), kind, real)

    return Instruction(f"load_{kind}_as_{precision}", _A_PLACE, emit)


def _load_condition(builder: ir.IRBuilder, address: ir.Value, index: ir.Value) -> ir.Value:
    byte = _loaded(builder, address, index, I8)
    return builder.icmp_unsigned("!=", byte, ir.Constant(I8, 0))


def _store(kind: str, slot: int) -> Instruction:
    def emit(builder: ir.IRBuilder, address: ir.Value, index: ir.Value, value: ir.Value) -> None:
        store = builder.store(_narrowed(Lane(builder, value), kind), _place(builder, address, index, _STORED[kind]))
        _of_its_own_kind(builder, store, f"result {slot}")

    def a_place_and_a_real(given: Sequence[ir.Type]) -> bool:
        return _A_PLACE(given[:2]) and accepts_reals(1)(given[2:])

    return Instruction(f"store_{kind}_{slot}", a_place_and_a_real, emit)


def _reload(kind: str, slot: int) -> Instruction:
    stored = _PRECISIONS[kind]

    def emit(builder: ir.IRBuilder, address: ir.Value, index: ir.Value) -> ir.Value:
        value = builder.load(_place(builder, address, index, stored), typ=stored)
        _of_its_own_kind(builder, value, f"result {slot}")
        return value

    return Instruction(f"reload_{kind}_{slot}", _A_PLACE, emit)


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


def _a_condition_and_two_alike(given: Sequence[ir.Type]) -> bool:
    return len(given) == 3 and given[0] == I1 and given[1] == given[2]


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


def _is_one_integer(given: Sequence[ir.Type]) -> bool:
    return tuple(given) in ((I32,), (I64,))


def _table() -> dict[str, Instruction]:
    made = [
        Instruction("load_bool", _A_PLACE, _load_condition),
        Instruction("word", _A_PLACE, _word),
        Instruction("real_word", _A_PLACE, _real_word),
        Instruction("next_block", accepts(I64), _next_block),
        Instruction("block_done", accepts(I64), _block_done),
        Instruction("select", _a_condition_and_two_alike, lambda builder, *values: builder.select(*values)),
        Instruction("add_in_any_order", accepts_reals(2), _add_in_any_order),
        Instruction("fma", accepts_reals(3), _fma),
        Instruction("in_order", accepts_reals(1), _in_order),
        Instruction("from_order", _is_one_integer, _from_order),
        *[_load(kind, precision) for kind in LOADED for precision in _PRECISIONS],
        *[_store(kind, slot) for kind in RESULTS for slot in range(SLOTS)],
        *[_reload(kind, slot) for kind in _PRECISIONS for slot in range(SLOTS)],
        *[Instruction(f"scratch_{slot}", accepts(), _scratch) for slot in range(SLOTS)],
    ]
    return {each.name: each for each in made}


# By the names that generated source uses.
INSTRUCTIONS: Final = _table()
