"""autocast against PyTorch's on the CPU: the dtype of every result, and the values of many."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

import livegrad as lg  # noqa: E402
import livegrad.nn.functional as F  # noqa: E402
from livegrad import nn  # noqa: E402
from tests.conformance.opinfo_bridge import Converter, counterpart, flatten, to_torch  # noqa: E402

# Tolerances, relative to the largest value.
DTYPES = {"bfloat16": 2e-2, "float16": 1e-2}


def ours(name: str) -> Any:
    for place in (F, lg, lg.Tensor):
        if hasattr(place, name):
            return getattr(place, name)
    return None


def theirs(name: str) -> Any:
    for place in (torch.nn.functional, torch, torch._C._nn):
        if hasattr(place, name):
            return getattr(place, name)
    return None


def autocast_lists() -> Any:
    from torch.testing._internal.autocast_test_lists import AutocastCPUTestLists

    torch.manual_seed(0)
    return AutocastCPUTestLists("cpu")


def autocast_cases(lists: Any) -> dict[str, tuple[Any, ...]]:
    """(arguments, keywords) of the functions in PyTorch's own test lists, by name."""
    cases = {}
    for entry in lists.torch_16 + lists.torch_fp32 + lists.nn_16 + lists.nn_fp32:
        cases[entry[0]] = (entry[1], entry[2] if len(entry) > 2 else {})
    for name, args, *_ in lists.torch_expect_builtin_promote + lists.torch_need_autocast_promote:
        cases[name] = (args, {})
    # The lists have it as the C++ function, whose reduction is a number.
    cases["poisson_nll_loss"] = (cases["poisson_nll_loss"][0][:2], {})
    del cases["margin_ranking_loss"]  # arguments that only the C++ function takes
    return {name: case for name, case in cases.items() if ours(name) and theirs(name)}


LISTS = autocast_lists()
CASES = autocast_cases(LISTS)
LOW = {entry[0] for entry in LISTS.torch_16 + LISTS.nn_16}  # what computes in autocast's dtype


def test_most_of_pytorchs_lists_are_there() -> None:
    assert len(CASES) >= 38


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_functions_of_pytorchs_lists(name: str, dtype: str) -> None:
    if name in ("cat", "stack") and dtype == "float16":
        pytest.skip("PyTorch refuses bfloat16 there")
    args, kwargs = CASES[name]
    with torch.no_grad(), torch.autocast("cpu", getattr(torch, dtype)):
        result = theirs(name)(*args, **kwargs)
    expected = _exact(name, args, kwargs, dtype)
    convert = Converter()
    with lg.autocast("cpu", getattr(lg, dtype)):
        got = ours(name)(*map(convert, args), **{k: convert(v) for k, v in kwargs.items()})
    got = to_torch(got)
    assert got.dtype is result.dtype
    atol = DTYPES[dtype] * float(expected.abs().max())
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=atol)


def _exact(name: str, args: Any, kwargs: Any, dtype: str) -> Any:
    """In float64, of arguments rounded as autocast rounds them.

    How well PyTorch itself adds up in a low dtype depends on the processor.
    """

    def wide(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(wide, value))
        if not (isinstance(value, torch.Tensor) and value.is_floating_point()):
            return value
        return (value.to(getattr(torch, dtype)) if name in LOW else value).double()

    with torch.no_grad():
        return theirs(name)(*map(wide, args), **{k: wide(v) for k, v in kwargs.items()}).double()


# What autocast changes in PyTorch, and what it famously does not on the CPU.
NAMES = """
    addmm addbmm baddbmm addmv addr bmm mm mv dot vdot inner matmul __rmatmul__ einsum
    linalg.vecdot linalg.multi_dot linalg.matrix_power outer kron cov corrcoef
    nn.functional.linear nn.functional.bilinear nn.functional.conv1d nn.functional.conv2d
    nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d
    nn.functional.prelu nn.functional.scaled_dot_product_attention
    nn.functional.multi_head_attention_forward nn.functional.embedding
    cdist cholesky linalg.cholesky linalg.cholesky_ex linalg.svdvals linalg.cond
    linalg.householder_product linalg.tensorsolve view_as_complex polar stft quantile nanquantile
    prod trace fft.fft fft.rfft fft.irfft fft.fftn fft.hfft
    nn.functional.cross_entropy nn.functional.nll_loss nn.functional.mse_loss
    nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.huber_loss
    nn.functional.kl_div nn.functional.poisson_nll_loss nn.functional.ctc_loss
    nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits
    nn.functional.soft_margin_loss nn.functional.margin_ranking_loss
    nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss
    nn.functional.triplet_margin_loss nn.functional.cosine_embedding_loss
    nn.functional.hinge_embedding_loss nn.functional.gaussian_nll_loss
    nn.functional.multilabel_soft_margin_loss nn.functional.grid_sample
    nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.adaptive_avg_pool2d
    nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool3d nn.functional.max_pool2d
    nn.functional.max_unpool2d nn.functional.fractional_max_pool2d nn.functional.interpolate
    nn.functional.pad softmax log_softmax logsumexp nn.functional.softmin nn.functional.layer_norm
    nn.functional.batch_norm nn.functional.group_norm nn.functional.instance_norm
    nn.functional.rms_norm nn.functional.normalize nn.functional.gelu nn.functional.dropout
    exp log pow rsqrt sum mean std norm cumsum cumprod cat stack index_copy index_add where
    add mul div sub tanh sigmoid sort topk var_mean addcmul lerp atan2
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_of_the_op_database(name: str) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    compared = 0
    for op in [op for op in op_db if op.name == name]:
        function = counterpart(op)
        assert function is not None
        for dtype in (torch.float32, torch.bfloat16):
            for sample in _samples(op, dtype)[:4]:
                expected = _dtypes_in_torch(op, sample)
                if expected is None:
                    continue  # PyTorch has no such kernel
                args, kwargs = Converter().call(sample)
                with lg.no_grad(), lg.autocast("cpu", lg.bfloat16):
                    result = flatten(function(*args, **kwargs))
                got = [x.dtype.name for x in result if isinstance(x, lg.Tensor)]
                assert got == expected, (op.full_name, dtype, sample)
                compared += 1
    assert compared


def _samples(op: Any, dtype: Any) -> list[Any]:
    try:
        return list(op.sample_inputs("cpu", dtype))
    except (RuntimeError, NotImplementedError):  # made by a function that has no such kernel
        return []


def _dtypes_in_torch(op: Any, sample: Any) -> list[str] | None:
    try:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = flatten(op.op(sample.input, *sample.args, **sample.kwargs))
    except (RuntimeError, NotImplementedError):
        return None
    return [str(x.dtype).removeprefix("torch.") for x in result if isinstance(x, torch.Tensor)]


MODULES: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
    "Linear": ((4, 3), (2, 4)),
    "Conv2d": ((4, 3, 3), (2, 4, 8, 8)),
    "ConvTranspose1d": ((4, 3, 3), (2, 4, 8)),
    "LayerNorm": ((4,), (2, 4)),
    "BatchNorm1d": ((4,), (5, 4)),
    "GroupNorm": ((2, 4), (2, 4, 3)),
    "RNN": ((4, 3), (5, 2, 4)),
    "LSTM": ((4, 3), (5, 2, 4)),
    "TransformerEncoderLayer": ((4, 2, 8, 0.0), (5, 2, 4)),
}


@pytest.mark.parametrize("low", [False, True], ids=["float32 in", "bfloat16 in"])
@pytest.mark.parametrize("name", MODULES)
def test_modules_with_their_gradients(name: str, low: bool) -> None:
    if not hasattr(nn, name):
        pytest.skip(f"no nn.{name}")
    options, shape = MODULES[name]
    torch.manual_seed(0)
    theirs, ours = getattr(torch.nn, name)(*options), getattr(nn, name)(*options)
    ours.load_state_dict({k: lg.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x, y = torch.tensor(values), lg.tensor(values)
    if low:
        x, y = x.bfloat16(), y.to(lg.bfloat16)
    expected = _output_in_torch(theirs, x)
    with lg.autocast("cpu", lg.bfloat16):
        got = ours(y)
    got = got[0] if isinstance(got, tuple) else got
    assert got.dtype.name == str(expected.dtype).removeprefix("torch.")
    torch.testing.assert_close(to_torch(got), expected.detach(), rtol=3e-2, atol=3e-2)
    expected.float().square().sum().backward()
    got.float().square().sum().backward()
    for (key, p), q in zip(theirs.named_parameters(), ours.parameters(), strict=True):
        assert q.grad.dtype is lg.float32
        scale = float(p.grad.abs().max())
        torch.testing.assert_close(
            to_torch(q.grad), p.grad, rtol=5e-2, atol=5e-2 * max(scale, 1), msg=key
        )


def _output_in_torch(module: Any, x: Any) -> Any:
    """Without oneDNN where that has no such kernel for this processor (LSTMs need AVX-512)."""
    with torch.autocast("cpu", torch.bfloat16):
        try:
            result = module(x)
        except RuntimeError as error:
            if "could not create a primitive" not in str(error):
                raise
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with torch.backends.mkldnn.flags(enabled=False):
                    return module(x)[0].to(torch.bfloat16)
    return result[0] if isinstance(result, tuple) else result


def test_grad_scaler_follows_pytorchs() -> None:
    """The same losses, some of them infinite: the same scales, and the same steps skipped."""
    p, q = torch.nn.Parameter(torch.ones(3)), nn.Parameter(lg.ones(3))
    pairs = [
        (torch.optim.SGD([p], 0.1), torch.amp.GradScaler("cpu", 1024.0, growth_interval=2)),
        (lg.optim.SGD([q], 0.1), lg.amp.GradScaler("cpu", 1024.0, growth_interval=2)),
    ]
    for factor in (1.0, 2.0, 3e38, 1.0, 1.0, 1.0, float("nan"), 0.5):
        for x, (optimizer, scaler) in zip((p, q), pairs, strict=True):
            optimizer.zero_grad()
            scaler.scale((x * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        assert pairs[0][1].state_dict() == pairs[1][1].state_dict()
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-6)
