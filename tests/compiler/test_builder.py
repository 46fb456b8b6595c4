"""The IR Builder: each family of instructions is compiled and compared with NumPy."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest
from building import LANES, host_builder, wide

from livegrad import dtypes
from livegrad.compiler.emitter import Emitter
from livegrad.compiler.values import Value, element_of, with_element
from livegrad.ops.elementwise.division import REMAINDER
from livegrad.runtime.cpu import jit
from livegrad.runtime.cpu.target import Target

_NUMPY = {"i1": "bool", "half": "float16", "float": "float32", "double": "float64"}


def compile_ir(
    text: str, name: str, params: int, target: Target | None = None
) -> Callable[..., None]:
    llvm.parse_assembly(text).verify()
    address = jit.compile_kernel(text, name, target)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * params)(address)


def numpy_dtype(element: str, unsigned: bool = False) -> np.dtype:
    name = _NUMPY.get(element) or ("uint" if unsigned else "int") + element[1:]
    return np.dtype(name)


def run(
    rule: Callable[..., Value],
    *arrays: np.ndarray,
    element: str,
    target: Target | None = None,
    scalar: bool = False,
    unsigned: bool = False,
) -> np.ndarray:
    """Apply `rule(b, *values)` to arrays of `element`, a vector or an element at a time."""
    n = arrays[0].size
    names = [f"x{i}" for i in range(len(arrays))]
    b = host_builder("kernel", [("ptr", name) for name in [*names, "out"]] + [("i64", "n")])
    *inputs, out, count = b.params
    type = element if scalar else wide(element)
    result = "i1"
    with b.loop(0, count, 1 if scalar else LANES) as loop:
        mask = None if scalar else b.lane_mask(b.sub(count, loop.index))
        values = [b.load(type, b.gep(x, element, loop.index), mask) for x in inputs]
        y = rule(b, *values)
        result = y.element
        if result == "i1":
            b.store(b.zext(y, "i8"), b.gep(out, "i8", loop.index), mask)
        else:
            b.store(y, b.gep(out, result, loop.index), mask)
    kernel = compile_ir(b.ir(), "kernel", len(arrays) + 2, target)
    output = np.zeros(n + 1, numpy_dtype(result, unsigned))
    arrays = tuple(np.ascontiguousarray(x) for x in arrays)
    kernel(*[x.ctypes.data for x in arrays], output.ctypes.data, n)
    assert output[n] == 0, "the masked tail wrote past the end"
    return output[:n]


def same(x: np.ndarray, y: np.ndarray) -> None:
    np.testing.assert_array_equal(x, y)
    if x.dtype.kind == "f":
        numbers = ~np.isnan(y)
        np.testing.assert_array_equal(np.signbit(x)[numbers], np.signbit(y)[numbers])


FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 7.0, -3.0, 1e-40, 1e30, 1e38]
FLOATS += [math.inf, -math.inf, math.nan, 0.1, -0.3]


def pairs(values: list[float] | np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    x = np.array(values, dtype)
    return np.repeat(x, x.size), np.tile(x, x.size)


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize(
    ("name", "ref"),
    [
        ("fadd", np.add),
        ("fsub", np.subtract),
        ("fmul", np.multiply),
        ("fdiv", np.divide),
        ("frem", np.fmod),
        ("mod_float", REMAINDER.ref),
        ("floordiv_float", np.floor_divide),
        ("copysign", np.copysign),
    ],
)
def test_float_pairs(name: str, ref: Callable[..., np.ndarray], element: str, scalar: bool) -> None:
    x, y = pairs(FLOATS, numpy_dtype(element).name)
    result = run(lambda b, x, y: getattr(b, name)(x, y), x, y, element=element, scalar=scalar)
    same(result, ref(x, y))


@pytest.mark.parametrize(("name", "ref"), [("maxnum_nan", np.maximum), ("minnum_nan", np.minimum)])
def test_extremes_propagate_nan(name: str, ref: Callable[..., np.ndarray]) -> None:
    x, y = pairs(FLOATS, "float32")
    result = run(lambda b, x, y: getattr(b, name)(x, y), x, y, element="float")
    np.testing.assert_array_equal(result, ref(x, y))


@pytest.mark.parametrize("name", ["fabs", "sqrt", "floor", "ceil", "trunc", "rint", "fneg"])
def test_float_unary(name: str) -> None:
    x = np.array(FLOATS, np.float32)
    ref = {"fneg": np.negative}.get(name) or getattr(np, name)
    same(run(lambda b, x: getattr(b, name)(x), x, element="float"), ref(x))


def test_fma_rounds_once() -> None:
    x = np.array([1 + 2**-23], np.float32)
    result = run(lambda b, x: b.fma(x, x, -1.0), x, element="float")
    assert result[0] == np.float32(float(x[0]) ** 2 - 1)


def test_multiply_add_is_not_contracted() -> None:
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    result = run(lambda b, x: b.fsub(b.fmul(x, x), x), x, element="float")
    same(result, x * x - x)


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize(("name", "ref"), [("floordiv_int", np.floor_divide), ("mod_int", np.mod)])
def test_division_never_traps(
    name: str, ref: Callable[..., np.ndarray], element: str, unsigned: bool
) -> None:
    dtype = numpy_dtype(element, unsigned)
    info = np.iinfo(dtype)
    edge = [info.min, info.max, info.max - 1, 0, 1, 2, 3, 7] + [-1, -2, -7] * (not unsigned)
    x, y = pairs(edge, dtype.name)
    rule = lambda b, x, y: getattr(b, name)(x, y, not unsigned)
    result = run(rule, x, y, element=element, unsigned=unsigned)
    same(result, np.where(y == 0, 0, ref(x, np.where(y == 0, 1, y))).astype(dtype))


@pytest.mark.parametrize(
    ("name", "ref"),
    [
        ("add", np.add),
        ("sub", np.subtract),
        ("mul", np.multiply),
        ("and_", np.bitwise_and),
        ("or_", np.bitwise_or),
        ("xor", np.bitwise_xor),
        ("smin", np.minimum),
        ("smax", np.maximum),
    ],
)
def test_int_pairs(name: str, ref: Callable[..., np.ndarray]) -> None:
    x, y = pairs([0, 1, -1, 5, 2**31 - 1, -(2**31)], "int32")
    same(run(lambda b, x, y: getattr(b, name)(x, y), x, y, element="i32"), ref(x, y))


def test_masks_choose() -> None:
    x, y = pairs(FLOATS, "float32")
    result = run(lambda b, x, y: b.not_(b.fcmp("olt", x, y)), x, y, element="float")
    same(result, ~(x < y))
    result = run(lambda b, x, y: b.select(b.fcmp("ult", x, y), x, 3.0), x, y, element="float")
    same(result, np.where(~(x >= y), x, np.float32(3)))


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("unsigned", [False, True])
def test_float_to_int(element: str, unsigned: bool) -> None:
    x = np.array([0.0, 1.9, -1.9, 100.5, -100.5, 300.0, 70000.0, -129.0, -1.0], np.float64)
    name = "fptoui" if unsigned else "fptosi"
    rule = lambda b, x: getattr(b, name)(x, element)
    result = run(rule, x, element="double", unsigned=unsigned)
    want = x.astype(np.int64).astype(numpy_dtype(element, unsigned))
    same(result, want)
    extremes = np.array([np.nan, np.inf, -np.inf])
    assert run(rule, extremes, element="double", unsigned=unsigned)[0] == 0


@pytest.mark.parametrize("element", ["float", "double"])
def test_narrow_floats(element: str) -> None:
    dtype = numpy_dtype(element)
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            np.array(FLOATS, dtype),
            (rng.standard_normal(4000) * np.exp2(rng.integers(-30, 20, 4000))).astype(dtype),
            np.array(
                [65519.99999, 65520, 1 + 2**-11 + 2**-40, 1 + 2**-11, 2**-25, 2**-25 + 2**-60],
                dtype,
            ),
        ]
    )
    same(run(lambda b, x: b.fptrunc(x, "half"), x, element=element), x.astype(np.float16))
    back = run(lambda b, x: b.fpext(x, "float"), x.astype(np.float16), element="half")
    same(back, x.astype(np.float16).astype(np.float32))


def bf16(x: np.ndarray) -> np.ndarray:
    """Nearest-even bfloat16 of doubles, by picking the nearer of the two neighbours."""
    low = (x.astype(np.float32).view(np.uint32) >> 16 << 16).view(np.float32)
    result = []
    for number, guess in zip(x.tolist(), low, strict=True):
        bits = int(np.float32(guess).view(np.uint32)) >> 16
        around = [bits + step for step in (-1, 0, 1) if bits + step >= 0]
        value = {i: float(np.uint32(i << 16).view(np.float32)) for i in around}
        result.append(min(around, key=lambda i: (abs(value[i] - number), i & 1)))
    return np.array(result, np.uint16)


@pytest.mark.parametrize("element", ["float", "double"])
def test_bfloat16(element: str) -> None:
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_normal(2000) * np.exp2(rng.integers(-20, 20, 2000)))
    x = np.concatenate([x, [1 + 2**-8, 1 + 2**-8 + 2**-40, 1 + 3 * 2**-8, 1e-40, 0.0]])
    x = x.astype(numpy_dtype(element))
    bits = run(lambda b, x: b.float_to_bf16(x), x, element=element)
    same(bits.view(np.uint16), bf16(x.astype(np.float64)))
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 3.4e38], x.dtype)
    special = run(lambda b, x: b.float_to_bf16(x), special, element=element).view(np.uint16)
    assert special[0] & 0x7FC0 == 0x7FC0
    assert [hex(i) for i in special[1:]] == ["0x7f80", "0xff80", "0x8000", "0x7f80"]
    if element == "float":  # what is moved stays what it is; of these, one has no upper bits
        nans = np.array([0x7F810000, 0xFFFF0000, 0x7F800001, 0xFFC00000], np.uint32)
        moved = run(lambda b, x: b.float_to_bf16(x), nans.view(np.float32), element=element)
        moved = moved.view(np.uint16)
        assert [hex(i) for i in moved] == ["0x7f81", "0xffff", "0x7fc0", "0xffc0"]
        assert dtypes.float32_to_bfloat16(nans.view(np.float32)).tolist() == moved.tolist()
    back = run(lambda b, x: b.bf16_to_float(x), bits, element="i16")
    same(back, (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32))


@pytest.mark.parametrize("number", [*FLOATS, 5e-324, 1e-45, 3.5e38, -1e300, math.pi])
@pytest.mark.parametrize("element", ["half", "float", "double"])
def test_constants_are_exact(element: str, number: float) -> None:
    dtype = numpy_dtype(element)
    result = run(lambda b, x: b.const(x.type, number), np.zeros(3, dtype), element=element)
    same(result, np.full(3, number, dtype))


def test_integer_constants_wrap() -> None:
    b = host_builder("kernel", [])
    names = [b.const(t, n).name for t, n in [("i8", 255), ("i64", -1), ("i1", True), ("i32", 7)]]
    assert names == ["-1", "-1", "true", "7"]


def test_lanes() -> None:
    x = np.arange(32, dtype=np.float32)
    got = run(lambda b, x: b.splat(b.extract(x, 3)), x, element="float")
    same(got, np.repeat(x[[3, 19]], 16))
    got = run(lambda b, x: b.shuffle(x, range(15, -1, -1)), x, element="float")
    same(got, x.reshape(2, 16)[:, ::-1].ravel())
    got = run(lambda b, x: b.uitofp(b.iota("i32"), "float"), x, element="float")
    same(got, np.tile(x[:16], 2))


def test_reduction_order_is_fixed() -> None:
    x = np.random.default_rng(1).standard_normal(16).astype(np.float32)
    want = x
    while want.size > 1:
        want = want[: want.size // 2] + want[want.size // 2 :]
    for target in (None, Target("generic", "")):
        got = run(
            lambda b, x: b.splat(b.reduce_lanes(x, b.fadd)), x, element="float", target=target
        )
        same(got, np.repeat(want, 16))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_loop_carries_values(n: int) -> None:
    b = host_builder("kernel", [("ptr", "out"), ("i64", "n")])
    out, count = b.params
    zero, one = b.const("i64", 0), b.const("i64", 1)
    with b.loop(0, count, 1, [zero, one]) as outer:
        total, last = outer.carried
        with b.loop(0, outer.index, 2, [total]) as inner:
            inner.update(b.add(inner.carried[0], inner.index))
        outer.update([inner.results[0], b.mul(last, 3)])
    for i, value in enumerate(outer.results):
        b.store(value, b.gep(out, "i64", i))
    result = np.zeros(2, np.int64)
    compile_ir(b.ir(), "kernel", 2)(result.ctypes.data, n)
    assert result.tolist() == [sum(sum(range(0, i, 2)) for i in range(n)), 3**n]


def test_loop_requires_matching_updates() -> None:
    b = host_builder("kernel", [])
    with pytest.raises(ValueError, match="update"), b.loop(0, 4, 1, [b.const("i64", 0)]):
        pass


def test_if_guards_a_store() -> None:
    b = host_builder("kernel", [("ptr", "out"), ("i64", "n")])
    out, n = b.params
    with b.if_(b.icmp("sgt", n, 3)):
        b.store(b.add(n, 1), out)
    b.store(b.add(n, 1), b.gep(out, "i64", 1))
    kernel = compile_ir(b.ir(), "kernel", 2)
    for n_value, want in [(3, [0, 4]), (4, [5, 5])]:
        result = np.zeros(2, np.int64)
        kernel(result.ctypes.data, n_value)
        assert result.tolist() == want


@pytest.mark.parametrize("element", ["i8", "i64", "half", "float", "double"])
def test_gather_and_scatter(element: str) -> None:
    type = wide(element)
    b = host_builder("kernel", [("ptr", "x"), ("ptr", "index"), ("ptr", "out"), ("i64", "n")])
    x, index, out, n = b.params
    mask = b.lane_mask(n)
    picks = b.load(wide("i64"), index)
    b.scatter(b.gather(type, x, picks, mask), out, picks, mask)
    data = np.arange(16).astype(numpy_dtype(element))
    order = np.random.default_rng(0).permutation(16).astype(np.int64)
    result = np.zeros_like(data)
    compile_ir(b.ir(), "kernel", 4)(data.ctypes.data, order.ctypes.data, result.ctypes.data, 11)
    want = np.zeros_like(data)
    want[order[:11]] = data[order[:11]]
    same(result, want)


def test_bools_are_bytes_in_memory() -> None:
    b = host_builder("kernel", [("ptr", "x"), ("ptr", "out")])
    x, out = b.params
    e, bools = Emitter(b, dtypes.bool_), dtypes.bool_
    e.store(bools, e.not_(e.load(bools, x)), out)
    backwards = e.gather(bools, x, b.sub(15, b.iota()))
    e.scatter(bools, backwards, b.gep(out, "i8", 16), b.iota())
    e.store_scalar(bools, e.load_scalar(bools, x), b.gep(out, "i8", 32))
    data = np.random.default_rng(0).integers(0, 2, 16).astype(bool)
    result = np.zeros(33, np.uint8)
    compile_ir(b.ir(), "kernel", 2)(data.ctypes.data, result.ctypes.data)
    assert result.tolist() == [*~data, *data[::-1], data[0]]


def test_calls() -> None:
    b = host_builder("kernel", [("ptr", "out")])
    value = b.load("double", b.params[0])
    b.store(b.call("double", "cbrt", [value]), b.params[0])
    result = np.full(1, 2.0)
    compile_ir(b.ir(), "kernel", 1)(result.ctypes.data)
    assert result[0] == pytest.approx(2 ** (1 / 3))


def test_equal_instructions_are_written_once() -> None:
    b = host_builder("kernel", [("ptr", "x"), ("i64", "n")])
    x, n = b.params
    assert b.add(n, 1) is b.add(n, 1)
    with b.if_(b.icmp("slt", n, 3)):
        inside = b.mul(n, 7)
        assert b.add(n, 1).name == "%v0"
    assert b.mul(n, 7) is not inside
    assert b.load("i64", x) is not b.load("i64", x)


def test_no_fast_math_in_the_text() -> None:
    b = host_builder("kernel", [("ptr", "x"), ("ptr", "y")])
    x = b.load(wide("float"), b.params[0])
    b.store(b.exp(b.fma(x, x, b.fmul(x, 3.0))), b.params[1])
    text = b.ir()
    assert not {"fast", "contract", "reassoc", "nnan", "ninf", "afn"} & set(text.split())


def test_types() -> None:
    assert wide("i8") == "<16 x i8>"
    assert element_of("<16 x float>") == element_of("float") == "float"
    assert with_element("<16 x float>", "i1") == "<16 x i1>"
    assert with_element("double", "i1") == "i1"
