"""`torch.backends`: what other backends there are (none), and switches that change nothing here.

cudnn.benchmark = True          accepted: there is no cuDNN
mps.is_available()              False
cpu.get_cpu_capability()        the widest vectors that kernels use

Each is also a module that can be imported: `import livegrad.backends.cudnn as cudnn`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

__path__: list[str] = []  # what is asked of packages


class _Backend(ModuleType):
    """A backend that is not there. Its switches keep what they are set to, and do nothing."""

    def __init__(self, name: str, **switches: Any) -> None:
        super().__init__(f"{__name__}.{name}")
        self.__dict__.update(switches)
        sys.modules[self.__name__] = self

    def is_available(self) -> bool:
        """False."""
        return False

    def is_built(self) -> bool:
        """False."""
        return False

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__ and name[:2] != "__":
            raise AttributeError(f"this backend has no switch {name!r}; got {value!r}")
        self.__dict__[name] = value

    @contextmanager
    def flags(self, **switches: Any) -> Iterator[None]:
        """Sets switches for a while."""
        before = self.set_flags(**switches)
        try:
            yield
        finally:
            self.set_flags(**before)

    def set_flags(self, **switches: Any) -> dict[str, Any]:
        """Sets switches, and returns what they were."""
        before = {name: getattr(self, name) for name in switches}
        for name, value in switches.items():
            setattr(self, name, value)
        return before


class _CuDNN(_Backend):
    def version(self) -> None:
        """None: there is no cuDNN."""

    def is_acceptable(self, tensor: Any) -> bool:
        """False: no tensor is on a GPU."""
        return False


class _CPU(_Backend):
    def get_cpu_capability(self) -> str:
        """The widest vectors that kernels use: "AVX512", "AVX2" or "DEFAULT"."""
        from livegrad.runtime import host

        return host.HOST.capability()


class SDPAParams:
    """What the choice of a kernel for attention is asked about."""

    def __init__(self, *args: Any) -> None:
        self.args = args


class _CUDA(_Backend):
    """Which kernels of attention may be used: wishes that are kept. There is one here."""

    SDPAParams = SDPAParams

    @contextmanager
    def sdp_kernel(
        self,
        enable_flash: bool = True,
        enable_math: bool = True,
        enable_mem_efficient: bool = True,
        enable_cudnn: bool = True,
    ) -> Iterator[None]:
        """Says which kernels may be used for a while."""
        wishes = (enable_flash, enable_math, enable_mem_efficient, enable_cudnn)
        with self._wishes.flags(**dict(zip(_KERNELS, wishes, strict=True))):
            yield

    def can_use_flash_attention(self, params: Any, debug: bool = False) -> bool:
        """False: there is no GPU."""
        return False

    can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention

    def is_flash_attention_available(self) -> bool:
        """False: there is no GPU."""
        return False

    def preferred_linalg_library(self, backend: Any = None) -> str:
        """ "default": there is one on the CPU."""
        return "default"

    preferred_blas_library = preferred_linalg_library


_KERNELS = ("flash", "math", "mem_efficient", "cudnn")


def _asks(kernel: str) -> Any:
    def enabled(self: Any) -> bool:
        return bool(getattr(self._wishes, kernel))

    enabled.__doc__ = f"Whether the {kernel} kernel of attention may be used: what was wished."
    return enabled


def _sets(kernel: str) -> Any:
    def enable(self: Any, enabled: bool) -> None:
        setattr(self._wishes, kernel, bool(enabled))

    enable.__doc__ = f"Says whether the {kernel} kernel of attention may be used."
    return enable


for _kernel in _KERNELS:
    setattr(_CUDA, f"{_kernel}_sdp_enabled", _asks(_kernel))
    setattr(_CUDA, f"enable_{_kernel}_sdp", _sets(_kernel))


class _Verbose:
    """`with mkldnn.verbose(…)`: there is no such library to speak."""

    VERBOSE_OFF = 0
    VERBOSE_ON = 1

    def __init__(self, *levels: Any) -> None:
        pass

    def __enter__(self) -> _Verbose:
        return self

    def __exit__(self, *error: object) -> None:
        pass


_WISHES = dict.fromkeys(_KERNELS, True)
_LESS_EXACT = {
    "allow_tf32": False,
    "allow_fp16_reduced_precision_reduction": True,
    "allow_bf16_reduced_precision_reduction": True,
    "allow_fp16_accumulation": False,
    "fp32_precision": "none",
}

cpu = _CPU("cpu")
cudnn = _CuDNN(
    "cudnn",
    enabled=True,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
)
cuda = _CUDA(
    "cuda",
    matmul=_Backend("cuda.matmul", **_LESS_EXACT),
    cufft_plan_cache=_Backend("cuda.cufft_plan_cache", size=0, max_size=0),
    _wishes=_Backend("cuda.wishes", **_WISHES),
)
mps = _Backend("mps")
mkl = _Backend("mkl", verbose=_Verbose, VERBOSE_OFF=0, VERBOSE_ON=1)
mkldnn = _Backend(
    "mkldnn", enabled=False, deterministic=False, allow_tf32=False, verbose=_Verbose,
    VERBOSE_OFF=0, VERBOSE_ON=1, VERBOSE_ON_CREATION=2, fp32_precision="none",
)  # fmt: skip
openmp = _Backend("openmp")
opt_einsum = _Backend("opt_einsum", enabled=False, strategy="auto")
quantized = _Backend("quantized", engine="none", supported_engines=["none"])
xeon = _Backend("xeon")
