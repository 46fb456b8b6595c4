"""Calls in other processes, of which there is one; gradients that are kept apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import livegrad as lg
from livegrad import nn
from livegrad.distributed import autograd as dist_autograd, rpc
from livegrad.distributed.optim import DistributedOptimizer
from livegrad.distributed.rpc import RRef
from livegrad.futures import Future


@pytest.fixture
def worker() -> Iterator[None]:
    rpc.init_rpc("here", rank=0, world_size=1)
    yield
    rpc.shutdown()


@pytest.mark.usefixtures("worker")
def test_calls() -> None:
    assert rpc.get_worker_info().name == "here"
    assert rpc.get_worker_info("here").id == 0
    for to in ("here", 0, rpc.get_worker_info()):
        assert rpc.rpc_sync(to, max, (1, 2)) == 2
    assert rpc.rpc_async("here", lg.add, args=(lg.ones(2), 1)).wait().tolist() == [2.0, 2.0]
    assert rpc.rpc_sync("here", dict, kwargs={"a": 1}) == {"a": 1}
    with pytest.raises(ZeroDivisionError):
        rpc.rpc_sync("here", lambda: 1 / 0)
    late = rpc.rpc_async("here", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        late.wait()
    with pytest.raises(RuntimeError, match="no worker 'there'"):
        rpc.rpc_sync("there", max, (1, 2))


@pytest.mark.usefixtures("worker")
def test_references() -> None:
    ref = rpc.remote("here", nn.Linear, args=(2, 3))
    assert ref.is_owner()
    assert ref.confirmed_by_owner()
    assert ref.owner_name() == "here"
    assert isinstance(ref.local_value(), nn.Linear)
    assert ref.rpc_sync().forward(lg.ones(1, 2)).shape == (1, 3)
    assert ref.rpc_async().forward(lg.ones(1, 2)).wait().shape == (1, 3)
    assert ref.remote().forward(lg.ones(1, 2)).to_here().shape == (1, 3)
    failed = rpc.remote("here", lambda: [][1])
    with pytest.raises(IndexError):
        failed.to_here()
    x = lg.ones(2, requires_grad=True)
    RRef((x * 3).sum()).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.usefixtures("worker")
def test_functions_that_answer_later() -> None:
    waiting: list[Future[Any]] = []

    @rpc.functions.async_execution
    def add(x: int) -> Future[Any]:
        future: Future[Any] = Future()
        waiting.append(future)
        return future.then(lambda done: done.value() + x)

    called = rpc.rpc_async("here", add, args=(2,))
    assert not called.done()
    waiting[0].set_result(40)
    assert called.wait() == 42


def test_beginning_and_end() -> None:
    with pytest.raises(RuntimeError, match="initialized"):
        rpc.rpc_sync("here", max, (1, 2))
    with pytest.raises(RuntimeError, match="one process"):
        rpc.init_rpc("here", rank=0, world_size=2)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=4, rpc_timeout=5)
    rpc.init_rpc("here", rank=0, world_size=1, rpc_backend_options=options)
    assert rpc.get_rpc_timeout() == 5
    with pytest.raises(RuntimeError, match="already"):
        rpc.init_rpc("again", rank=0, world_size=1)
    rpc.shutdown()
    with pytest.raises(RuntimeError, match="initialized"):
        rpc.get_worker_info()


def test_gradients_are_kept_apart() -> None:
    layer, x = nn.Linear(2, 1), lg.ones(3, 2)
    with dist_autograd.context() as number:
        dist_autograd.backward(number, [layer(x).sum()])
        dist_autograd.backward(number, [layer(x).sum() * 2])
        found = dist_autograd.get_gradients(number)
        assert set(map(id, found)) == {id(layer.weight), id(layer.bias)}
        assert found[layer.weight].tolist() == [[9.0, 9.0]]
        assert found[layer.bias].tolist() == [9.0]
    assert layer.weight.grad is None
    with pytest.raises(RuntimeError, match="context"):
        dist_autograd.get_gradients(number)
    with dist_autograd.context() as number, pytest.raises(RuntimeError, match="scalar"):
        dist_autograd.backward(number, [layer(x)])


@pytest.mark.usefixtures("worker")
def test_an_optimiser_of_references() -> None:
    layer = nn.Linear(2, 1)
    before = layer.weight.detach().clone()
    step = DistributedOptimizer(lg.optim.SGD, [RRef(p) for p in layer.parameters()], lr=0.5)
    with dist_autograd.context() as number:
        dist_autograd.backward(number, [layer(lg.ones(1, 2)).sum()])
        step.step(number)
    lg.testing.assert_close(layer.weight, before - 0.5)
    assert layer.weight.grad is None
