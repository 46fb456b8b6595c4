"""The checks of one OpInfo: values, first and second gradients, in-place forms, errors.

A check is a generator of (sample number, [(column, verdict, reason)]). It announces a sample
through `at` before it runs it, so that whoever waits knows which one crashed or hung.
"""

from __future__ import annotations

import gc
import random
import unittest
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_device_type import toleranceOverride

import livegrad
from livegrad.graph.op import REGISTRY
from tests.conformance import opinfo_bridge as bridge
from tests.conformance.opinfo_bridge import Converter, Unsupported, brief, flatten, to_torch

PASS, FAIL, SKIP = "pass", "fail", "skip"
Outcome = tuple[str, str, str]
Announce = Callable[[int], None]

FORWARD = ("float32", "float64", "int64", "bool", "complex64")
FEW = 40  # samples of the checks that are one question only: in-place forms, out=
# PyTorch's own defaults (torch.testing.assert_close).
TOLERANCE = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
# Values that nobody promises: shape and dtype are compared.
UNINITIALISED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}


# Words in the names of ops that draw numbers, which now and then draw the same.
RANDOM = (
    "bernoulli",
    "binomial",
    "dropout",
    "fractional",
    "multinomial",
    "poisson",
    "rand",
    "rrelu",
)


class Mismatch(Exception):
    """A result that is not PyTorch's."""


# ------------------------------------------------------------------------------------- samples


def seeded(make: Callable[[], Any]) -> list[Any]:
    """All samples, the same in every process."""
    torch.manual_seed(1234)
    random.seed(1234)
    np.random.seed(1234)  # noqa: NPY002  (PyTorch's database draws from it)
    return list(make())


def chosen(samples: list[Any], most: int, start: int) -> list[int]:
    """Numbers of the samples to run, evenly spread if only some are."""
    count = len(samples)
    numbers = range(count) if count <= most else sorted({i * count // most for i in range(most)})
    return [i for i in numbers if i >= start]


def forward_dtypes(op: Any) -> list[str]:
    """The dtypes of `FORWARD` that PyTorch has the op for."""
    supported = op.supported_dtypes("cpu")
    return [name for name in FORWARD if getattr(torch, name) in supported]


def gradient_dtype(op: Any) -> torch.dtype | None:
    """float64 where the op has gradients, complex128 for ops of complex numbers only."""
    if not op.supports_autograd:
        return None
    supported = op.supported_backward_dtypes("cpu") & op.supported_dtypes("cpu")
    for dtype in (torch.float64, torch.complex128):
        if dtype in supported:
            return dtype
    return None


def units_of(op: Any) -> list[str]:
    """The checks that make sense for an OpInfo."""
    units = [f"forward {name}" for name in forward_dtypes(op)]
    if gradient_dtype(op) is not None:
        units.append("gradient")
        if torch.complex128 in op.supported_backward_dtypes("cpu"):
            units.append("complex")  # gradients of complex numbers, if asked for
    if op.inplace_variant is not None and bridge.find(f"Tensor.{op.name}_") is not None:
        units.append("inplace")
    if op.supports_out and find_spec("livegrad.ops.support.out") is not None:
        units.append("out")
    if op.error_inputs_func is not None:
        units.append("errors")
    return units


# ---------------------------------------------------------------------------------- comparing


def tolerance(op: Any, dtype: torch.dtype) -> tuple[float, float]:
    """PyTorch's default, or the widest that the OpInfo asks for on the CPU."""
    rtol, atol = TOLERANCE.get(dtype, (0.0, 0.0))
    for info in op.decorators:
        if getattr(info, "device_type", None) not in (None, "cpu"):
            continue
        for decorator in getattr(info, "decorators", [info]):
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                wanted = decorator.d[dtype]
                rtol, atol = max(rtol, wanted.rtol), max(atol, wanted.atol)
    return rtol, atol


def compare(got: Any, expected: Any, tolerance_of: Any, where: str = "result") -> None:
    """Raises Mismatch unless structure, shapes, dtypes and values agree."""
    if isinstance(expected, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(expected):
            raise Mismatch(f"{where}: got {_kind(got)}; expected {_kind(expected)}")
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            compare(a, b, tolerance_of, f"{where}[{i}]")
    elif isinstance(expected, dict):
        compare(list(got.items()), list(expected.items()), tolerance_of, where)
    elif isinstance(expected, torch.Tensor):
        _compare_tensors(got, expected, tolerance_of, where)
    elif isinstance(expected, float | complex) and isinstance(got, float | complex):
        kind = torch.complex128 if isinstance(expected, complex) else torch.float64
        pair = [torch.tensor(x, dtype=kind) for x in (got, expected)]
        _compare_tensors(*pair, tolerance_of, where)
    elif type(got) is not type(expected) or got != expected:
        raise Mismatch(f"{where}: got {got!r}; expected {expected!r}")


def _kind(x: Any) -> str:
    return f"{len(x)} results" if isinstance(x, list | tuple) else type(x).__name__


def _compare_tensors(got: Any, expected: torch.Tensor, tolerance_of: Any, where: str) -> None:
    if not isinstance(got, torch.Tensor):
        raise Mismatch(f"{where}: got {_kind(got)}; expected a tensor")
    if got.dtype is not expected.dtype:
        raise Mismatch(f"{where}: got {got.dtype}; expected {expected.dtype}")
    if got.shape != expected.shape:
        raise Mismatch(f"{where}: got {list(got.shape)}; expected {list(expected.shape)}")
    if tolerance_of is None:  # random or uninitialised
        return
    expected = expected.detach().resolve_conj().resolve_neg()
    rtol, atol = tolerance_of(got.dtype)
    close = torch.isclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)
    wrong = int((~close).sum())
    if wrong:
        first = (~close).flatten().nonzero()[0].item()
        a, b = got.flatten()[first].item(), expected.flatten()[first].item()
        raise Mismatch(f"{where}: {wrong} of {got.numel()} differ; got {a!r}; expected {b!r}")


def reason_of(error: BaseException) -> str:
    """One line for the list of failures."""
    text = " ".join(str(error).split())
    name = "" if isinstance(error, Mismatch) else f"{type(error).__name__}: "
    return f"{name}{text}"[:300]


def verdict(run: Callable[[], None]) -> tuple[str, str]:
    """Runs a comparison; what it raises is the reason of a failure."""
    try:
        run()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also what no program should see
        return FAIL, reason_of(error)
    return PASS, ""


# ----------------------------------------------------------------- results that are not unique


def _products(u: Any, s: Any, vh: Any) -> Any:
    k = s.shape[-1]
    return (u[..., :, :k] * s.unsqueeze(-2).to(u.dtype)) @ vh[..., :k, :]


def _gram(q: Any) -> Any:
    return q.mH @ q


def _svd(out: Any, sample: Any) -> Any:
    u, s, vh = out
    if not sample.kwargs.get("full_matrices", True) or u.numel():
        return [x.shape for x in out], s, _gram(u), _gram(vh.mH), _products(u, s, vh)
    return [x.shape for x in out], s


def _old_svd(out: Any, sample: Any) -> Any:
    u, s, v = out
    if sample.kwargs.get("compute_uv") is False or (sample.args[1:2] == (False,)):
        return out
    return [x.shape for x in out], s, _gram(u), _gram(v), _products(u, s, v.mH)


def _low_rank(out: Any, sample: Any, center: bool = False) -> Any:
    """U and V orthogonal, and U S V^H about as near to the matrix as can be."""
    u, s, v = out
    whole = sample.input @ sample.args[0].mH
    if sample.kwargs.get("M") is not None:
        whole = whole - sample.kwargs["M"]
    if sample.kwargs.get("center", center):
        whole = whole - whole.mean(-2, keepdim=True)
    rest = torch.linalg.svdvals(whole)[..., s.shape[-1] :]
    best = torch.linalg.vector_norm(rest, dim=-1)
    distance = torch.linalg.matrix_norm(whole - _products(u, s, v.mH))
    near = distance <= 1.5 * best + 1e-3 * torch.linalg.matrix_norm(whole)
    return [x.shape for x in out], _gram(u), _gram(v), near


def _eigenvalues(out: Any, sample: Any) -> Any:
    rounded = torch.view_as_real(out.to(torch.complex128)).mul(1e3).round()
    order = np.lexsort((rounded[..., 1].numpy(), rounded[..., 0].numpy()), axis=-1)
    return torch.take_along_dim(out, torch.from_numpy(order), -1)


def _eig(out: Any, sample: Any) -> Any:
    values, vectors = out
    scaled = sample.input.to(vectors.dtype) @ vectors - vectors * values.unsqueeze(-2)
    lengths = torch.linalg.vector_norm(vectors, dim=-2)
    return _eigenvalues(values, sample), vectors.shape, scaled, lengths


def _eigh(out: Any, sample: Any) -> Any:
    values, vectors = out
    whole = (vectors * values.unsqueeze(-2).to(vectors.dtype)) @ vectors.mH
    return values, vectors.shape, _gram(vectors), whole


def _by_index(out: Any, sample: Any) -> Any:
    """Equal values may be taken in any order: what the indices select is compared."""
    indices = out if isinstance(out, torch.Tensor) else out[1]
    dim = sample.kwargs.get("dim", next((a for a in sample.args[-2:] if type(a) is int), -1))
    flat = sample.input.detach()
    selected = torch.take_along_dim(flat, indices, dim) if flat.ndim else flat.expand_as(indices)
    return (selected,) if isinstance(out, torch.Tensor) else (out[0], selected)


def _sorted(out: Any, sample: Any) -> Any:
    stable = sample.kwargs.get("stable", False)
    first = next((a for a in sample.args if not isinstance(a, bool)), -1)
    named = SimpleNamespace(
        input=sample.input, args=(), kwargs={"dim": sample.kwargs.get("dim", first)}
    )
    return out if stable else _by_index(out, named)


def _selected(out: Any, sample: Any, before: int = 0) -> Any:
    """A value along a dim, and where one such is; `before` arguments come before the dim."""
    if isinstance(out, torch.Tensor):
        return out
    values, indices = out
    numbers = [a for a in sample.args[before:] if type(a) is int]
    given = sample.kwargs.get("dim", numbers[-1] if numbers else -1)
    flat = sample.input.detach()
    if not flat.ndim:
        return values, indices
    if indices.ndim < flat.ndim:
        indices = indices.unsqueeze(given)
    return values, torch.take_along_dim(flat, indices, given)


def _topk(out: Any, sample: Any) -> Any:
    dim = sample.kwargs.get("dim", sample.args[1] if len(sample.args) > 1 else -1)
    named = SimpleNamespace(input=sample.input, args=(), kwargs={"dim": dim})
    return _by_index(out, named)


# What is compared instead of the results: (PyTorch's or our results, sample) -> comparable things.
INVARIANTS: dict[str, Callable[[Any, Any], Any]] = {
    "linalg.svd": _svd,
    "svd": _old_svd,
    "svd_lowrank": _low_rank,
    "pca_lowrank": lambda out, sample: _low_rank(out, sample, center=True),
    "linalg.eig": _eig,
    "linalg.eigvals": _eigenvalues,
    "linalg.eigh": _eigh,
    "argsort": _sorted,
    "kthvalue": lambda out, sample: _selected(out, sample, 1),
    "median": _selected,
    "mode": _selected,
    "nanmedian": _selected,
    "sort": _sorted,
    "topk": _topk,
}


# ------------------------------------------------------------------------------------ forward

# Host ops that ran since the set was emptied: which ops have no native code.
host_calls: set[str] = set()


def watch_host_ops() -> None:
    """Makes each op of kind host note that it ran."""
    for op in REGISTRY.values():
        if op.kind == "host" and op.ref is not None:
            op.ref = _noting(op.name, op.ref)


def _noting(name: str, ref: Any) -> Any:
    def noting(*args: Any, **kwargs: Any) -> Any:
        host_calls.add(name)
        return ref(*args, **kwargs)

    return noting


def oracle(op: Any, sample: Any) -> tuple[Any, bool]:
    """PyTorch's result, and whether other seeds give the same."""

    def run(seed: int) -> Any:
        torch.manual_seed(seed)
        return op(_copy(sample.input), *_copy(sample.args), **_copy(sample.kwargs))

    expected = run(7)
    seeds = range(8, 24) if any(word in op.name for word in RANDOM) else range(8, 9)
    try:
        for seed in seeds:
            compare(run(seed), expected, lambda dtype: (0.0, 0.0))
    except Mismatch:
        return expected, False
    return expected, op.name not in UNINITIALISED


def _copy(x: Any) -> Any:
    """Arguments of their own, because some ops write to them."""
    if isinstance(x, torch.Tensor):
        return x.detach().clone() if x.is_leaf else x.clone()
    if type(x) in (list, tuple):
        return type(x)(map(_copy, x))
    if isinstance(x, dict):
        return {key: _copy(value) for key, value in x.items()}
    return x


def forward(op: Any, function: Any, name: str, number: Any, at: Announce) -> Iterator[Any]:
    """Values, shapes, dtypes and structure of the result."""
    dtype = getattr(torch, name)
    samples = seeded(lambda: op.sample_inputs("cpu", dtype))
    for i in number(samples):
        at(i)
        sample = samples[i]
        try:
            args, kwargs = Converter().call(sample)
            expected, repeatable = oracle(op, sample)
        except Unsupported as error:
            yield i, [(name, FAIL, reason_of(error))], sample
            continue
        except Exception as error:
            ours = isinstance(error.__traceback__, object) and _raised_by_us(error)
            yield i, [(name, FAIL if ours else SKIP, reason_of(error))], sample
            continue

        def run(
            args: Any = args, kwargs: Any = kwargs, expected: Any = expected, sample: Any = sample,
            repeatable: bool = repeatable,
        ) -> None:  # fmt: skip
            got = to_torch(function(*args, **kwargs))
            _compare_forward(op, sample, got, expected, repeatable)

        yield i, [(name, *verdict(run))], sample


def _raised_by_us(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if "/livegrad/" in trace.tb_frame.f_code.co_filename:
            return True
        trace = trace.tb_next
    return False


def _compare_forward(op: Any, sample: Any, got: Any, expected: Any, repeatable: bool) -> None:
    wanted = (lambda dtype: tolerance(op, dtype)) if repeatable else None
    invariant = INVARIANTS.get(op.name)
    if invariant is not None:
        compare(got, expected, None)
        got, expected = invariant(got, sample), invariant(_detached(expected), sample)
        wanted = lambda dtype: tolerance(op, dtype)
    try:
        compare(got, expected, wanted)
    except Mismatch:
        if invariant is not None or not repeatable or not as_exact(op, sample, got, expected):
            raise


_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}


def as_exact(op: Any, sample: Any, got: Any, expected: Any) -> bool:
    """Whether a float32 result is off no more than twice as much as PyTorch's own.

    The truth is PyTorch's result of the same inputs in float64.
    """
    try:
        truth = op(_wide(sample.input), *_wide(sample.args), **_wide(sample.kwargs))
    except Exception:
        return False
    triples = list(zip(flatten(got), flatten(expected), flatten(truth), strict=True))
    for mine, theirs, true in triples:
        if not isinstance(theirs, torch.Tensor) or theirs.dtype not in _WIDE:
            compare(mine, theirs, lambda dtype: (0.0, 0.0))
            continue
        if mine.dtype is not theirs.dtype or mine.shape != theirs.shape != true.shape:
            return False
        error = (theirs - true).abs()
        slack = 2 * float(error[error.isfinite()].max()) if error.isfinite().any() else 0.0
        rtol, atol = tolerance(op, mine.dtype)
        close = torch.isclose(
            mine.to(true.dtype), true, rtol=rtol, atol=atol + slack, equal_nan=True
        )
        if not bool(close.all()):
            return False
    return bool(triples)


def _wide(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.detach().to(_WIDE.get(x.dtype, x.dtype))
    if isinstance(x, torch.dtype):
        return _WIDE.get(x, x)
    if type(x) in (list, tuple):
        return type(x)(map(_wide, x))
    if isinstance(x, dict):
        return {key: _wide(value) for key, value in x.items()}
    return x


def _detached(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.detach()
    return tuple(map(_detached, x)) if isinstance(x, list | tuple) else x


# ---------------------------------------------------------------------------------- gradients


def known_wrong(op: Any) -> set[str]:
    """The columns in which PyTorch expects its own gradients to fail: it is no oracle there."""
    failing = {
        info.test_name
        for info in op.decorators
        if getattr(info, "cls_name", None) == "TestBwdGradients"
        and info.device_type in (None, "cpu")
        and unittest.expectedFailure in info.decorators
    }
    if "test_fn_grad" in failing:
        return {"gradient", "second"}
    return {"second"} if "test_fn_gradgrad" in failing else set()


def gradient(
    op: Any, function: Any, dtype: torch.dtype | None, number: Any, at: Announce
) -> Iterator[Any]:
    """First gradients, and second where PyTorch has them, for fixed random weights."""
    samples = seeded(lambda: op.sample_inputs("cpu", dtype, requires_grad=True))
    for i in number(samples):
        at(i)
        outcomes = _gradients(op, function, samples[i], i)
        yield i, [o for o in outcomes if o[0] not in known_wrong(op)], samples[i]


def _gradients(op: Any, function: Any, sample: Any, seed: int) -> list[Outcome]:
    found: list[Any] = flatten([sample.input, sample.args, sample.kwargs])
    leaves = list(
        {id(x): x for x in found if isinstance(x, torch.Tensor) and x.requires_grad}.values()
    )
    if not leaves:
        return []
    try:
        if not oracle(op, sample)[1]:
            return []
        outputs = _outputs(sample.output_process_fn_grad(_call_torch(op, sample)))
    except Exception:
        return []
    if not any(_flows(y) for y in outputs):
        return []
    draw = torch.Generator().manual_seed(seed)
    weights = [_random_like(y, draw).requires_grad_() for y in outputs if _flows(y)]
    second = bool(op.supports_gradgrad)
    try:
        firsts = torch.autograd.grad(
            [y for y in outputs if _flows(y)], leaves, weights,
            create_graph=second, allow_unused=True,
        )  # fmt: skip
        seconds, directions = (
            _second_of_torch(firsts, leaves, weights, draw) if second else ([], [])
        )
    except Exception:
        return []
    state: dict[str, Any] = {}

    def first() -> None:
        converter = Converter()
        args, kwargs = converter.call(sample)
        ours = _outputs(bridge.translated(sample.output_process_fn_grad)(function(*args, **kwargs)))
        if len(ours) != len(outputs):
            raise Mismatch(f"got {len(ours)} outputs; expected {len(outputs)}")
        ends = [mine for mine, theirs in zip(ours, outputs, strict=True) if _flows(theirs)]
        starts = [converter(x) for x in leaves]
        ws = [converter(w) for w in weights]
        # Through an empty result flows nothing, so that it need not be linked to anything.
        linked = [(y, w) for y, w in zip(ends, ws, strict=True) if y.numel() or y.requires_grad]
        got: Any = (None,) * len(starts)
        if linked:
            got = livegrad.autograd.grad(
                [y for y, _ in linked], starts, [w for _, w in linked],
                create_graph=second, allow_unused=True,
            )  # fmt: skip
        state.update(starts=starts, ws=ws, got=got)
        _compare_gradients(op, got, firsts, leaves)

    outcomes = [("gradient", *verdict(first))]
    if seconds:

        def twice() -> None:
            if "got" not in state:
                raise Mismatch("no first gradient")
            pairs = [
                (mine, bridge.to_livegrad(v))
                for mine, theirs, v in zip(state["got"], firsts, directions, strict=True)
                if theirs is not None and theirs.requires_grad
            ]
            flowing = [(g, v) for g, v in pairs if g is not None and g.requires_grad]
            if flowing:
                ends, vs = zip(*flowing, strict=True)
                starts = [*state["starts"], *state["ws"]]
                got = livegrad.autograd.grad(list(ends), starts, list(vs), allow_unused=True)
            else:
                got = (None,) * len(seconds)
            _compare_gradients(op, got, seconds, [*leaves, *weights])

        outcomes.append(("second", *verdict(twice)))
    return outcomes


def _second_of_torch(firsts: Any, leaves: Any, weights: Any, draw: Any) -> Any:
    directions = [None if g is None else _random_like(g, draw) for g in firsts]
    flowing = [
        (g, v) for g, v in zip(firsts, directions, strict=True) if g is not None and g.requires_grad
    ]
    if not flowing:
        return [], directions
    ends, vs = zip(*flowing, strict=True)
    return torch.autograd.grad(ends, [*leaves, *weights], vs, allow_unused=True), directions


def _call_torch(op: Any, sample: Any) -> Any:
    torch.manual_seed(7)
    # A copy of the input, because some ops write to it and leaves may not be written to.
    return op(_flowing_copy(sample.input), *sample.args, **sample.kwargs)


def _flowing_copy(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.clone() if x.requires_grad else x.detach().clone()
    return type(x)(map(_flowing_copy, x)) if type(x) in (list, tuple) else x


def _outputs(results: Any) -> list[Any]:
    """The results that may have gradients."""
    tensors = (torch.Tensor, livegrad.Tensor)
    return [
        y
        for y in flatten(results)
        if isinstance(y, tensors) and (y.dtype.is_floating_point or y.dtype.is_complex)
    ]


def _flows(y: Any) -> bool:
    return bool(y.requires_grad)


def _random_like(x: torch.Tensor, draw: Any) -> torch.Tensor:
    return torch.randn(x.shape, dtype=x.dtype, generator=draw)


def _compare_gradients(op: Any, got: Any, expected: Any, leaves: Any) -> None:
    rtol, atol = tolerance(op, torch.float64)

    def wanted(dtype: torch.dtype) -> tuple[float, float]:
        # A gradient sums many products: errors are relative to the largest entry, too.
        return max(rtol, 1e-6), max(atol, 1e-9 * largest)

    for i, (mine, theirs, leaf) in enumerate(zip(got, expected, leaves, strict=True)):
        a = torch.zeros_like(leaf) if mine is None else to_torch(mine)
        b = torch.zeros_like(leaf) if theirs is None else theirs
        finite = b.detach().abs()[torch.isfinite(b.detach().abs())]
        largest = float(finite.max()) if finite.numel() else 0.0
        compare(a, b, wanted, f"gradient {i}")


# --------------------------------------------------------------------- in-place forms and out=


def inplace(op: Any, number: Any, at: Announce) -> Iterator[Any]:
    """`x.name_(...)` leaves in `x` what PyTorch's leaves there."""
    ours = getattr(livegrad.Tensor, f"{op.name}_")
    dtype = _one_dtype(op)
    samples = [] if dtype is None else seeded(lambda: op.sample_inputs("cpu", dtype))
    for i in number(samples[:FEW]):
        sample = samples[i]
        if not isinstance(sample.input, torch.Tensor) or sample.broadcasts_input:
            continue
        at(i)
        try:
            args, kwargs = Converter().call(sample)
            expected, repeatable = _copy(sample.input), oracle(op, sample)[1]
            op.inplace_variant(expected, *_copy(sample.args), **_copy(sample.kwargs))
        except Exception:
            continue

        def run(
            args: Any = args, kwargs: Any = kwargs, expected: Any = expected, sample: Any = sample,
            repeatable: bool = repeatable,
        ) -> None:  # fmt: skip
            returned = ours(*args, **kwargs)
            if returned is not args[0]:
                raise Mismatch("the in-place form does not return its tensor")
            _compare_forward(op, sample, to_torch(args[0]), expected, repeatable)

        yield i, [("inplace", *verdict(run))], sample


def out(op: Any, function: Any, number: Any, at: Announce) -> Iterator[Any]:
    """`out=` takes the result, and is what is returned."""
    dtype = _one_dtype(op)
    samples = [] if dtype is None else seeded(lambda: op.sample_inputs("cpu", dtype))
    for i in number(samples[: FEW // 4]):
        sample = samples[i]
        at(i)
        try:
            args, kwargs = Converter().call(sample)
            expected, repeatable = oracle(op, sample)
            theirs = _empty_like(expected)
            op(sample.input, *sample.args, **sample.kwargs, out=theirs)
        except Exception:
            continue

        def run(
            args: Any = args, kwargs: Any = kwargs, expected: Any = expected, sample: Any = sample,
            repeatable: bool = repeatable,
        ) -> None:  # fmt: skip
            room = Converter()(_empty_like(expected))
            got = function(*args, **kwargs, out=room)
            same = got is room or (
                isinstance(got, tuple) and all(a is b for a, b in zip(got, room, strict=True))
            )
            if not same:
                raise Mismatch("out= is not what is returned")
            _compare_forward(op, sample, to_torch(room), expected, repeatable)

        yield i, [("out", *verdict(run))], sample


def _empty_like(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return torch.zeros_like(x, memory_format=torch.contiguous_format).detach()
    return tuple(map(_empty_like, x))


def _one_dtype(op: Any) -> torch.dtype | None:
    names = forward_dtypes(op)
    return getattr(torch, names[0]) if names else None


# -------------------------------------------------------------------------------------- errors


def errors(op: Any, function: Any, number: Any, at: Announce) -> Iterator[Any]:
    """Wrong arguments raise PyTorch's class, or one derived from it."""
    cases = seeded(lambda: op.error_inputs("cpu"))
    for i in number(cases):
        at(i)
        case = cases[i]
        sample = case.sample_input
        if not _raises(op, case):  # an error of another device or build
            continue
        try:
            converter = Converter(views="out" in sample.kwargs)
            args, kwargs = converter.call(sample)
            kwargs.update({k: converter(v) for k, v in sample.kwargs.items() if k == "device"})
        except Exception as error:
            yield i, [("errors", SKIP, reason_of(error))], sample
            continue

        def run(case: Any = case, args: Any = args, kwargs: Any = kwargs) -> None:
            try:
                got = function(*args, **kwargs)
                to_torch(got)
            except case.error_type:
                return
            except Exception as error:
                wanted = getattr(case.error_type, "__name__", case.error_type)
                raise Mismatch(
                    f"got {reason_of(error)}; expected {wanted}: {case.error_regex}"
                ) from None
            wanted = getattr(case.error_type, "__name__", case.error_type)
            raise Mismatch(f"nothing raised; expected {wanted}: {case.error_regex}")

        yield i, [("errors", *verdict(run))], sample


def _raises(op: Any, case: Any) -> bool:
    sample = case.sample_input
    try:
        op(_copy(sample.input), *sample.args, **sample.kwargs)
    except case.error_type:
        return True
    except Exception:
        return False
    return False


# --------------------------------------------------------------------------------------- a unit


def run_unit(
    op: Any, unit: str, most: int, start: int, at: Announce
) -> Iterator[tuple[int, list[Outcome], str]]:
    """Runs one check of an OpInfo on at most so many samples, from sample `start` on."""
    function = bridge.counterpart(op)

    def number(samples: list[Any]) -> list[int]:
        return chosen(samples, most, start)

    check, _, name = unit.partition(" ")
    if check == "forward":
        results = forward(op, function, name, number, at)
    elif check == "gradient":
        results = gradient(op, function, gradient_dtype(op), number, at)
    elif check == "complex":
        results = gradient(op, function, torch.complex128, number, at)
    elif check == "inplace":
        results = inplace(op, number, at)
    elif check == "out":
        results = out(op, function, number, at)
    else:
        results = errors(op, function, number, at)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, outcomes, sample in results:
            text = ""
            if any(verdict == FAIL for _, verdict, _ in outcomes):
                text = _brief(sample)
            yield i, outcomes, text
    gc.collect()


def _brief(sample: Any) -> str:
    parts = [brief(sample.input), *map(brief, sample.args)]
    if sample.kwargs:
        parts.append(brief(sample.kwargs))
    return ", ".join(parts)[:200]
