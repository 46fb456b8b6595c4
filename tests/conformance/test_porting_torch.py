"""Names around operations answer as PyTorch's do."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from typing import Any

import pytest
import torch

import livegrad as lg
from livegrad.porting import hook, names
from livegrad.porting.checking import is_there


def outcome(call: Any) -> Any:
    """A plain result, or the class of an error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize(
    "name",
    "is_available device_count is_initialized is_bf16_supported is_tf32_supported memory_allocated "
    "max_memory_allocated memory_reserved empty_cache get_arch_list get_rng_state_all "
    "current_device current_stream default_stream synchronize get_device_name mem_get_info init "
    "get_device_properties Event Stream get_rng_state initial_seed seed memory_stats".split(),
)
@pytest.mark.parametrize("device", ["cuda", "xpu"])
def test_an_absent_gpu(device: str, name: str) -> None:
    theirs = getattr(getattr(torch, device), name, None)
    ours = getattr(getattr(lg, device), name, None)
    if theirs is None or (device, name) == ("xpu", "default_stream"):
        pytest.skip("only in one of the modules")
    assert outcome(ours) == outcome(theirs)


def test_an_absent_accelerator() -> None:
    for name in ("is_available", "current_accelerator", "synchronize", "memory_allocated"):
        expected = outcome(getattr(torch.accelerator, name))
        assert outcome(getattr(lg.accelerator, name)) == expected


@pytest.mark.parametrize("package", ["torch.nn.modules", "torch.distributions", "torch.optim"])
def test_files_of_pytorch_that_programs_import_from(package: str) -> None:
    """Each public class is found where PyTorch has it, and is the class of that name."""
    lacking = {"LinearCrossEntropyOptions", "Container", "ExponentialFamily", "NLLLoss2d"}
    lacking |= {"LinearCrossEntropyLoss", "LogitRelaxedBernoulli", "ExpRelaxedCategorical"}
    place = importlib.import_module(package)
    for found in pkgutil.iter_modules(place.__path__):
        if found.name.startswith("_"):
            continue
        path = f"{package}.{found.name}"
        theirs = importlib.import_module(path)
        classes = {
            x
            for x in getattr(theirs, "__all__", ())
            if isinstance(getattr(theirs, x), type) and x[0].isupper()
        }
        for name in classes - lacking:
            module = names.find(path)
            assert module is not None, path
            assert getattr(module, name).__name__ == name


def test_top_level_names_that_programs_use() -> None:
    for name in "Tensor nn optim jit compile cond hub onnx fft linalg special _foreach_add".split():
        assert is_there(f"torch.{name}")
        assert hasattr(torch, name)
    assert hook.Torch().__version__ == torch.__version__.split("+")[0]


def _foreach(lib: Any) -> Any:
    xs = [lib.tensor([1.0, -2.0]), lib.tensor([[3.0]])]
    ys = [lib.tensor([0.5, 4.0]), lib.tensor([[2.0]])]
    out = [
        *lib._foreach_add(xs, ys, alpha=3),
        *lib._foreach_sub(xs, 2.0),
        *lib._foreach_mul(xs, [2.0, 3.0]),
        *lib._foreach_div(xs, ys),
        *lib._foreach_maximum(xs, ys),
        *lib._foreach_maximum(xs, 0.5),
        *lib._foreach_minimum(xs, [0.0, 1.0]),
        *lib._foreach_clamp_min(xs, 0.0),
        *lib._foreach_addcdiv(xs, ys, ys, value=0.5),
        *lib._foreach_addcmul(xs, ys, ys, [1.0, 2.0]),
        *lib._foreach_lerp(xs, ys, 0.25),
        *lib._foreach_pow(ys, 2),
        *lib._foreach_sqrt(ys),
        *lib._foreach_norm(xs),
        *lib._foreach_norm(xs, 1),
    ]
    lib._foreach_maximum_(xs, ys)
    lib._foreach_minimum_(xs, 3.5)
    lib._foreach_mul_(xs, 0.5)
    lib._foreach_copy_(ys, xs)
    return [x.tolist() for x in [*out, *xs, *ys]]


def test_foreach() -> None:
    flat = lambda values: lg.tensor([x for v in values for x in lg.tensor(v).flatten().tolist()])
    lg.testing.assert_close(flat(_foreach(lg)), flat(_foreach(torch)))


def _questions(lib: Any) -> list[Any]:
    x = lib.tensor([1.0, 2.0])
    v = lib.autograd.Variable(x * 2, requires_grad=True)
    table = lib.eye(3).requires_grad_()
    lib.embedding(table, lib.tensor([1, 1, 0]), 0).sum().backward()
    return [
        lib.is_nonzero(lib.tensor(0)), lib.is_signed(x), lib.get_device(x), lib.typename(x),
        lib.typename(3), lib.range(1, 2, 0.5).tolist(), lib.is_same_size(x, x), v.tolist(),
        (v.is_leaf, v.requires_grad), lib.sym_max(2, 3), lib.sym_int(2.5), table.grad.tolist(),
        outcome(lambda: lib.autograd.Variable([1.0])), outcome(lambda: lib.cond("x", abs, abs)),
        lib.cond(lib.tensor(True), lambda x: x + 1, lambda x: x - 1, (x,)).tolist(),
        outcome(lambda: lib._check(False, lambda: "x")), outcome(lambda: lib._check_value(False)),
        outcome(lambda: lib._check_index(False)), lib.jit.is_scripting(), lib.jit.is_tracing(),
        lib.jit.annotate(list[int], [1]), lib.jit.script(lib.nn.Linear(1, 1)).original_name,
        lib.onnx.is_in_onnx_export(), lib.backends.cudnn.benchmark, lib.backends.cudnn.enabled,
        lib.backends.cuda.flash_sdp_enabled(), lib.backends.mps.is_available(),
        outcome(lambda: lib.jit.freeze(lib.jit.script(lib.nn.Linear(1, 1)))),
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_small_questions() -> None:
    assert _questions(lg) == _questions(torch)


def _swapped(lib: Any) -> Any:
    x, y = lib.nn.Parameter(lib.tensor([1.0, 2.0])), lib.tensor([3.0])
    x.note = 1
    lib.utils.swap_tensors(x, y)
    kinds = (isinstance(x, lib.nn.Parameter), isinstance(y, lib.nn.Parameter))
    (y * y).sum().backward()
    return x.tolist(), y.tolist(), kinds, hasattr(x, "note"), y.note, y.grad.tolist()


def test_swapping() -> None:
    assert _swapped(lg) == _swapped(torch)


@pytest.mark.filterwarnings("ignore")
def test_attention_with_a_function() -> None:
    from torch.nn.attention import flex_attention as theirs

    from livegrad.nn import flex_attention as ours

    values = [torch.randn(2, 2, 128, 8) for _ in range(3)]
    found = []
    for lib, module in ((torch, theirs), (lg, ours)):
        mask = module.create_block_mask(
            lambda b, h, q, k: (q >= k) & (q != 3), None, None, 128, 128, device="cpu"
        )
        out = module.flex_attention(
            *[lib.tensor(x.tolist()) for x in values],
            score_mod=lambda s, b, h, q, k: s * (h + 1) + 0.1 * (k - q),
            block_mask=mask,
            return_lse=True,
        )
        found.append([lg.tensor(x.tolist()) for x in out] + [mask.sparsity(), mask.shape])
    lg.testing.assert_close(found[1][:2], found[0][:2])
    assert found[1][2:] == found[0][2:]
