"""Matrix products: ranks, gradients, errors."""

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.state import LOCAL
from livegrad.ops.products.matmul import linear
from livegrad.runtime.sight import Policy

RNG = np.random.default_rng(0)
SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((3, 4), (4,)),
    ((4,), (4, 5)),
    ((4,), (4,)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((2, 2, 3, 4), (4, 5)),
    ((3, 0), (0, 4)),
    ((0, 3), (3, 4)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_all_ranks(left, right):
    a, b = RNG.normal(size=left), RNG.normal(size=right)
    got = lg.tensor(a) @ lg.tensor(b)
    np.testing.assert_allclose(got.numpy(), a @ b, rtol=1e-12, atol=1e-12)
    assert tuple(got.shape) == (a @ b).shape


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_gradients(left, right):
    a, b = RNG.normal(size=left), RNG.normal(size=right)
    x, y = lg.tensor(a, requires_grad=True), lg.tensor(b, requires_grad=True)
    weights = RNG.normal(size=(a @ b).shape)
    (x @ y * lg.tensor(weights)).sum().backward()
    for leaf, value, place in ((x, a, 0), (y, b, 1)):
        direction = RNG.normal(size=value.shape)
        pair = [a, b]
        pair[place] = direction  # the product is linear in each operand
        want = (pair[0] @ pair[1] * weights).sum()
        assert (leaf.grad.numpy() * direction).sum() == pytest.approx(want)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (4,), (0, 4), (2, 2, 3, 4)])
def test_linear(shape):
    x, w, b = RNG.normal(size=shape), RNG.normal(size=(5, 4)), RNG.normal(size=5)
    tensors = [lg.tensor(v, requires_grad=True) for v in (x, w, b)]
    out = linear(*tensors)
    np.testing.assert_allclose(out.detach().numpy(), x @ w.T + b, rtol=1e-12)
    out.sum().backward()
    rows = x.reshape(-1, 4)
    np.testing.assert_allclose(tensors[0].grad.numpy(), np.broadcast_to(w.sum(0), shape))
    np.testing.assert_allclose(
        tensors[1].grad.numpy(), np.broadcast_to(rows.sum(0), (5, 4)), atol=1e-12
    )
    np.testing.assert_allclose(tensors[2].grad.numpy(), np.full(5, len(rows)))


def test_integers_and_halves():
    a = lg.arange(6).reshape(2, 3)
    assert (a @ a.T).tolist() == [[5, 14], [14, 50]]
    half = lg.ones(2, 3, dtype=lg.bfloat16) @ lg.ones(3, 2, dtype=lg.bfloat16)
    assert half.dtype is lg.bfloat16
    assert half.tolist() == [[3, 3], [3, 3]]


def test_named_products():
    a, b = lg.tensor(RNG.normal(size=(3, 4))), lg.tensor(RNG.normal(size=(4, 5)))
    m, n = a.numpy(), b.numpy()
    np.testing.assert_allclose(lg.addmm(b[0], a, b, beta=0.5, alpha=2), n[0] * 0.5 + 2 * m @ n)
    np.testing.assert_allclose(a.mv(b[:, 0]), m @ n[:, 0])
    np.testing.assert_allclose(lg.outer(a[0], b[0]), np.outer(m[0], n[0]))
    np.testing.assert_allclose(lg.dot(a[0], b[:, 0]), m[0] @ n[:, 0])
    np.testing.assert_allclose(lg.inner(a, a), np.inner(m, m))
    nan = lg.full((3, 5), float("nan"), dtype=lg.float64)
    np.testing.assert_allclose(lg.addmm(nan, a, b, beta=0), m @ n)


@pytest.mark.parametrize("name", ["addmm", "addmv", "addr", "baddbmm", "addbmm"])
def test_what_is_multiplied_by_0_has_a_gradient_of_0(name):
    shapes = {
        "addmm": ((2, 3), (2, 4), (4, 3)),
        "addmv": ((2,), (2, 4), (4,)),
        "addr": ((2, 3), (2,), (3,)),
        "baddbmm": ((1, 3), (2, 5, 4), (2, 4, 3)),
        "addbmm": ((2, 3), (5, 2, 4), (5, 4, 3)),
    }
    first, *others = [lg.ones(*shape) for shape in shapes[name]]
    nan = lg.full_like(first, float("nan")).requires_grad_()
    y = getattr(lg, name)(nan, *others, beta=0)
    assert y.requires_grad
    y.sum().backward()
    assert nan.grad.tolist() == lg.zeros_like(first).tolist()
    assert y.tolist() == getattr(lg, name)(first * 0, *others).tolist()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: lg.zeros(2, 3) @ lg.zeros(4, 5),
            r"matmul: inner sizes differ; got a \(2, 3\) @ b \(4, 5\); expected a.shape\[-1\] == "
            r"b.shape\[-2\]. Did you mean b.T\?",
        ),
        (lambda: lg.zeros(2, 3) @ lg.zeros(2, 5), "Did you mean a.T"),
        (lambda: lg.zeros(2, 3) @ lg.zeros(3, 5).double(), "same dtype"),
        (lambda: lg.zeros(2, 3) @ lg.tensor(1.0), "at least 1D"),
        (lambda: lg.zeros(2, 3, 4) @ lg.zeros(3, 4, 5), "must match"),
        (lambda: lg.mm(lg.zeros(3), lg.zeros(3, 2)), "2-D"),
        (lambda: lg.bmm(lg.zeros(2, 3, 4), lg.zeros(1, 4, 5)), "batch sizes differ"),
        (lambda: linear(lg.zeros(2, 3), lg.zeros(4, 5)), "linear: inner sizes differ"),
        (lambda: linear(lg.zeros(2, 5), lg.zeros(4, 5), lg.zeros(3)), "bias"),
    ],
)
def test_errors(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


@pytest.mark.parametrize("dtype", [lg.float32, lg.float64, lg.bfloat16, lg.complex64, lg.int32])
@pytest.mark.parametrize("mode", ["whole", "pieces"])
def test_a_vector_times_a_matrix_is_one_node_with_the_bits_of_a_row(dtype, mode, monkeypatch):
    monkeypatch.setattr(Policy, mode, True)
    vector, matrix = (lg.tensor(RNG.normal(size=s) * 4).to(dtype) for s in ((37,), (37, 50)))
    factor = lg.tensor(RNG.normal(size=50)).to(dtype)

    def results(multiplied):
        v, m = vector.clone(), matrix.clone()
        if dtype is lg.int32:
            return [multiplied(v, m)]
        v.requires_grad_()
        m.requires_grad_()
        y = multiplied(v, m)
        (y * factor).sum().abs().backward()
        return [x.detach().resolve_conj() for x in (y, v.grad, m.grad)]

    by_row = results(lambda v, m: (v.unsqueeze(0) @ m).squeeze(0))
    for one, other in zip(results(lambda v, m: v @ m), by_row, strict=True):
        assert lg.equal(one, other)
    before = len(LOCAL.state.nodes)
    assert (vector @ matrix).shape == (50,)
    assert len(LOCAL.state.nodes) == before + 1
