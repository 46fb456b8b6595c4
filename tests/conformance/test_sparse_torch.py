"""Sparse tensors as PyTorch has them: outcomes, gradients, printing, programs at random."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.dtypes import Namespace

torch = pytest.importorskip("torch")

from sparse_cases import CASES, operands  # noqa: E402

# What works here and is refused there: it must be what the dense tensors give.
MORE = frozenset(
    ["csr/2", "csr-csr", "narrow", "slice", "s[tensor]", "s[:]", "r.T", "dot", "matmul3"]
)
# What differs, and why.
DIFFERENT = {
    "mixed": "indices of two dtypes are always refused",
    "bsr wrong": "sizes that do not fit together are always refused",
    "csr 1d": "another class of error",
    "cat mix2": "another class of error",
    "r.prod": "another class of error",
    "einsum": "another class of error",
    "mul_": "the result is known to be coalesced",
    "mul_ s": "the result is known to be coalesced",
    "mul_ d": "the result is known to be coalesced",
    "r@r": "columns of a CSR product are in order",
}


def described(x: Any) -> Any:
    """A result in words that both libraries share."""
    if hasattr(x, "layout") and hasattr(x, "to_dense"):
        layout = str(x.layout).split(".")[-1]
        parts: list[Any] = [layout, tuple(x.shape), str(x.dtype).split(".")[-1], x.requires_grad]
        if layout == "strided":
            return [*parts, x.detach().double().tolist()]
        if layout == "sparse_coo":
            parts.append(x.is_coalesced())  # in which order elements lie otherwise is no matter
            return [*parts, *added_up(x)]
        by_rows = layout in ("sparse_csr", "sparse_bsr")
        names = ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices")
        parts += [getattr(x, name)().tolist() for name in names]
        return [*parts, x.values().detach().double().tolist()]
    if isinstance(x, tuple | list):
        return [described(y) for y in x]
    return x


def added_up(x: Any) -> list[Any]:
    """Indices and values of a COO tensor, in order, those at one place added up."""
    found: dict[tuple[int, ...], Any] = {}
    values = np.array(x._values().detach().double().tolist())
    for place, value in zip(zip(*x._indices().tolist(), strict=True), values, strict=False):
        found[place] = found.get(place, 0) + value
    order = sorted(found)
    return [[list(place) for place in order], [np.array(found[p]).tolist() for p in order]]


def outcome(T: Any, case: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "gives", described(case(T, operands(T)))
    except Exception as error:
        return "raises", type(error).__name__, str(error)


def close(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, 1e-5, 1e-6, equal_nan=True))
    return str(a).replace("torch.", "livegrad.") == str(b).replace("torch.", "livegrad.")


@pytest.mark.parametrize("name", CASES)
def test_a_call_has_the_outcome_of_torch(name: str) -> None:
    want, got = outcome(torch, CASES[name]), outcome(lg, CASES[name])
    if name in MORE:
        assert (want[0], got[0]) == ("raises", "gives"), (want, got)
        return
    if name in DIFFERENT:
        assert want[:2] != got[:2]
        return
    assert want[0] == got[0], (want, got)
    if want[0] == "raises":  # NotImplementedError is one of those
        assert want[1] == got[1] or (want[1], got[1]) == ("RuntimeError", "NotImplementedError")
    else:
        assert close(want[1], got[1]), (want, got)


# ---------------------------------------------------------------------------------------- printing


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "complex64"])
def test_printing(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Namespace, "name", "torch")  # as under `livegrad run`

    def shown(T: Any) -> list[str]:
        o = operands(T)
        kind = getattr(T, dtype)
        coo, big = o.s.to(kind), T.arange(1200.0).reshape(40, 30).to(kind).to_sparse()
        kinds = [coo, o.u.to(kind), o.csr.to(kind), o.h.to(kind), big, T.zeros(0, 3).to_sparse()]
        kinds += [T.eye(4).to(kind).to_sparse_bsr((2, 2)), T.sparse_coo_tensor((2, 3), dtype=kind)]
        kinds += [big.to_sparse_csr(), o.csr.t().to(kind)]
        if kind.is_floating_point:
            kinds.append(coo.clone().requires_grad_())
        return [str(x) for x in kinds]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert shown(lg) == shown(torch)


# --------------------------------------------------------------------------------------- gradients

GRADIENTS: dict[str, Any] = {
    "mm": lambda T, a, b, c: (a @ b, c),
    "sparse.mm": lambda T, a, b, c: (T.sparse.mm(a, b), c),
    "addmm": lambda T, a, b, c: (T.sparse.addmm(c, a, b, beta=2, alpha=3), c),
    "to_dense": lambda T, a, b, c: (a.to_dense() @ b, c),
    "times number": lambda T, a, b, c: ((a * 3) @ b, c),
    "neg": lambda T, a, b, c: ((-a) @ b, c),
    "transposed": lambda T, a, b, c: (a.t() @ c, c),
    "sum": lambda T, a, b, c: (T.sparse.sum(a) * b, c),
    "sum of rows": lambda T, a, b, c: (T.sparse.sum(a, 1).to_dense(), c),
    "softmax": lambda T, a, b, c: (T.sparse.softmax(a, 1).to_dense(), c),
    "log_softmax": lambda T, a, b, c: (T.sparse.log_softmax(a, 1).to_dense(), c),
    "plus dense": lambda T, a, b, c: (b @ c.t() + a.t(), c),
    "values": lambda T, a, b, c: (a.coalesce().values() ** 2, c),
    "sparse times sparse": lambda T, a, b, c: (T.sparse.mm(a, a.detach().t()).to_dense(), c),
}


def gradients(T: Any, function: Any, layout: str) -> list[Any]:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((5, 4)) * (rng.random((5, 4)) < 0.5)
    b, c = (T.tensor(rng.standard_normal(s), requires_grad=True) for s in ((4, 3), (5, 3)))
    a = getattr(T.tensor(values), layout)().requires_grad_()
    out, _ = function(T, a, b, c)
    weights = T.tensor(np.cos(np.arange(out.numel())).reshape(tuple(out.shape)))
    (out.sin() * weights).sum().backward()
    where = values != 0
    found = [None if x.grad is None else np.asarray(x.grad.to_dense().tolist()) for x in (a, b, c)]
    return [found[0] * where, *found[1:], str(a.grad.layout).split(".")[-1]]


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_coo_tensors(name: str) -> None:
    got, want = (gradients(T, GRADIENTS[name], "to_sparse") for T in (lg, torch))
    for a, b in zip(got, want, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(a, b, 1e-9, 1e-9)
        else:
            assert a is None or str(a).startswith("sparse")


@pytest.mark.parametrize("name", ["mm", "sparse.mm", "addmm", "to_dense"])
def test_gradients_of_csr_tensors(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got, want = (gradients(T, GRADIENTS[name], "to_sparse_csr") for T in (lg, torch))
    for a, b in zip(got[:3], want[:3], strict=True):
        if a is not None:
            np.testing.assert_allclose(a, b, 1e-9, 1e-9)


@pytest.mark.parametrize("name", ["mm", "sparse.mm", "softmax", "sum", "values", "to_dense"])
def test_gradients_of_given_values(name: str) -> None:
    def found(T: Any) -> Any:
        v = T.tensor([1.0, -2, 3, 0.5], dtype=T.float64, requires_grad=True)
        a = T.sparse_coo_tensor([[0, 1, 1, 4], [0, 2, 3, 1]], v, (5, 4))
        b, c = (T.ones(4, 3, dtype=T.float64), T.ones(5, 3, dtype=T.float64))
        out, _ = GRADIENTS[name](T, a, b, c)
        (out.sin() * T.arange(out.numel()).reshape(out.shape)).sum().backward()
        return v.grad.tolist()

    np.testing.assert_allclose(found(lg), found(torch), 1e-9, 1e-9)


# ------------------------------------------------------------------------------ random programs


def random_program(T: Any, seed: int) -> list[Any]:
    """Some operations of sparse and dense tensors, drawn by a seed: what each of them gives."""
    rng = np.random.default_rng(seed)
    height, width = (int(n) for n in rng.integers(1, 6, 2))

    def values(*shape: int) -> Any:
        return np.round(rng.standard_normal(shape) * 4) / 4

    def sparse() -> Any:
        count = int(rng.integers(0, 8))
        places = np.stack([rng.integers(0, n, count) for n in (height, width)])
        return T.sparse_coo_tensor(T.tensor(places), T.tensor(values(count)), (height, width))

    x, y = sparse(), sparse()
    dense = T.tensor(values(height, width))
    other = T.tensor(values(width, 3), requires_grad=True)
    steps = [
        lambda x: x + y,
        lambda x: x - y * 2,
        lambda x: x * dense,
        lambda x: x.coalesce() * y.coalesce(),
        lambda x: x.t().t(),
        lambda x: -x,
        lambda x: x.abs(),
        lambda x: x / 2,
        lambda x: x.coalesce(),
        lambda x: x.index_select(0, T.tensor(rng.integers(0, height, height))),
        lambda x: T.sparse.softmax(x, int(rng.integers(0, 2))),
        lambda x: dense.sparse_mask(x.coalesce()),
        lambda x: x.to_sparse_csr().to_sparse(),
        lambda x: x.to_sparse_csc().to_sparse(),
    ]
    seen = []
    for _ in range(int(rng.integers(1, 6))):
        x = steps[int(rng.integers(0, len(steps)))](x)
        seen.append(np.asarray(x.to_dense().tolist()))
    out = x @ other
    out.sum().backward()
    ends = [out.detach(), other.grad, T.sparse.sum(x), dense + x, x.norm()]
    return seen + [np.asarray(z.tolist()) for z in ends]


@pytest.mark.parametrize("block", range(10))
def test_random_programs(block: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(block * 20, block * 20 + 20):
            pairs = zip(random_program(lg, seed), random_program(torch, seed), strict=True)
            for step, (got, want) in enumerate(pairs):
                np.testing.assert_allclose(got, want, 1e-6, 1e-9, err_msg=f"{seed}, {step}")


def test_files() -> None:
    def tensors(T: Any) -> dict[str, Any]:
        o = operands(T)
        blocks = T.eye(4).to_sparse_bsr((2, 2))
        return {"coo": o.s, "u": o.u, "csr": o.csr, "h": o.h, "bsr": blocks}

    for writer, reader in ((torch, lg), (lg, torch)):
        file = io.BytesIO()
        options = {} if writer is torch else {"format": "torch"}
        writer.save(tensors(writer), file, **options)
        file.seek(0)
        found = reader.load(file)
        for name, want in tensors(reader).items():
            assert close(described(found[name]), described(want)), name


@pytest.mark.parametrize(
    ("shape", "dim", "index"),
    [((3, 2), 0, [[0, 1], [0, 0]]), ((3, 2), 1, [[0], [1]]), ((4,), -1, [1, 1])],
)
def test_gather_with_a_sparse_gradient(shape: Any, dim: int, index: Any) -> None:
    def seen(T: Any) -> Any:
        x = T.ones(shape, requires_grad=True)
        y = T.gather(x, dim, T.tensor(index), sparse_grad=True)
        other = T.gather(x, dim, T.tensor(index), sparse_grad=True)
        other.backward(T.arange(float(y.numel())).reshape(y.shape))
        found = [x.grad._indices().tolist(), x.grad._values().tolist(), x.grad.to_dense().tolist()]
        y.sum().backward()
        return *found, x.grad.is_sparse, x.grad.to_dense().tolist()

    assert seen(lg) == seen(torch)


@pytest.mark.parametrize("first", ["sparse", "dense"])
@pytest.mark.parametrize("then", ["sparse", "dense"])
def test_gradients_add_up_where_they_are(first: str, then: str) -> None:
    """Unless what was sparse becomes dense: that is another tensor."""
    found = []
    for T in (torch, lg):
        table = T.ones(4, 2, requires_grad=True)
        grads = []
        for kind in (first, then, then):
            rows = T.nn.functional.embedding(T.tensor([1, 3]), table, sparse=kind == "sparse")
            rows.sum().backward()
            grads.append(table.grad)
        same = [grad is grads[0] for grad in grads]
        found.append((same, [grad.is_sparse for grad in grads], table.grad.to_dense().tolist()))
        assert grads[0].to_dense().tolist() in ([[0, 0], [n, n], [0, 0], [n, n]] for n in (1, 3))
    assert found[1] == found[0]
