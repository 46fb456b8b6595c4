"""Instance normalisation: each channel of each example with mean 0 and variance 1."""

from __future__ import annotations

import warnings
from typing import Any

from livegrad.nn import functional as F
from livegrad.nn.batchnorm import _LazyNormBase, _NormBase, need_dims
from livegrad.tensor import Tensor


class _InstanceNorm(_NormBase):
    _rank: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _check_input_dim(self, input: Any) -> None:
        need_dims(input, self._rank + 1, self._rank + 2)

    def _check_channels(self, input: Any) -> None:
        dim = input.ndim - self._rank - 1
        if input.shape[dim] == self.num_features:
            return
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features ({self.num_features}), "
                f"but got: {input.shape[dim]}."
            )
        warnings.warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning "
            "by not passing in num_features, which is not used because affine=False",
            stacklevel=4,
        )

    def forward(self, input: Tensor) -> Tensor:
        """See `livegrad.nn.functional.instance_norm`."""
        self._check_input_dim(input)
        self._check_channels(input)
        if input.ndim == self._rank + 1:
            return self._normalised(input.unsqueeze(0)).squeeze(0)
        return self._normalised(input)

    def _normalised(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        # Statistics were saved once although they were not tracked.
        names = [prefix + name for name in ("running_mean", "running_var")]
        found = [name for name in names if name in state_dict]
        if local_metadata.get("version") is None and not self.track_running_stats and found:
            listed = " and ".join(f'"{name}"' for name in found)
            rest[-1].append(
                f"Unexpected running stats buffer(s) {listed} for {type(self).__name__} with "
                "track_running_stats=False. Remove these keys from state_dict, or set "
                "track_running_stats=True if they are needed."
            )
            for name in found:
                del state_dict[name]
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L)."""

    _rank = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W)."""

    _rank = 2


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""

    _rank = 3


class _LazyInstanceNorm(_LazyNormBase, _InstanceNorm):
    def _channels(self, input: Any) -> int:
        return int(input.shape[-self._rank - 1])


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """An InstanceNorm1d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """An InstanceNorm2d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """An InstanceNorm3d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm3d
