"""A group of one process: the same values and errors in PyTorch and livegrad."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.distributed

torch = pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch.distributed.optim

Call = Callable[[Any, Any], Any]


@pytest.fixture(scope="module")
def groups(tmp_path_factory: Any) -> Iterator[None]:
    place = tmp_path_factory.mktemp("store") / "file"
    for m in (torch, lg):
        m.distributed.init_process_group(
            "gloo", init_method=f"file://{place}", rank=0, world_size=1
        )
    yield
    for m in (torch, lg):
        m.distributed.destroy_process_group()


def written(function: str, *shapes: Any, at: int = 0, **kwargs: Any) -> Call:
    """A collective of tensors, or lists of them, with these shapes; and what is written then."""

    def call(m: Any, d: Any) -> Any:
        def made(i: int, shape: Any) -> Any:
            if isinstance(shape, list):
                return [made(i, x) for x in shape]
            if not isinstance(shape, tuple):
                return shape
            return m.arange(float(np.prod(shape))).reshape(shape) + 10 * i

        args = [made(i, shape) for i, shape in enumerate(shapes)]
        result = getattr(d, function)(*args, **kwargs)
        return result is None, args[at]

    return call


def store_calls(m: Any, d: Any) -> Any:
    s = d.HashStore()
    s.set("a", "1")
    found = [s.get("a"), s.add("n", 2), s.add("n", 3), s.num_keys(), s.check(["a", "n"])]
    found += [s.check(["a", "no"]), s.delete_key("a"), s.delete_key("a")]
    found += [s.compare_set("b", "", "x"), s.compare_set("b", "x", "y"), s.compare_set("b", "", "")]
    s.append("b", "z")
    found += s.multi_get(["b", "n"])
    s.multi_set(["q", "r"], ["1", "2"])
    found += sorted(s.list_keys())
    p = d.PrefixStore("pre", s)
    p.set("k", "v")
    return [*found, p.get("k"), s.get("pre/k")]


def missing_key(m: Any, d: Any) -> Any:
    d.HashStore().wait(["no"], timedelta(milliseconds=20))


def wrapped(m: Any, d: Any) -> Any:
    model = m.nn.parallel.DistributedDataParallel(m.nn.Linear(2, 3))
    model(m.ones(1, 2)).sum().backward()
    return repr(model), list(model.state_dict()), model.module.weight.grad


CALLS: dict[str, Call] = {
    "all_reduce": written("all_reduce", (2, 3)),
    "average": lambda m, d: written("all_reduce", (3,), op=d.ReduceOp.AVG)(m, d),
    "bits of floats": lambda m, d: written("all_reduce", (3,), op=d.ReduceOp.BAND)(m, d),
    "number": written("all_reduce", 3),
    "reduce": written("reduce", (3,), dst=0),
    "reduce to 1": written("reduce", (3,), dst=1),
    "broadcast": written("broadcast", (3,), src=0),
    "broadcast from 1": written("broadcast", (3,), src=1),
    "broadcast from nobody": written("broadcast", (3,)),
    "broadcast of a list": written("broadcast", [(3,)], src=0),
    "all_gather": written("all_gather", [(3,)], (3,)),
    "all_gather, two": written("all_gather", [(3,), (3,)], (3,)),
    "all_gather, shapes": written("all_gather", [(2,)], (3,)),
    "all_gather, dtypes": lambda m, d: d.all_gather([m.zeros(3, dtype=m.int32)], m.zeros(3)),
    "all_gather, no list": written("all_gather", (3,), (3,)),
    "gather": written("gather", (3,), [(3,)], at=1),
    "gather, no list": written("gather", (3,)),
    "gather elsewhere": written("gather", (3,), [(3,)], dst=1),
    "scatter": written("scatter", (3,), [(3,)]),
    "scatter, no list": written("scatter", (3,)),
    "reduce_scatter": written("reduce_scatter", (3,), [(3,)]),
    "reduce_scatter, two": written("reduce_scatter", (3,), [(3,), (3,)]),
    "all_to_all": written("all_to_all", [(3,)], [(3,)]),
    "all_to_all, shapes": written("all_to_all", [(3,)], [(2,)]),
    "all_to_all_single": written("all_to_all_single", (3,), (3,)),
    "all_to_all_single, shapes": written("all_to_all_single", (3,), (2,)),
    "all_to_all_single, sizes": written("all_to_all_single", (3,), (3,), [1]),
    "barrier": written("barrier", None),
    "send": written("send", (3,), dst=0),
    "twice": lambda m, d: d.init_process_group("gloo"),
    "group": lambda m, d: [f(d.new_group([0])) for f in (d.get_rank, d.get_world_size)],
    "group of others": lambda m, d: d.new_group([1]),
    "group of too many": lambda m, d: d.new_group([0, 1]),
    "backend": lambda m, d: [str(d.get_backend()), d.Backend("GLOO"), d.Backend.NCCL],
    "unknown backend": lambda m, d: d.Backend(3),
    "available": lambda m, d: [d.is_available(), d.is_initialized(), d.is_nccl_available()],
    "objects": lambda m, d: _objects(d),
    "no objects": lambda m, d: d.scatter_object_list([], [1]),
    "store": store_calls,
    "missing key": missing_key,
    "wrapped": wrapped,
    "nothing to learn": lambda m, d: m.nn.parallel.DistributedDataParallel(m.nn.ReLU()),
    "a GPU": lambda m, d: m.nn.parallel.DistributedDataParallel(m.nn.Linear(1, 1), [0]),
    "two GPUs": lambda m, d: m.nn.parallel.DistributedDataParallel(m.nn.Linear(1, 1), [0, 1]),
    "no hook": lambda m, d: _model(m).register_comm_hook(None, 3),
    "state too early": lambda m, d: _zero(m, d).state_dict(),
    "data parallel": lambda m, d: [
        repr(m.nn.DataParallel(m.nn.ReLU())), m.nn.DataParallel(m.nn.ReLU()).device_ids,
    ],
    "data_parallel": lambda m, d: m.nn.parallel.data_parallel(m.nn.ReLU(), m.ones(2)),
}  # fmt: skip


def _model(m: Any) -> Any:
    return m.nn.parallel.DistributedDataParallel(m.nn.Linear(1, 1))


def _zero(m: Any, d: Any) -> Any:
    return d.optim.ZeroRedundancyOptimizer(_model(m).parameters(), m.optim.Adam, lr=0.1)


def _objects(d: Any) -> Any:
    gathered, collected, scattered, sent = [None], [None], [None], [1, "two"]
    d.all_gather_object(gathered, {"a": 1})
    d.gather_object((2,), collected)
    d.scatter_object_list(scattered, ["x"])
    d.broadcast_object_list(sent, src=0)
    return gathered, collected, scattered, sent


def outcome(m: Any, call: Call) -> Any:
    try:
        return plain(call(m, m.distributed))
    except Exception as error:
        names = [c.__name__ for c in type(error).__mro__]
        return next(n for n in names if n != "DistStoreError")


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor | lg.Tensor):
        return value.detach().tolist()
    if isinstance(value, tuple | list):
        return [plain(x) for x in value]
    return value


@pytest.mark.parametrize("name", CALLS)
def test_as_in_pytorch(name: str, groups: None) -> None:
    assert outcome(torch, CALLS[name]) == outcome(lg, CALLS[name])
