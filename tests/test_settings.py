"""Settings and namespaces that PyTorch's programs begin with: accepted, and true of livegrad."""

from __future__ import annotations

import pickle

import pytest

import livegrad as lg
from livegrad import nn


def test_programs_ask_for_a_gpu_and_get_the_cpu() -> None:
    name = "cuda" if lg.cuda.is_available() else "mps" if lg.backends.mps.is_available() else "cpu"
    device = lg.device(name)
    assert device == lg.get_default_device()
    assert lg.accelerator.current_accelerator() is None
    assert (lg.cuda.device_count(), lg.mps.device_count(), lg.accelerator.device_count()) == (
        0,
    ) * 3
    lg.cuda.manual_seed_all(0)
    lg.cuda.empty_cache()
    assert lg.cuda.memory_allocated() == 0
    with device:
        assert lg.zeros(2, device=device).device == device


@pytest.mark.parametrize(
    "name", ["current_device", "synchronize", "get_device_name", "get_device_properties"]
)
def test_what_needs_a_gpu_says_so(name: str) -> None:
    with pytest.raises(AssertionError, match=f"cuda.{name}: there is no GPU"):
        getattr(lg.cuda, name)()


def test_tensors_do_not_move_to_a_gpu() -> None:
    for move in (lg.zeros(2).cuda, nn.Linear(2, 2).cuda, lambda: nn.Linear(2, 2).to("cuda")):
        with pytest.raises(AssertionError, match="no device 'cuda'"):
            move()
    lg.set_default_device("cpu")


def test_backends_have_switches_that_keep_their_values() -> None:
    before = lg.backends.cudnn.benchmark
    lg.backends.cudnn.benchmark = True
    assert lg.backends.cudnn.benchmark
    lg.backends.cudnn.benchmark = before
    with pytest.raises(AttributeError, match="no switch 'benhcmark'"):
        lg.backends.cudnn.benhcmark = True
    assert not lg.backends.cuda.matmul.allow_tf32
    assert lg.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")


def test_compile_gives_back_what_it_was_given() -> None:
    net = nn.Linear(2, 3)
    assert lg.compile(net, mode="max-autotune", fullgraph=True) is net

    @lg.compile
    def twice(x: lg.Tensor) -> lg.Tensor:
        return x * 2

    @lg.compile(dynamic=True)
    def thrice(x: lg.Tensor) -> lg.Tensor:
        return x * 3

    assert twice(thrice(lg.tensor(1.0))).item() == 6
    with pytest.raises(TypeError, match="must be callable"):
        lg.compile(3)  # type: ignore[type-var]


def test_settings_are_remembered() -> None:
    lg.use_deterministic_algorithms(True, warn_only=True)
    assert lg.are_deterministic_algorithms_enabled()
    assert lg.is_deterministic_algorithms_warn_only_enabled()
    lg.use_deterministic_algorithms(False)
    assert not lg.are_deterministic_algorithms_enabled()
    lg.set_float32_matmul_precision("high")
    assert lg.get_float32_matmul_precision() == "high"
    lg.set_float32_matmul_precision("highest")
    with pytest.raises(RuntimeError, match="got 'low'"):
        lg.set_float32_matmul_precision("low")
    with pytest.raises(RuntimeError, match="positive"):
        lg.set_num_interop_threads(0)
    assert lg.set_flush_denormal(True) is False


def test_default_tensor_type() -> None:
    lg.set_default_tensor_type(lg.DoubleTensor)
    try:
        assert lg.zeros(1).dtype is lg.float64
    finally:
        lg.set_default_tensor_type(lg.FloatTensor)
    with pytest.raises(TypeError, match="expected a floating type"):
        lg.set_default_tensor_type(lg.LongTensor)


def test_default_tensor_type_by_name() -> None:
    lg.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert lg.zeros(1).dtype is lg.float64
    finally:
        lg.set_default_tensor_type("torch.FloatTensor")
    with pytest.raises(TypeError, match="expected a floating type"):
        lg.set_default_tensor_type("torch.LongTensor")
    with pytest.raises(TypeError, match="there is no GPU"):
        lg.set_default_tensor_type("torch.cuda.FloatTensor")


def test_constants() -> None:
    assert lg.zeros(3)[:, lg.newaxis].shape == (3, 1)
    assert lg.full((1,), -lg.inf).item() == -lg.inf
    assert lg.tensor([lg.pi, lg.e, lg.nan]).isnan().tolist() == [False, False, True]


@pytest.mark.parametrize("name", ["contiguous_format", "channels_last", "channels_last_3d"])
def test_memory_formats(name: str) -> None:
    form = getattr(lg, name)
    x = lg.zeros(1, 2, 3, 4, 5) if name == "channels_last_3d" else lg.zeros(1, 2, 3, 4)
    assert isinstance(form, lg.memory_format)
    assert (x.to(memory_format=form) is x) == (name == "contiguous_format")
    y = x.contiguous(memory_format=form)
    assert y.is_contiguous(memory_format=form)
    assert y.clone(memory_format=lg.preserve_format).stride() == y.stride()
    assert lg.empty_like(x, memory_format=form).stride() == y.stride()
    layer = nn.Conv3d if name == "channels_last_3d" else nn.Conv2d
    assert layer(2, 2, 3).to(memory_format=form).weight.is_contiguous(memory_format=form)
    assert pickle.loads(pickle.dumps(form)) is form
    assert repr(form) == f"livegrad.{name}"


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("LIVEGRAD_MODE", "refrence", "Did you mean 'reference'?"),
        ("LIVEGRAD_MODE", "eager", "expected one of: reference"),
        ("LIVEGRAD_DEBUG", "plan,kernel", "Did you mean 'kernels'?"),
        ("LIVEGRAD_TRACEBACK", "ful", "Did you mean 'full'?"),
    ],
)
def test_words_that_nobody_knows(python, name, value, hint) -> None:
    done = python("import livegrad", check=False, **{name: value})
    assert done.returncode != 0
    word = value.rpartition(",")[2]
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ValueError: {name}: got {word!r}; expected one of: ")
    assert hint in last


@pytest.mark.parametrize("value", ["", "plan", "graph, misses", "verify,times,"])
def test_words_that_are_known(python, value) -> None:
    python("import livegrad", LIVEGRAD_DEBUG=value)
