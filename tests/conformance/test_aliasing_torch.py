"""Two views and a write, in all combinations: what changes, and how it lies, is PyTorch's.

    base ──first──► middle ──second──► view          a write to one of the three

The values of all three and their strides, offsets and contiguity are compared, and the class of an
error, after which nothing may have changed. Two bases get every write, the others a few, all
node by node; two writes also run compiled: what a test records is then one flush.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

import livegrad as lg
from livegrad.graph.state import reference_mode

torch = pytest.importorskip("torch")

BASES: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda T: T.arange(24.0).reshape(2, 3, 4),
    "permuted": lambda T: T.arange(24.0).reshape(4, 3, 2).permute(2, 1, 0),
    "strided": lambda T: T.arange(48.0).reshape(2, 3, 8)[:, :, 1::2],
    "matrix": lambda T: T.arange(9.0).reshape(3, 3),
    "complex": lambda T: T.arange(12.0).reshape(2, 6) * (1 + 2j),
}

VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "view flat": lambda T, x: x.view(-1),
    "view": lambda T, x: x.view(x.shape[0], -1),
    "view_as": lambda T, x: x.view_as(x),
    "view dtype": lambda T, x: x.view(T.int32),
    "view bytes": lambda T, x: x.view(T.uint8),
    "reshape": lambda T, x: x.reshape(-1, x.shape[0]),
    "reshape same": lambda T, x: x.reshape(x.shape),
    "flatten": lambda T, x: x.flatten(),
    "flatten last": lambda T, x: x.flatten(1),
    "ravel": lambda T, x: x.ravel(),
    "unflatten": lambda T, x: x.unflatten(-1, (2, -1)),
    "contiguous": lambda T, x: x.contiguous(),
    "clone": lambda T, x: x.clone(),
    "to same": lambda T, x: x.to(x.dtype),
    "to copy": lambda T, x: x.to(x.dtype, copy=True),
    "to other": lambda T, x: x.to(T.float64),
    "transpose": lambda T, x: x.transpose(0, -1),
    "swapaxes": lambda T, x: x.swapaxes(0, 1),
    "permute": lambda T, x: x.permute(*reversed(range(x.dim()))),
    "movedim": lambda T, x: x.movedim(0, -1),
    "mT": lambda T, x: x.mT,
    "t": lambda T, x: x.t(),
    "expand": lambda T, x: x.expand(2, *x.shape),
    "expand same": lambda T, x: x.expand_as(x),
    "broadcast": lambda T, x: T.broadcast_to(x[..., :1], x.shape),
    "squeeze": lambda T, x: x[:1].squeeze(),
    "unsqueeze": lambda T, x: x.unsqueeze(1),
    "diagonal": lambda T, x: x.diagonal(0, -2, -1),
    "select": lambda T, x: x.select(-1, 1),
    "narrow": lambda T, x: x.narrow(-1, 1, 2),
    "unfold": lambda T, x: x.unfold(-1, 2, 1),
    "unfold apart": lambda T, x: x.unfold(-1, 2, 2),
    "as_strided": lambda T, x: x.as_strided((2, 2), (3, 1), 1),
    "as_strided overlap": lambda T, x: x.as_strided((2, 2), (1, 1)),
    "chunk": lambda T, x: x.chunk(2, -1)[-1],
    "split": lambda T, x: x.split(2, -1)[0],
    "unbind": lambda T, x: x.unbind(-1)[1],
    "int": lambda T, x: x[-1],
    "slice": lambda T, x: x[..., ::2],
    "None": lambda T, x: x[:, None],
    "0-d tensor": lambda T, x: x[T.tensor(1)],
    "index tensor": lambda T, x: x[T.tensor([1, 0])],
    "mask": lambda T, x: x[x == x],
    "detach": lambda T, x: x.detach(),
    "data": lambda T, x: x.data,
    "Parameter": lambda T, x: T.nn.Parameter(x),
    "real": lambda T, x: x.real,
    "imag": lambda T, x: x.imag,
    "view_as_real": lambda T, x: T.view_as_real(x),
    "flip": lambda T, x: x.flip(0),
    "as_tensor": lambda T, x: T.as_tensor(x),
}


def add_in_place(x: Any) -> None:
    x += 1


def under_no_grad(T: Any, x: Any) -> None:
    with T.no_grad():
        x.mul_(2)


# A write gets the library, the base, the middle and the view.
WRITES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "view.zero_": lambda T, b, m, v: v.zero_(),
    "view.add_": lambda T, b, m, v: v.add_(1),
    "view.copy_": lambda T, b, m, v: v.copy_(T.arange(v.numel()).reshape(v.shape) + 100),
    "view.fill_": lambda T, b, m, v: v.fill_(7),
    "view[0] =": lambda T, b, m, v: v.__setitem__(0, 50),
    "view[..., ::2] =": lambda T, b, m, v: v.__setitem__((..., slice(None, None, 2)), 60),
    "view.masked_fill_": lambda T, b, m, v: v.masked_fill_(v.real > 5, 1),
    "view.index_put_": lambda T, b, m, v: v.index_put_((T.tensor([0]),), v[:1] + 1),
    "view +=": lambda T, b, m, v: add_in_place(v),
    "view.data.mul_": lambda T, b, m, v: v.data.mul_(3),
    "view.mul_ under no_grad": lambda T, b, m, v: under_no_grad(T, v),
    "middle.add_": lambda T, b, m, v: m.add_(1),
    "middle.detach().zero_": lambda T, b, m, v: m.detach().zero_(),
    "base.mul_": lambda T, b, m, v: b.mul_(2),
}
FEW = ("view.add_", "view[..., ::2] =", "view.data.mul_", "middle.detach().zero_", "base.mul_")
WRITES["nothing"] = lambda T, b, m, v: None


def tensors(T: Any, base: str, first: str, second: str, write: str) -> tuple[list[Any], Any]:
    """What a combination leaves, and the class of the error that it raised."""
    found = [BASES[base](T)]
    try:
        found.append(VIEWS[first](T, found[0]))
        found.append(VIEWS[second](T, found[1]))
        WRITES[write](T, *found)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return found, type(error)
    return found, None


ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "dtype": lambda x: str(x.dtype).split(".")[-1],
    "shape": lambda x: tuple(x.shape),
    "value": lambda x: x.tolist(),
    "stride": lambda x: tuple(x.stride()),
    "offset": lambda x: x.storage_offset(),
    "is_contiguous": lambda x: x.is_contiguous(),
    "requires_grad": lambda x: x.requires_grad,
    "is_leaf": lambda x: x.is_leaf,
}


def answer(attribute: str, x: Any) -> Any:
    """An attribute, or the class of its error: PyTorch gives up some views of what is written."""
    try:
        return ATTRIBUTES[attribute](x)
    except RuntimeError as error:
        return type(error)


def combinations(base: str, first: str, writes: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Every second view with every write; without a write where PyTorch refuses the views."""
    for second in VIEWS:
        _, refused = tensors(torch, base, first, second, "nothing")
        for write in writes if refused is None else ("nothing",):
            yield first, second, write


def differences(base: str, first: str, writes: Iterable[str]) -> list[str]:
    """How the combinations that begin with a view differ from PyTorch's."""
    cases = list(combinations(base, first, writes))
    mine = [tensors(lg, base, *case) for case in cases]  # all recorded before any is read
    found = []
    for case, (got, error) in zip(cases, mine, strict=True):
        want, wanted_error = tensors(torch, base, *case)
        if (different := how(want, wanted_error, got, error)) is not None:
            found.append(f"{base}, {', '.join(case)}: {different}")
    return found


def how(want: list[Any], wanted_error: Any, got: list[Any], error: Any) -> str | None:
    if error is not wanted_error:
        return f"torch raises {wanted_error}, livegrad {error}"
    for name, a, b in zip(("base", "middle", "view"), want, got, strict=False):
        for attribute in ATTRIBUTES:
            x, y = answer(attribute, a), answer(attribute, b)
            if x != y:
                return f"{name}'s {attribute}: torch {x}, livegrad {y}"
    return None


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("first", VIEWS)
@pytest.mark.filterwarnings("ignore")
def test_pairs_of_views_and_a_write(base, first):
    with reference_mode():
        found = differences(base, first, WRITES if base in ("contiguous", "permuted") else FEW)
    assert not found, report(found)


@pytest.mark.parametrize("first", VIEWS)
@pytest.mark.filterwarnings("ignore")
def test_compiled(first):
    found = differences("permuted", first, ("view.add_", "base.mul_"))
    assert not found, report(found)


def report(found: list[str]) -> str:
    return "\n".join([f"{len(found)} combinations differ", *found[:40]])
