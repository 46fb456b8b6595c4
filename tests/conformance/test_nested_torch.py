"""Nested tensors: values, sizes, gradients and classes of errors as in PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import livegrad as lg  # noqa: E402
import livegrad.nested  # noqa: E402
import livegrad.nn.functional  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
COUNTS = (2, 4, 1)
PARTS = [RNG.standard_normal((n, 6)).astype(np.float32) for n in COUNTS]
OTHER = [RNG.standard_normal((n, 6)).astype(np.float32) for n in (3, 1, 5)]
IDS = [RNG.integers(0, 5, n) for n in COUNTS]
MATRIX = RNG.standard_normal((6, 3)).astype(np.float32)
BATCHED = RNG.standard_normal((3, 6, 2)).astype(np.float32)
ROW = RNG.standard_normal((3, 1, 6)).astype(np.float32)
FULL = RNG.standard_normal((3, 4, 6)).astype(np.float32)


class World:
    """The same leaves in PyTorch or here."""

    def __init__(self, t: Any, layout: str) -> None:
        self.t, self.F = t, t.nn.functional
        self.parts = [t.tensor(x, requires_grad=True) for x in PARTS]
        self.n = t.nested.as_nested_tensor(self.parts, layout=getattr(t, layout))
        self.other = t.nested.as_nested_tensor(
            [t.tensor(x) for x in OTHER], layout=getattr(t, layout)
        )
        self.ids = t.nested.nested_tensor([t.tensor(x) for x in IDS], layout=getattr(t, layout))
        self.matrix = t.tensor(MATRIX, requires_grad=True)
        self.batched = t.tensor(BATCHED, requires_grad=True)
        self.row = t.tensor(ROW, requires_grad=True)
        self.full = t.tensor(FULL, requires_grad=True)

    def heads(self, x: Any) -> Any:
        return x.unflatten(-1, (2, 3)).transpose(1, 2)

    def leaves(self) -> list[Any]:
        return [*self.parts, self.matrix, self.batched, self.row, self.full]


def parts_of(y: Any) -> list[Any]:
    if isinstance(y, tuple | list):
        return [p for x in y for p in parts_of(x)]
    return list(y.unbind()) if getattr(y, "is_nested", False) else [y]


def ragged(shape: Any) -> list[Any]:
    return [size if isinstance(size, int) else "ragged" for size in shape]


def sizes_of(y: Any, layout: str) -> Any:
    if isinstance(y, tuple | list):
        return [sizes_of(x, layout) for x in y]
    if not hasattr(y, "is_nested") or (y.is_nested and layout == "strided"):
        return None
    return ragged(y.shape)


def run(t: Any, program: Any, layout: str) -> tuple[Any, ...]:
    w = World(t, layout)
    try:
        y = program(w)
    except Exception as error:
        return type(error), str(error)
    parts = parts_of(y)
    learning = [p for p in parts if getattr(p, "requires_grad", False)]
    if learning:
        total = sum([(p * (i + 1)).sin().sum() for i, p in enumerate(learning)])
        try:
            total.backward()
        except (
            NotImplementedError,
            RuntimeError,
            AttributeError,
            ValueError,
        ):  # PyTorch lacks some of them
            if t is lg:
                raise
            return values_of(t, parts), None, sizes_of(y, layout), dtypes_of(parts)
    grads = [None if x.grad is None else x.grad.numpy() for x in w.leaves()]
    return values_of(t, parts), grads, sizes_of(y, layout), dtypes_of(parts)


def values_of(t: Any, parts: list[Any]) -> list[Any]:
    return [p.detach().numpy() if isinstance(p, t.Tensor) else p for p in parts]


def dtypes_of(parts: list[Any]) -> list[str]:
    return [str(getattr(p, "dtype", "")) for p in parts]


JAGGED: dict[str, Any] = {
    "itself": lambda w: w.n,
    "number": lambda w: w.n * 2 + 1,
    "reversed": lambda w: 1 - w.n / 2,
    "power": lambda w: 2**w.n,
    "pair": lambda w: w.n * w.n.sin(),
    "row": lambda w: w.n + w.row,
    "vector": lambda w: w.n * w.row[0, 0],
    "full": lambda w: w.n * w.full,
    "compared": lambda w: w.n > 0,
    "where": lambda w: w.t.where(w.n > 0, w.n, w.n * 0.1),
    "filled": lambda w: w.n.masked_fill(w.n > 0, 0.5),
    "not alike": lambda w: w.n + w.other,
    "gelu": lambda w: w.F.gelu(w.n),
    "silu": lambda w: w.F.silu(w.n),
    "clamp": lambda w: w.n.clamp(-0.5, 0.5),
    "dropout off": lambda w: w.F.dropout(w.n, 0.5, training=False),
    "double": lambda w: w.n.to(w.t.float64),
    "half": lambda w: w.n.half(),
    "clone": lambda w: w.n.clone(),
    "detach": lambda w: w.n.detach(),
    "linear": lambda w: w.F.linear(w.n, w.matrix.t(), w.matrix[0]),
    "linear of heads": lambda w: w.F.linear(w.n.unflatten(-1, (2, 3)), w.matrix[:3]),
    "matmul": lambda w: w.n @ w.matrix,
    "matmul of its own": lambda w: w.n @ w.batched,
    "bmm": lambda w: w.t.bmm(w.n, w.batched),
    "matmul over ragged": lambda w: w.n.transpose(1, 2) @ w.n,
    "matmul refused": lambda w: w.n @ w.n,
    "embedding": lambda w: w.F.embedding(w.ids, w.matrix),
    "layer norm": lambda w: w.F.layer_norm(w.n, (6,), w.row[0, 0], w.row[1, 0]),
    "rms norm": lambda w: w.F.rms_norm(w.n, (6,)),
    "softmax": lambda w: w.n.softmax(-1),
    "softmax ragged": lambda w: w.n.softmax(1),
    "log softmax": lambda w: w.t.log_softmax(w.n, -1),
    "sum": lambda w: w.n.sum(),
    "sum ragged": lambda w: w.n.sum(1),
    "sum ragged kept": lambda w: w.n.sum(1, keepdim=True),
    "sum dense": lambda w: w.n.sum(-1),
    "sum dense kept": lambda w: w.n.sum(-1, keepdim=True),
    "sum of rows": lambda w: w.n.sum((0, 1)),
    "sum of rows kept": lambda w: w.n.sum((0, 1), keepdim=True),
    "sum refused": lambda w: w.n.sum(0),
    "sum refused, too": lambda w: w.n.sum((1, 2)),
    "mean": lambda w: w.n.mean(),
    "mean ragged": lambda w: w.n.mean(1),
    "mean dense": lambda w: w.n.mean(2),
    "amax ragged": lambda w: w.n.amax(1),
    "amin dense": lambda w: w.n.amin(2),
    "max ragged": lambda w: w.n.max(1),
    "argmax ragged": lambda w: w.n.argmax(1),
    "prod ragged": lambda w: w.n.prod(1),
    "any": lambda w: (w.n > 1).any(1),
    "all": lambda w: (w.n > -9).all(),
    "out of range": lambda w: w.n.sum(4),
    "transpose": lambda w: w.n.transpose(1, 2),
    "transpose refused": lambda w: w.n.transpose(0, 1),
    "permute": lambda w: w.n.unflatten(-1, (2, 3)).permute(0, 2, 1, 3),
    "heads": lambda w: w.heads(w.n),
    "heads and back": lambda w: w.heads(w.n).transpose(1, 2).flatten(-2),
    "sum of heads": lambda w: w.heads(w.n).sum(2),
    "unary of heads": lambda w: w.heads(w.n).exp(),
    "pair of heads": lambda w: w.heads(w.n) * w.heads(w.n.sin()),
    "view": lambda w: w.n.view(3, -1, 2, 3),
    "reshape": lambda w: w.n.reshape(3, -1, 3, 2),
    "view refused": lambda w: w.n.view(3, 14),
    "flatten refused": lambda w: w.n.flatten(0, 1),
    "unsqueeze": lambda w: w.n.unsqueeze(-1),
    "unsqueeze before": lambda w: w.n.unsqueeze(1),
    "unsqueeze refused": lambda w: w.n.unsqueeze(0),
    "squeeze": lambda w: w.n.unsqueeze(-1).squeeze(-1),
    "chunk": lambda w: w.n.chunk(3, -1),
    "chunk of components": lambda w: w.n.chunk(2, 0),
    # split by sizes: PyTorch's gradient ends the process
    "cat": lambda w: w.t.cat([w.n, w.n * 2], -1),
    "cat refused": lambda w: w.t.cat([w.n, w.n], 0),
    "component": lambda w: w.n[1],
    "last component": lambda w: w.n[-1],
    "part": lambda w: w.n[..., 1:4],
    "select": lambda w: w.n.select(2, 1),
    "unbind": lambda w: w.n.unbind(),
    "padded": lambda w: w.t.nested.to_padded_tensor(w.n, -1.0),
    "padded further": lambda w: w.t.nested.to_padded_tensor(w.n, 0.5, (3, 7, 6)),
    "padded too little": lambda w: w.t.nested.to_padded_tensor(w.n, 0.5, (3, 2, 6)),
    "attention": lambda w: w.F.scaled_dot_product_attention(
        w.heads(w.n), w.heads(w.n * 2), w.heads(w.n.sin())
    ),
    "zeros like": lambda w: w.t.zeros_like(w.n),
    "narrowed": lambda w: w.t.nested.narrow(
        w.full, 1, w.t.tensor([0, 1, 2]), w.t.tensor([2, 3, 1]), layout=w.t.jagged
    ),
    "narrowed and packed": lambda w: w.t.nested.narrow(
        w.full, 1, 1, w.t.tensor([2, 3, 1]), layout=w.t.jagged
    ).contiguous(),
    "narrowed, computed": lambda w: w.t.nested.narrow(
        w.full, 1, 0, w.t.tensor([2, 3, 1]), layout=w.t.jagged
    ).exp(),
    "from jagged": lambda w: w.t.nested.nested_tensor_from_jagged(
        w.matrix, w.t.tensor([0, 2, 2, 6])
    ),
    "from lengths": lambda w: w.t.nested.nested_tensor_from_jagged(
        w.matrix, lengths=w.t.tensor([1, 5])
    ),
    "an empty component": lambda w: w.t.nested.nested_tensor_from_jagged(
        w.matrix, w.t.tensor([0, 2, 2, 6])
    ).sum(1),
    "masked select": lambda w: w.t.nested.masked_select(w.matrix, w.matrix > 0),
    "dense as nested": lambda w: w.t.nested.as_nested_tensor(w.full, layout=w.t.jagged),
}
STRIDED: dict[str, Any] = {
    name: JAGGED[name]
    for name in (
        "itself", "number", "pair", "gelu", "clone", "detach", "double", "linear", "layer norm",
        "softmax", "component", "last component", "unbind", "padded", "padded further",
        "padded too little", "transpose", "sum dense kept", "not alike",
    )
} | {
    "different shapes": lambda w: w.t.nested.nested_tensor(
        [w.t.ones(2, 3), w.t.ones(1, 5)]
    ) * 2,
    "product": lambda w: w.n.matmul(w.n.transpose(1, 2)),
    "padded, different": lambda w: w.t.nested.to_padded_tensor(
        w.t.nested.nested_tensor([w.t.ones(2, 3), w.t.ones(1, 5)]), 7.0
    ),
    "dense as nested": lambda w: w.t.nested.as_nested_tensor(w.full),
}  # fmt: skip
# PyTorch's gradient of two equal rows does not add up to 0, as it must.
WRONG_GRADIENTS = ("softmax ragged",)
CASES = [("jagged", n) for n in JAGGED] + [("strided", n) for n in STRIDED]


@pytest.mark.parametrize(("layout", "name"), CASES)
def test_programs(layout: str, name: str) -> None:
    program = (JAGGED if layout == "jagged" else STRIDED)[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = run(torch, program, layout), run(lg, program, layout)
    assert len(theirs) == len(ours), f"{theirs} and {ours}"
    if len(theirs) == 2:
        assert theirs[0] is ours[0], f"{theirs} and {ours}"
        return
    assert [t.replace("torch", "livegrad") for t in theirs[3]] == ours[3]
    assert theirs[2] == ours[2]
    pairs = list(zip(theirs[0], ours[0], strict=True))
    if theirs[1] is not None and name not in WRONG_GRADIENTS:
        pairs += zip(theirs[1], ours[1], strict=True)
    for a, b in pairs:
        if a is None or b is None:
            assert a is b
        else:
            np.testing.assert_allclose(b, a, 1e-5, 1e-6)


WRITTEN: list[Any] = [
    lambda n: n,
    lambda n: n.unflatten(-1, (2, 3)).transpose(1, 2),
    lambda n: n.sum(-1),
    lambda n: n.shape,
    lambda n: n.size(),
    lambda n: n.size(2),
    lambda n: n.dim(),
    lambda n: len(n),
    lambda n: n.numel(),
    lambda n: n.offsets(),
    lambda n: n.lengths(),
    lambda n: n.values(),
    lambda n: n.layout,
    lambda n: (n.is_nested, n.is_leaf, n.requires_grad, n.is_contiguous()),
    lambda n: n.transpose(1, 2).is_contiguous(),
    lambda n: n.shape == n.clone().shape,
    lambda n: n.stride(),
]


@pytest.mark.parametrize("place", range(len(WRITTEN)))
def test_what_is_said(place: int) -> None:
    said = []
    for t in (torch, lg):
        n = t.nested.nested_tensor([t.tensor(x) for x in PARTS], layout=t.jagged)
        text = str(WRITTEN[place](n)).replace("livegrad", "torch")
        said.append(text.replace(str(n.size(1)), "j"))
    assert said[0] == said[1]


def test_a_strided_one_is_printed_alike() -> None:
    said = [str(t.nested.nested_tensor([[1.0, 2.0], [3.0]])) for t in (torch, lg)]
    assert said[0] == said[1]


@pytest.mark.parametrize("options", [{}, {"activation": "gelu"}, {"norm_first": True}])
@pytest.mark.parametrize("padding", [[[0, 0, 1], [0, 1, 1]], [[1, 0, 0], [0, 0, 1]]])
@pytest.mark.parametrize("grad", [True, False])
def test_padding_of_an_encoder(options: Any, padding: Any, grad: bool) -> None:
    """Where PyTorch computes without padding, its rows are 0."""
    x = RNG.standard_normal((2, 3, 8)).astype(np.float32)
    models = []
    for t in (torch, lg):
        layer = t.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options)
        models.append(t.nn.TransformerEncoder(layer, 2, norm=t.nn.LayerNorm(8)).eval())
    weights = {k: lg.tensor(v.numpy()) for k, v in models[0].state_dict().items()}
    models[1].load_state_dict(weights)
    results = []
    for t, model in zip((torch, lg), models, strict=True):
        with t.set_grad_enabled(grad):
            mask = t.tensor(padding, dtype=t.bool)
            results.append(model(t.tensor(x), src_key_padding_mask=mask).detach().numpy())
    np.testing.assert_allclose(results[1], results[0], 1e-4, 1e-5)
