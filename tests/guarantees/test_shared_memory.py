"""Memory that somebody else can write: values are as of the line that used them."""

from __future__ import annotations

import gc
import multiprocessing
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn, optim
from livegrad.runtime import shared

SMALL, LARGE = 4, shared.MOST_COPIED


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_values_are_as_of_the_line_that_used_them(size: int) -> None:
    array = np.zeros(size)
    x = lg.from_numpy(array)
    seen = []
    for step in range(3):
        array[0] = step
        seen.append(x[:2] + x[0])
    array[0] = 100
    assert [y.tolist() for y in seen] == [[0, 0], [2, 1], [4, 2]]


@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(None, None, 2)])
@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("is_read", [False, True])
def test_an_array_of_borrowed_memory_outlives_the_one_it_came_from(
    size: int, part: slice, is_read: bool
) -> None:
    array = np.zeros(size, np.float32)
    x = lg.from_numpy(array)[part]
    seen = x.numpy()
    del array
    if is_read:
        assert x.sum().item() == 0
    x.add_(1)
    assert seen[0] == seen[-1] == 1
    seen[0] = 7
    assert x[:2].tolist() == [7, 1]
    del seen
    assert (x + 0)[:2].tolist() == [7, 1]


@pytest.mark.parametrize("is_kept", [False, True])
def test_arrays_that_nobody_keeps_become_ordinary_values(is_kept: bool) -> None:
    array = np.arange(4.0)
    x = lg.from_numpy(array if is_kept else array.copy())
    row = x[1:]
    assert (x * 2).tolist() == [0, 2, 4, 6]
    assert (x._share is None or x._share.cell.memory is None) == (not is_kept)
    x[2] = 9
    assert row.tolist() == [1, 9, 3]
    row.zero_()
    assert x.tolist() == [0, 0, 0, 0]
    assert array.tolist() == ([0, 0, 0, 0] if is_kept else [0, 1, 2, 3])


UNNAMED = {
    "computed": lambda x: (x * 2).numpy(),
    "detached": lambda x: (x * 2).detach().numpy(),
    "from a graph": lambda x: (x.clone().requires_grad_() * 2).detach().cpu().numpy(),
    "was there": lambda x: lg.full((3,), 2.0).numpy(),
}


@pytest.mark.parametrize("way", UNNAMED)
def test_what_has_no_name_is_given_away(way: str) -> None:
    x = lg.ones(3)
    arrays = [UNNAMED[way](x) for _ in range(4)]
    arrays[0][1] = 9
    others = [x * k for k in range(20)]  # which would be where memory is free
    assert arrays[0].tolist() == [2, 9, 2]
    assert [array.tolist() for array in arrays[1:]] == [[2, 2, 2]] * 3
    assert [y[1].item() for y in others] == list(range(20))
    assert x.tolist() == [1, 1, 1]


@pytest.mark.slow
def test_what_is_given_away_is_not_copied(python: Any) -> None:
    """In a process where nobody has functions asked: see overrides/asking.py."""
    python("""
import livegrad as lg
from livegrad.runtime import shared
x = lg.ones(3)
for array in (x * 2).numpy(), (x * 2).detach().numpy(), lg.full((3,), 2.0).numpy():
    assert type(array.base.owner).__name__ == ("Buffer" if shared._UNNAMED > 0 else "Lent")
assert type(x.numpy().base.owner).__name__ == "Lent"
""")


def test_what_others_have_is_not_given_away() -> None:
    x, kept = lg.ones(3, requires_grad=True), []

    def hidden() -> lg.Tensor:
        y = x.exp()
        kept.append((y * y).sum())  # whose gradient needs y
        return y.detach()

    hidden().numpy()[...] = 100.0
    hidden().numpy()[...] = 100.0
    sum(kept).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, 4 * np.exp(2.0)), rtol=1e-6)
    held = [lg.ones(3) * 4]
    method = held[0].numpy
    method()[0] = 5.0
    assert held[0].tolist() == [5.0, 4.0, 4.0]
    del held
    method()[1] = 6.0
    assert method().tolist() == [5.0, 6.0, 4.0]


def test_memory_nobody_may_write_stays_so() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    x = lg.as_tensor(array)
    seen = x.numpy()
    assert not seen.flags.writeable
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        seen.flags.writeable = True
    assert (x + 1).tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="read only"):
        x.add_(1)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_what_backward_needs_is_what_was_there(size: int) -> None:
    array = np.full(size, 3.0)
    x = lg.from_numpy(array)
    w = lg.ones(size, dtype=lg.float64, requires_grad=True)
    loss = (x * w).sum()
    x.fill_(5)  # in PyTorch this is an error: "modified by an inplace operation"
    loss.backward()
    assert w.grad[0].item() == 3
    assert array[0] == 5


def test_a_step_with_an_array_kept_is_planned_once(counted: Any) -> None:
    array = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    x = lg.from_numpy(array)
    layer = nn.Linear(3, 1)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        layer(x).square().mean().backward()
        optimizer.step()

    for _ in range(3):
        step()
    with counted() as c:
        for i in range(5):
            array[0, 0] = i
            step()
    assert (c.plan_misses, c.compiles, c.flushes) == (0, 0, 5)


def test_memory_is_ours_again_when_nobody_else_sees_it() -> None:
    x = lg.arange(3.0)
    array = x.numpy()
    array[0] = 7
    assert x._share.cell.memory is not None
    del array
    gc.collect()
    for _ in range(2):
        assert (x * 1).tolist() == [7, 1, 2]
    assert x._share is None
    y = lg.from_numpy(np.arange(3.0))  # nobody keeps the array
    for _ in range(2):
        assert (y * 1).tolist() == [0, 1, 2]
    assert y._share is None


def test_views_of_arrays_keep_them_shared() -> None:
    array = np.arange(6.0)
    part = array[1:3]
    x = lg.from_numpy(part)
    del array
    part[0] = 50
    assert x.tolist() == [50, 2]
    x[1] = 60
    assert part.tolist() == [50, 60]


def test_read_only_memory_is_not_written() -> None:
    x = lg.frombuffer(b"\x01\x02", dtype=lg.uint8)
    assert (x + 1).tolist() == [2, 3]
    with pytest.raises(RuntimeError, match="read only"):
        x.add_(1)
    assert x.tolist() == [1, 2]
    constant = np.ones(3)
    constant.flags.writeable = False
    with pytest.raises(RuntimeError, match="read only"):
        lg.from_numpy(constant).zero_()


def test_dtypes_and_layouts() -> None:
    for dtype in ("bool", "uint8", "int16", "int64", "float16", "float32", "complex64"):
        array = np.ones((2, 3, 4), dtype)[:, ::2].transpose(2, 0, 1)
        x = lg.from_numpy(array)
        assert x.stride() == tuple([step // array.itemsize for step in array.strides])
        x[0] = 0
        assert not array[0].any()
        array[1] = 0
        assert not x[1].any()
        assert x[2].all()
    assert lg.from_numpy(np.array(5)).item() == 5
    assert lg.from_numpy(np.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(ValueError, match="negative"):
        lg.from_numpy(np.arange(3)[::-1])


@pytest.mark.parametrize("make", [lg.tensor, lg.from_numpy], ids=["ours", "theirs"])
def test_parts_that_run_backwards_are_shared(make: Any) -> None:
    x = make(np.arange(12.0).reshape(3, 4))
    backwards, mixed = x[::-1].numpy(), x[1:, ::-2].numpy()
    assert backwards[:, 0].tolist() == [8, 4, 0]
    assert mixed.tolist() == [[7, 5], [11, 9]]
    backwards[0, 3] = -1
    mixed[0, 0] = -2
    assert x[2, 3] == -1
    assert x[1, 3] == -2
    x[1, 1] = -3
    assert mixed[0, 1] == -3


def test_optimizers_write_into_shared_memory() -> None:
    array = np.ones((2, 2), np.float32)
    p = nn.Parameter(lg.from_numpy(array))
    for make in (optim.SGD, optim.AdamW):
        p.grad = None
        (p * p).sum().backward()
        before = array.copy()
        make([p], lr=0.1).step()
        assert (array < before).all()
        assert array.tolist() == p.tolist()


def test_conjugates_are_copied() -> None:
    x = lg.tensor([1 + 2j])
    array = x.conj().numpy()
    array[0] = 0
    assert x.tolist() == [1 + 2j]


# ----------------------------------------------------------------------------------- processes


def _add(tensors: list[Any], gradient: Any) -> None:
    for t in tensors:
        with lg.no_grad():
            t += 1
    gradient.mul_(3)


def _train(model: nn.Module, steps: int) -> None:
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x = lg.tensor([[1.0, 0.0], [0.0, 1.0]])
    for _ in range(steps):
        optimizer.zero_grad()
        (model(x) - 1).square().mean().backward()
        optimizer.step()


def _in_process(method: str, target: Any, *args: Any) -> None:
    process = multiprocessing.get_context(method).Process(target=target, args=args)
    process.start()
    process.join(120)
    assert process.exitcode == 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_writes_and_the_parent_sees(method: str) -> None:
    x = lg.zeros(2, 3).share_memory_()
    assert x.is_shared()
    assert not lg.zeros(2).is_shared()
    p = nn.Parameter(lg.ones(3)).share_memory_()
    assert p.is_leaf
    assert p.requires_grad
    g = lg.ones(2).share_memory_()
    _in_process(method, _add, [x[1], p], g)
    assert x.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert p.tolist() == [2, 2, 2]
    assert g.tolist() == [3, 3]


def test_a_child_trains_the_model_of_its_parent() -> None:
    lg.manual_seed(0)
    model = nn.Linear(2, 1).share_memory()
    before = model.weight.detach().clone()
    _in_process("fork", _train, model, 20)
    assert not lg.equal(before, model.weight)
    assert (model(lg.eye(2)) - 1).abs().max().item() < 0.2
    _train(model, 5)  # and the parent goes on with it
    assert model.weight.is_shared()


def test_a_view_made_while_memory_is_lent_outlives_the_loan():
    x = lg.tensor([[-1, 1], [5, 3]])
    first, second = list(x)
    array = second.detach().numpy()
    view = first.view(2)
    del array
    assert view.tolist() == [-1, 1]
    view.add_(1)
    assert x.tolist() == [[0, 2], [5, 3]]
