"""Every registered op is tested from its record: values, gradients, dtypes, shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.ops.layers.quantized  # ops of their own, too
import livegrad.sparse  # which has ops of its own
from livegrad import dtypes
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import elementwise
from livegrad.graph.state import reference_mode
from livegrad.ops.support.samples import Sample

# Not functions of tensors: data, what the compiler puts together, and what stands for many results.
KINDS_WITHOUT_SAMPLES = {"leaf", "update", "gradient", "gradient_of"}
OPS = sorted(
    name
    for name, op in REGISTRY.items()
    if op.kind not in KINDS_WITHOUT_SAMPLES and name not in ("assembly", "written")
)
# Agreement of compiled code with the reference: a few roundings per op.
TOLERANCE = {
    dtypes.float64: (1e-12, 1e-12),
    dtypes.float32: (2e-5, 2e-5),
    dtypes.float16: (4e-3, 4e-3),
    dtypes.bfloat16: (3e-2, 3e-2),
}


def samples_of(op: Op) -> list[Sample]:
    assert op.samples is not None, f"op {op.name!r} has no samples"
    found = list(op.samples())
    assert found, f"op {op.name!r} has no samples"
    return found


def call(op: Op, sample: Sample, tensors: list[Any]) -> Any:
    return sample.call(*tensors) if sample.call else elementwise(op, tensors)


def as_inputs(sample: Sample, dtype: dtypes.DType) -> list[Any]:
    """Tensors of `dtype` for float inputs; integers, bools and numbers as they are."""
    made = []
    for x in sample.inputs:
        if isinstance(x, np.ndarray) and x.dtype.kind in "fc":
            made.append(lg.tensor(x).to(dtype if x.dtype.kind == "f" else dtype.to_complex()))
        elif isinstance(x, np.ndarray | np.bool_):
            made.append(lg.tensor(np.asarray(x)))
        else:
            made.append(x)
    return made


def values(x: Any) -> Any:
    if x.dtype.is_complex:
        return np.asarray(x.detach().to(lg.complex128))
    return np.asarray(x.detach().to(lg.float64) if x.dtype.is_floating_point else x.detach())


def floats(inputs: list[Any]) -> list[int]:
    return [
        i
        for i, x in enumerate(inputs)
        if isinstance(x, lg.Tensor) and x.dtype.category >= dtypes.FLOAT
    ]


def test_every_op_has_samples() -> None:
    missing = [n for n in OPS if REGISTRY[n].samples is None]
    assert missing == []


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.name)
@pytest.mark.parametrize("name", OPS)
def test_compiled_equals_reference(name: str, dtype: dtypes.DType) -> None:
    op = REGISTRY[name]
    for sample in samples_of(op):
        with reference_mode():
            try:
                wanted = call(op, sample, as_inputs(sample, dtype))
            except RuntimeError as error:
                if "not implemented for" in str(error):
                    continue  # integer ops
                raise
            expected = values(wanted)
        got = call(op, sample, as_inputs(sample, dtype))
        assert got.dtype is wanted.dtype
        assert got.shape == wanted.shape
        # Some ops have a dtype of their own, whatever the inputs'.
        rtol, atol = max(TOLERANCE[dtype], TOLERANCE.get(got.dtype.to_real(), (0.0, 0.0)))
        np.testing.assert_allclose(values(got), expected, rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.parametrize("name", [n for n in OPS if REGISTRY[n].kind == "elementwise"])
def test_integers_and_bools(name: str) -> None:
    op = REGISTRY[name]
    for sample in samples_of(op):
        for dtype in (lg.int64, lg.int32, lg.int16, lg.int8, lg.uint8, lg.bool):
            inputs = [
                lg.tensor(np.abs(x * 3)).to(dtype)
                if isinstance(x, np.ndarray) and x.dtype.kind == "f"
                else lg.tensor(np.asarray(x))
                if isinstance(x, np.ndarray)
                else x
                for x in sample.inputs
            ]
            with reference_mode():
                try:
                    wanted = call(op, sample, inputs)
                except RuntimeError:
                    continue  # PyTorch has no such function of integers
                expected = values(wanted)
            got = call(op, sample, inputs)
            assert got.dtype is wanted.dtype
            np.testing.assert_allclose(values(got), expected, rtol=2e-5, atol=2e-5, err_msg=name)


def weighted_sum(y: Any) -> Any:
    if y.dtype.is_complex:
        y = lg.view_as_real(y.resolve_conj())
    weights = lg.tensor(np.cos(np.arange(y.numel(), dtype=np.float64))).reshape(y.shape)
    return (y * weights).sum()


DIFFERENTIABLE = [
    n for n in OPS if REGISTRY[n].grads is not None or REGISTRY[n].kind == "composite"
]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name: str) -> None:
    """The rules are right, entry by entry, as the reference runs them; compiled, they give that."""
    op = REGISTRY[name]
    for sample in samples_of(op):
        if not sample.smooth:
            continue
        with reference_mode():
            f, leaves = function_of_floats(op, sample)
            if not leaves or not f(*leaves).requires_grad:
                continue
            assert lg.autograd.gradcheck(f, leaves)
            assert lg.autograd.gradgradcheck(f, leaves)
            wanted = [values(x) for x in derivatives(f, leaves)]
        f, leaves = function_of_floats(op, sample)
        for got, expected in zip(derivatives(f, leaves), wanted, strict=True):
            np.testing.assert_allclose(values(got), expected, rtol=1e-9, atol=1e-9, err_msg=name)


def function_of_floats(op: Op, sample: Sample) -> tuple[Any, list[Any]]:
    """A number that depends on the sample's result, as a function of its float inputs; these."""
    inputs = as_inputs(sample, dtypes.float64)
    chosen = floats(inputs)

    def f(*xs: Any) -> Any:
        full = list(inputs)
        for i, x in zip(chosen, xs, strict=True):
            full[i] = x
        return weighted_sum(call(op, sample, full))

    return f, [inputs[i].clone().requires_grad_() for i in chosen]


def derivatives(f: Any, leaves: list[Any]) -> list[Any]:
    """The value of f, its gradients, and the gradients of a weighted sum of those."""
    y = f(*leaves)
    firsts = gradients(y, leaves)
    sums = [weighted_sum(g) for g in firsts if g.requires_grad]
    seconds = gradients(sum(sums[1:], sums[0]), leaves) if sums else []
    return [y, *firsts, *seconds]


def gradients(y: Any, leaves: list[Any]) -> list[Any]:
    found = lg.autograd.grad(y, leaves, create_graph=True, allow_unused=True)
    return [g for g in found if g is not None]


COMPLEX = [n for n in OPS if REGISTRY[n].kind == "elementwise" and REGISTRY[n].complex]


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_operands(name: str) -> None:
    """Elementwise ops that say they take complex operands: values, and gradients of small ones."""
    op = REGISTRY[name]
    for sample in samples_of(op):
        arrays = [_made_complex(x) for x in sample.inputs]
        with reference_mode():
            wanted = call(op, sample, as_inputs(Sample(tuple(arrays)), dtypes.float64))
            expected = values(wanted)
        inputs = as_inputs(Sample(tuple(arrays)), dtypes.float64)
        got = call(op, sample, inputs)
        assert got.dtype is wanted.dtype
        np.testing.assert_allclose(values(got), expected, rtol=1e-12, atol=1e-12, err_msg=name)
        small = got.numel() <= 5 and sample.smooth and got.dtype.category >= dtypes.FLOAT
        if small and op.grads is not None:
            _check_complex_gradients(op, sample, inputs)


def _made_complex(x: Any) -> Any:
    """A float array with imaginary parts that are neither 0 nor the real ones."""
    floating = isinstance(x, np.ndarray) and x.dtype.kind == "f"
    with np.errstate(all="ignore"):
        return np.asarray(x + 1j * (0.5 - 0.75 * np.flip(x))) if floating else x


def _check_complex_gradients(op: Op, sample: Sample, inputs: list[Any]) -> None:
    chosen = floats(inputs)
    leaves = [inputs[i].clone().requires_grad_() for i in chosen]

    def f(*xs: Any) -> Any:
        full = list(inputs)
        for i, x in zip(chosen, xs, strict=True):
            full[i] = x
        return call(op, sample, full)

    assert lg.autograd.gradcheck(f, leaves)
    assert lg.autograd.gradgradcheck(f, leaves)
