"""vmap of every registered op, from its samples, against a loop over the examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.ops.layers.quantized  # ops of their own, too
import livegrad.sparse  # which has ops of its own
from livegrad.func import batching, grad, replay, vmap
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import elementwise
from livegrad.ops.support.samples import Sample

WITHOUT_SAMPLES = {"leaf", "update", "gradient", "gradient_of"}
OPS = sorted(
    name
    for name, op in REGISTRY.items()
    if op.kind not in WITHOUT_SAMPLES and name not in replay.RANDOM and name != "assembly"
)
EXAMPLES = 3
ARRAY = np.ndarray | np.generic


def samples_of(op: Op) -> list[Sample]:
    assert op.samples is not None
    return [s for s in op.samples() if any(isinstance(x, ARRAY) for x in s.inputs)]


def examples(x: Any) -> list[Any]:
    """Some inputs like `x`, within its range."""
    if not isinstance(x, ARRAY) or x.dtype.kind not in "fc":
        return [x] * EXAMPLES
    return [np.asarray(x * (1 - 0.03 * i)) for i in range(EXAMPLES)]


def as_tensor(x: Any) -> Any:
    return lg.tensor(np.asarray(x)) if isinstance(x, ARRAY) else x


def call(op: Op, sample: Sample, tensors: Any) -> Any:
    return sample.call(*tensors) if sample.call else elementwise(op, list(tensors))


def reads_values(error: BaseException) -> bool:
    """Whether an op cannot be batched: its shape depends on values, or it draws numbers."""
    return str(error).startswith(("vmap: It looks like", "vmap: called random operation"))


def values(x: Any) -> Any:
    plain = x.detach()
    return np.asarray(plain.double() if x.dtype is lg.bfloat16 else plain)


def compare(f: Any, sample: Sample, batched: list[bool]) -> None:
    pairs = zip(sample.inputs, batched, strict=True)
    columns = [examples(x) if b else [x] * EXAMPLES for x, b in pairs]
    stacked = [
        as_tensor(np.stack(column)) if b else as_tensor(column[0])
        for column, b in zip(columns, batched, strict=True)
    ]
    in_dims = tuple(0 if b else None for b in batched)
    try:
        got = vmap(f, in_dims, randomness="same")(*stacked)
    except RuntimeError as error:
        if reads_values(error):
            pytest.skip("its result depends on values while it is recorded")
        raise
    wanted = [values(f(*map(as_tensor, row))) for row in zip(*columns, strict=True)]
    np.testing.assert_allclose(values(got), np.stack(wanted), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", OPS)
def test_values(name: str) -> None:
    op = REGISTRY[name]
    for sample in samples_of(op)[:2]:
        arrays = [isinstance(x, ARRAY) for x in sample.inputs]
        choices = [arrays]
        if sum(arrays) > 1:
            choices += [
                [i == k for i in range(len(arrays))] for k in range(len(arrays)) if arrays[k]
            ]
        for batched in choices:
            compare(lambda *xs, sample=sample: call(op, sample, xs), sample, batched)


def weighted_sum(y: Any) -> Any:
    if y.dtype.is_complex:
        y = lg.view_as_real(y.resolve_conj())
    weights = np.cos(np.arange(y.numel(), dtype=np.float64)).reshape(y.shape)
    return (y * lg.tensor(weights)).sum()


DIFFERENTIABLE = [
    n for n in OPS if REGISTRY[n].grads is not None or REGISTRY[n].kind == "composite"
]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name: str) -> None:
    op = REGISTRY[name]
    for sample in [s for s in samples_of(op) if s.smooth][:1]:
        chosen = next((i for i, x in enumerate(sample.inputs) if _is_float(x)), None)
        if chosen is None:
            continue

        def f(x: Any, sample: Any = sample, chosen: int = chosen) -> Any:
            full = [x if i == chosen else as_tensor(y) for i, y in enumerate(sample.inputs)]
            return weighted_sum(call(op, sample, full))

        rows = examples(sample.inputs[chosen])
        try:
            inside = vmap(grad(f), randomness="same")(as_tensor(np.stack(rows)))
        except RuntimeError as error:
            if reads_values(error):
                pytest.skip("its result depends on values while it is recorded")
            raise
        outside = grad(lambda x: vmap(f, randomness="same")(x).sum())(as_tensor(np.stack(rows)))
        wanted = np.stack([values(grad(f)(as_tensor(row))) for row in rows])
        np.testing.assert_allclose(values(inside), wanted, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(values(outside), wanted, rtol=1e-7, atol=1e-9)


def _is_float(x: Any) -> bool:
    return isinstance(x, ARRAY) and x.dtype.kind in "fc"


# What costs as much as a loop over the examples; the list may only shrink. Recurrent layers are
# run side by side if they share a weight (here each example has one); gradients of weights never.
# Attention is batched before it is expanded to `attend`. Sparse products are done side by side if
# all examples share the sparse matrix (here each has one).
ONE_BY_ONE = set(
    "as_strided attend bag_of_place bin_edges cov_weights ctc_losses ctc_slopes gamma_slope histc "
    "histogram isin largest_in_bag linalg_ldl_solve nonzero_static overlap_checked panels "
    "quantile_range recurrent recurrent_slopes searchsorted segment_reduce "
    "segment_reduce_backward sparse_product view_bits".split()
)


def test_which_ops_are_done_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found: set[str] = set()

    def noting(n: Any, *rest: Any) -> Any:
        found.add(n.op.name)
        return batching.one_by_one(n, *rest)

    monkeypatch.setattr(replay, "one_by_one", noting)
    for name in OPS:
        op = REGISTRY[name]
        for sample in samples_of(op)[:1]:
            in_dims = tuple(0 if isinstance(x, ARRAY) else None for x in sample.inputs)
            stacked = [
                as_tensor(np.stack([x] * EXAMPLES)) if isinstance(x, ARRAY) else x
                for x in sample.inputs
            ]

            def f(*xs: Any, op: Op = op, sample: Sample = sample) -> Any:
                return call(op, sample, xs)

            try:
                vmap(f, in_dims)(*stacked)
            except RuntimeError as error:
                if not reads_values(error):
                    raise
    assert found <= ONE_BY_ONE


def test_the_ops_that_draw_numbers_are_known() -> None:
    modules = ("livegrad.ops.making.random", "livegrad.ops.making.sampling")
    drawing = {
        name
        for name, op in REGISTRY.items()
        if op.kind != "composite" and getattr(op.ref, "__module__", "") in modules
    }
    assert drawing - replay.RANDOM == {"gamma_slope"}
