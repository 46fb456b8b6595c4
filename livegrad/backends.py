"""`torch.backends`: what other backends there are (none), and switches that change nothing here.

cudnn.benchmark = True          accepted: there is no cuDNN
mps.is_available()              False
cpu.get_cpu_capability()        the widest vectors that kernels use
"""

from __future__ import annotations

from typing import Any


class _Backend:
    """A backend that is not there. Its switches keep what they are set to, and do nothing."""

    def __init__(self, **switches: Any) -> None:
        self.__dict__.update(switches)

    def is_available(self) -> bool:
        """False."""
        return False

    def is_built(self) -> bool:
        """False."""
        return False

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise AttributeError(f"this backend has no switch {name!r}; got {value!r}")
        self.__dict__[name] = value


class _CuDNN(_Backend):
    def version(self) -> None:
        """None: there is no cuDNN."""


class _CPU:
    def get_cpu_capability(self) -> str:
        """The widest vectors that kernels use: "AVX512", "AVX2" or "DEFAULT"."""
        from livegrad.runtime import host

        return host.HOST.capability()


cpu = _CPU()
cudnn = _CuDNN(enabled=False, benchmark=False, deterministic=False, allow_tf32=False)
cuda = _Backend(matmul=_Backend(allow_tf32=False))
mps = _Backend()
mkl = _Backend()
mkldnn = _Backend(enabled=False)
openmp = _Backend()
