"""Batch normalisation: each channel with mean 0 and variance 1 over the batch."""

from __future__ import annotations

from typing import Any

from livegrad.autograd import no_grad
from livegrad.creation import ones, tensor, zeros
from livegrad.dtypes import int64
from livegrad.graph.events import MODE, tell
from livegrad.graph.state import LOCAL
from livegrad.nn import functional as F
from livegrad.nn.lazy import LazyModuleMixin
from livegrad.nn.module import Module
from livegrad.nn.normalization import Affine
from livegrad.nn.parameter import UninitializedBuffer, UninitializedParameter
from livegrad.tensor import Tensor

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class _NormBase(Affine):
    """Weight, bias and running statistics per channel: what batch and instance norms share."""

    _version = 2
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._add_affine((num_features,), affine, bias, device, dtype)
        if track_running_stats:
            self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", tensor(0, dtype=int64, device=device))
        else:
            for name in _STATISTICS:
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forgets the batches seen so far."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Sets weight to 1 and bias to 0, and forgets the batches seen so far."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Any) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Sizes and options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        # Before version 2 the number of batches was not saved.
        key = prefix + "num_batches_tracked"
        is_old = (local_metadata.get("version") or 1) < 2
        if is_old and self.track_running_stats and key not in state_dict:
            own = self.num_batches_tracked
            state_dict[key] = tensor(0, dtype=int64) if own is None else own.detach()
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """See `livegrad.nn.functional.batch_norm`."""
        self._check_input_dim(input)
        if MODE and self.training is not LOCAL.state.grad:
            tell(MODE, self)
        momentum = 0.0 if self.momentum is None else self.momentum
        training = self.training
        if training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches
                momentum = 1.0 / float(self.num_batches_tracked)
        from_batch = training or (self.running_mean is None and self.running_var is None)
        collect = not training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if collect else None,
            self.running_var if collect else None,
            self.weight,
            self.bias,
            from_batch,
            momentum,
            self.eps,
        )


def need_dims(input: Tensor, *wanted: int) -> None:
    """ValueError unless `input` has one of these numbers of dims."""
    if input.ndim not in wanted:
        listed = " or ".join(f"{n}D" for n in wanted)
        raise ValueError(f"expected {listed} input (got {input.ndim}D input)")


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L).

    Args:
        num_features: how many channels.
        eps: added to the variance.
        momentum: how fast running means follow; None: they are means of all batches.
        affine: whether there are a weight and a bias.
        track_running_stats: False: `eval()` uses the batch, too.
        bias: whether there is one beside the weight.

    Example:
        >>> nn.BatchNorm1d(3)(lg.randn(8, 3)).shape
        livegrad.Size([8, 3])
    """

    def _check_input_dim(self, input: Any) -> None:
        need_dims(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W).

    Args:
        num_features: how many channels.
        eps: added to the variance.
        momentum: how fast running means follow; None: they are means of all batches.
        affine: whether there are a weight and a bias.
        track_running_stats: False: `eval()` uses the batch, too.
        bias: whether there is one beside the weight.

    Example:
        >>> nn.BatchNorm2d(3)(lg.randn(2, 3, 4, 4)).shape
        livegrad.Size([2, 3, 4, 4])
    """

    def _check_input_dim(self, input: Any) -> None:
        need_dims(input, 4)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""

    def _check_input_dim(self, input: Any) -> None:
        need_dims(input, 5)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes; there is one, so of its batch."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Any) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """`module` with every BatchNorm in it replaced by a SyncBatchNorm of the same tensors."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            with no_grad():
                for name in ("weight", "bias", *_STATISTICS):
                    setattr(converted, name, getattr(module, name))
            converted.training = module.training
        for name, child in list(module.named_children()):
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


# --------------------------------------------------------------------------------------- lazy


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """A norm that takes the number of channels from its first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def reset_parameters(self) -> None:
        """Sets weight, bias and statistics, once there are any."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Takes the number of channels from `input`."""
        if self.has_uninitialized_params():
            self.num_features = self._channels(input)
            waiting = (self.weight, self.bias, self.running_mean, self.running_var)
            for x in waiting:
                if x is not None:
                    x.materialize((self.num_features,))
            self.reset_parameters()
        self.num_features = self._channels(input)

    def _channels(self, input: Any) -> int:
        return int(input.shape[1])


class LazyBatchNorm1d(_LazyNormBase, BatchNorm1d):
    """A BatchNorm1d that takes `num_features` from its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, BatchNorm2d):
    """A BatchNorm2d that takes `num_features` from its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, BatchNorm3d):
    """A BatchNorm3d that takes `num_features` from its first input."""

    cls_to_become = BatchNorm3d
