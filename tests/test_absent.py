"""Devices that are not there: programs ask, and get PyTorch's answers and errors."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import livegrad as lg


def test_nothing_is_there() -> None:
    for device in (lg.cuda, lg.mps, lg.xpu, lg.accelerator):
        assert not device.is_available()
        assert device.device_count() == 0


def test_what_has_nothing_to_do_does_nothing() -> None:
    cuda: Any = lg.cuda
    assert (cuda.memory_allocated(), cuda.max_memory_reserved("cuda:0")) == (0, 0)
    assert (cuda.memory_stats(), cuda.get_arch_list(), cuda.get_rng_state_all()) == ({}, [], [])
    cuda.memory_stats()["mine"] = 1
    assert cuda.memory_stats() == {}
    for name in ("empty_cache", "reset_peak_memory_stats", "reset_max_memory_allocated"):
        assert getattr(cuda, name)() is None
    with cuda.stream(None), cuda.device(0):
        assert lg.ones(2).sum().item() == 2
    with cuda.nvtx.range("step"):
        cuda.nvtx.mark("here")


@pytest.mark.parametrize(
    ("device", "name", "error"),
    [
        ("cuda", "synchronize", AssertionError),
        ("cuda", "current_stream", AssertionError),
        ("cuda", "mem_get_info", AssertionError),
        ("cuda", "Event", RuntimeError),
        ("cuda", "Stream", RuntimeError),
        ("xpu", "current_device", AssertionError),
        ("mps", "synchronize", RuntimeError),
        ("accelerator", "current_stream", RuntimeError),
    ],
)
def test_what_needs_the_device_says_so(device: str, name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"{device}\.{name}: there is no (GPU|accelerator) here"):
        getattr(getattr(lg, device), name)()


def test_tensors_are_of_no_type_of_the_gpu() -> None:
    kind = lg.cuda.FloatTensor if lg.cuda.is_available() else lg.FloatTensor
    assert kind([1.0]).tolist() == [1.0]
    assert not isinstance(lg.ones(1), lg.cuda.FloatTensor)
    with pytest.raises(TypeError, match="FloatTensor of a GPU is not available"):
        lg.cuda.FloatTensor(2)


def test_old_names_of_mixed_precision_are_off() -> None:
    with pytest.warns(UserWarning, match="autocast for it is off"):
        context = lg.cuda.amp.autocast()
    with context:
        assert (lg.ones(2, 2) @ lg.ones(2, 2)).dtype == lg.float32
    with pytest.warns(UserWarning, match="GradScaler for it is off"):
        scaler = lg.cuda.amp.GradScaler()
    x = lg.ones(1, requires_grad=True)
    optimizer = lg.optim.SGD([x], lr=0.5)
    scaler.scale((x * 2).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert x.tolist() == [0.0]
    assert not lg.cuda.amp.GradScaler(enabled=False).is_enabled()


def test_backends_are_modules_with_switches() -> None:
    import livegrad.backends.cudnn as cudnn

    assert cudnn is lg.backends.cudnn
    with cudnn.flags(enabled=False, benchmark=True):
        assert (cudnn.enabled, cudnn.benchmark) == (False, True)
    assert (cudnn.enabled, cudnn.benchmark) == (True, False)
    with lg.backends.mkldnn.flags(enabled=True):
        assert lg.backends.mkldnn.enabled
    with lg.backends.cuda.sdp_kernel(enable_flash=False):
        assert not lg.backends.cuda.flash_sdp_enabled()
    assert lg.backends.cuda.flash_sdp_enabled()
    lg.backends.cuda.enable_math_sdp(False)
    assert not lg.backends.cuda.math_sdp_enabled()
    lg.backends.cuda.enable_math_sdp(True)
    assert sys.modules["livegrad.backends.cuda"] is lg.backends.cuda


def test_export_is_refused_with_what_to_use() -> None:
    with pytest.raises(RuntimeError, match=r"state_dict\(\)"):
        lg.onnx.export(lg.nn.Linear(1, 1), lg.ones(1), "x.onnx")
    with pytest.raises(RuntimeError, match=r"state_dict\(\)"):
        lg.export.export(lg.nn.Linear(1, 1), (lg.ones(1),))
    assert not lg.onnx.is_in_onnx_export()
    assert [d.__name__ for d in lg.export.dims("a", "b")] == ["a", "b"]


def test_safe_globals_are_kept() -> None:
    from livegrad import serialization

    with serialization.safe_globals([dict, list]):
        assert serialization.get_safe_globals() == [dict, list]
        serialization.add_safe_globals([list, set])
        assert serialization.get_safe_globals() == [dict, list, set]
    assert serialization.get_safe_globals() == []
