"""autocast: which dtype, where, in which thread; gradients; training."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import amp, nn, optim
from livegrad.graph.state import LOCAL, reference_mode

BF16, F16, F32, F64 = lg.bfloat16, lg.float16, lg.float32, lg.float64


def product() -> lg.Tensor:
    return lg.ones(2, 3) @ lg.ones(3, 2)


def test_products_are_low_and_losses_float32() -> None:
    x, w = lg.randn(4, 3), lg.randn(5, 3, requires_grad=True)
    with lg.autocast("cpu", dtype=F16):
        y = F.linear(x, w)
        assert y.dtype is F16
        assert (y + 1).dtype is F16
        loss = F.cross_entropy(y, lg.tensor([0, 1, 2, 3]))
        assert loss.dtype is F32
        assert lg.cat([y, x.new_ones(4, 1)], 1).dtype is F32
    loss.backward()
    assert w.grad.dtype is F32
    assert w.dtype is F32


def test_float64_and_integers_are_left_alone() -> None:
    with lg.autocast("cpu"):
        assert (lg.ones(2, 2, dtype=F64) @ lg.ones(2, 2, dtype=F64)).dtype is F64
        assert (lg.ones(2, 2, dtype=lg.int64) @ lg.ones(2, 2, dtype=lg.int64)).dtype is lg.int64
        assert F.mse_loss(lg.ones(2, dtype=F64), lg.zeros(2, dtype=F64)).dtype is F64


def test_nesting_and_switching_off() -> None:
    with lg.autocast("cpu", dtype=BF16):
        assert product().dtype is BF16
        with lg.autocast("cpu", enabled=False):
            assert not lg.is_autocast_enabled("cpu")
            assert product().dtype is F32
            with amp.autocast("cpu", dtype=F16):
                assert lg.get_autocast_dtype("cpu") is F16
                assert product().dtype is F16
        assert product().dtype is BF16
    assert product().dtype is F32
    assert lg.get_autocast_dtype("cpu") is BF16


def test_one_object_may_be_entered_twice() -> None:
    context = lg.autocast("cpu", dtype=F16)
    with context, lg.autocast("cpu", enabled=False), context:
        assert product().dtype is F16
    assert LOCAL.state.caster is None


def test_an_error_inside_ends_it() -> None:
    with pytest.raises(ValueError, match="stop"), lg.autocast("cpu"):
        raise ValueError("stop")
    assert product().dtype is F32


def test_decorator_of_functions_and_generators() -> None:
    @lg.autocast("cpu", dtype=F16)
    def run() -> lg.Tensor:
        return product()

    @lg.autocast("cpu", dtype=F16)
    def each() -> Iterator[lg.Tensor]:
        yield product()
        yield product()

    assert run().dtype is F16
    for y in each():
        assert y.dtype is F16
        assert product().dtype is F32
    with pytest.raises(TypeError, match="callable"):
        lg.autocast("cpu")(3)  # type: ignore[arg-type]


def test_it_is_the_threads_own() -> None:
    seen = []
    with lg.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append(product().dtype))
        thread.start()
        thread.join()
    assert seen == [F32]


def test_single_settings() -> None:
    amp.set_autocast_enabled("cpu", True)
    try:
        assert amp.is_autocast_cpu_enabled()
        amp.set_autocast_dtype("cpu", F16)
        assert product().dtype is F16
    finally:
        amp.set_autocast_dtype("cpu", BF16)
        amp.set_autocast_enabled("cpu", False)
    assert product().dtype is F32
    assert lg.is_autocast_cache_enabled()
    with lg.autocast("cpu", cache_enabled=False):
        assert not lg.is_autocast_cache_enabled()


def test_devices_and_dtypes_that_are_not_there() -> None:
    with pytest.warns(UserWarning, match="no such device"):
        context = lg.autocast("cuda", dtype=F16)
    with context:
        assert product().dtype is F32
    with pytest.warns(UserWarning, match="only supports"):
        context = lg.autocast("cpu", dtype=F64)
    with context:
        assert product().dtype is F32
    with pytest.raises(RuntimeError, match="unsupported autocast device_type"):
        lg.autocast("abacus")
    with pytest.raises(ValueError, match="str"):
        lg.autocast(lg.device("cpu"))  # type: ignore[arg-type]


def test_backward_has_the_dtypes_of_forward_wherever_it_runs() -> None:
    def gradients(inside: bool) -> list[np.ndarray]:
        lg.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
        x = lg.randn(5, 6)
        with lg.autocast("cpu"):
            loss = F.cross_entropy(net(x), lg.tensor([0, 1, 2, 0, 1]))
            loss.item()  # so that the ordinary walk records the rules
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        assert {p.grad.dtype for p in net.parameters()} == {F32}
        return [p.grad.numpy() for p in net.parameters()]

    for a, b in zip(gradients(True), gradients(False), strict=True):
        np.testing.assert_array_equal(a, b)


def test_second_gradients() -> None:
    x = lg.randn(3, 4, requires_grad=True)
    w = lg.randn(4, 2, requires_grad=True)
    with lg.autocast("cpu"):
        y = (x @ w).float().square().sum()
        (gx,) = lg.autograd.grad(y, x, create_graph=True)
    gx.square().sum().backward()
    assert w.grad.dtype is F32


@pytest.mark.usefixtures("whole_plans")
def test_casts_of_a_parameter_are_computed_once(counted) -> None:
    rng = np.random.default_rng(0)
    # So large that the kernels do not run together.
    a, b, v, w = (lg.tensor(rng.random((512, 512), np.float32)) for _ in range(4))

    def kernels(second: lg.Tensor) -> int:
        with lg.autocast("cpu"), counted() as c:
            lg.stack([a @ w, b @ second]).sum().item()
        return c.kernels_run

    kernels(v)  # and what other tests left pending
    assert kernels(w) == kernels(v) - 1


def test_reference_mode_agrees() -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    x = lg.randn(5, 6)
    with lg.no_grad(), lg.autocast("cpu"):
        compiled = net(x).float().numpy()
        with reference_mode():
            reference = net(x)
            assert reference.dtype is BF16
            np.testing.assert_allclose(reference.float().numpy(), compiled, atol=2e-2)


def test_under_vmap() -> None:
    w = lg.randn(4, 3)
    with lg.autocast("cpu"):
        y = lg.vmap(lambda x: F.linear(x, w.T))(lg.randn(5, 4))
    assert y.dtype is BF16
    assert y.shape == (5, 3)


def test_the_casts_are_blamed_on_the_users_line() -> None:
    x = lg.ones(2, 2, requires_grad=True)
    with lg.autocast("cpu"):
        y = x @ x
    cast = y._node.inputs[0]
    assert cast.op.name == "cast"
    assert cast.site[0].co_filename == __file__


def _train(dtype: object) -> float:
    lg.manual_seed(0)
    rng = np.random.default_rng(0)
    x = lg.tensor(rng.standard_normal((256, 10)).astype(np.float32))
    y = lg.tensor((x.numpy()[:, :3].sum(1) > 0).astype(np.int64))
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 2))
    optimizer = optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        with lg.autocast("cpu", dtype=dtype or BF16, enabled=dtype is not None):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def test_training_in_low_precision_ends_where_float32_does() -> None:
    plain = _train(None)
    assert plain < 0.1
    assert abs(_train(BF16) - plain) < 0.02
    assert abs(_train(F16) - plain) < 0.02


def test_results_that_have_a_place_keep_its_dtype() -> None:
    a = lg.ones(2, 2)
    with lg.autocast("cpu"):
        assert lg.mm(a, a, out=lg.empty(2, 2)).tolist() == [[2.0, 2.0]] * 2
        assert a.clone().addmm_(a, a).dtype is F32
        assert lg.zeros(2, 2).index_copy(0, lg.tensor([0, 1]), a @ a).dtype is F32
