"""`GradScaler`: a loss made large enough that small float16 gradients do not vanish.

    scaler.scale(loss).backward()     gradients are `scale` times too large
    scaler.step(optimizer)            made right again; no step if one is infinite or NaN
    scaler.update()                   the scale shrinks after such a step, grows after many good

The scale is a Python number: changing it compiles nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from enum import Enum
from typing import Any

from livegrad import dtypes
from livegrad.autograd.modes import no_grad
from livegrad.graph.handle import Handle, node_of
from livegrad.ops.elementwise.arithmetic import cast, mul
from livegrad.ops.elementwise.comparison import isfinite
from livegrad.ops.reductions.reduce import all as all_of
from livegrad.ops.shaping.joining import stack
from livegrad.tensor import Tensor


class OptState(Enum):
    """How far an optimiser has come since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _Seen:
    """What is known of one optimiser since the last `update`."""

    def __init__(self) -> None:
        self.stage = OptState.READY
        # Whether all gradients are finite: a tensor until somebody asks; None before the check.
        self.finite: Any = None

    def found_inf(self) -> bool:
        """Whether a gradient is infinite or NaN; computes what is pending the first time."""
        if not isinstance(self.finite, bool):
            self.finite = bool(self.finite)
        return not self.finite


class GradScaler:
    """Multiplies losses by a scale, and takes no step whose gradients it made infinite.

    The scale starts at `init_scale`, is multiplied by `backoff_factor` after a step that was
    skipped, and by `growth_factor` after `growth_interval` steps in a row that were not.

    Args:
        enabled: False makes `scale` and `unscale_` do nothing, and `step` a plain step.
    """

    def __init__(
        self,
        device: str = "cpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device != "cpu":
            warnings.warn(
                f"livegrad.amp.GradScaler is enabled, but {device} is not available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if self._enabled:
            assert growth_factor > 1.0, "The growth factor must be > 1.0."
            assert backoff_factor < 1.0, "The backoff factor must be < 1.0."
        self._init_scale = init_scale
        # None until `scale` is first called.
        self._scale: float | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._seen: dict[int, _Seen] = {}

    # ---- one iteration ---------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """`outputs`, a tensor or tensors nested in lists and tuples, times the scale."""
        if not self._enabled:
            return outputs
        if self._scale is None:
            self._scale = float(self._init_scale)
        if isinstance(outputs, Handle):
            return self._scaled(outputs)
        if isinstance(outputs, Iterable):
            scaled = [self.scale(x) for x in outputs]
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else iter(scaled)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _scaled(self, x: Tensor) -> Tensor:
        assert self._scale is not None
        meta = node_of(x).meta
        if not meta.ndim and meta.dtype in (dtypes.float16, dtypes.bfloat16):
            x = cast(x, dtypes.float32)  # a loss in float16 would overflow
        return mul(x, self._scale)

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimiser by the scale, for clipping before `step`."""
        if not self._enabled:
            return
        scale = self._checked("unscale_")
        seen = self._of(optimizer)
        if seen.stage is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if seen.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        seen.finite = self._unscale_grads(optimizer, 1.0 / scale)
        seen.stage = OptState.UNSCALED

    def _unscale_grads(self, optimizer: Any, factor: float) -> Any:
        """Multiplies all gradients by `factor`; whether they are finite, as a tensor."""
        answers = []
        with no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if p.grad.dtype is dtypes.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    p.grad.mul_(factor)
                    answers.append(all_of(isfinite(p.grad)))
        if not answers:
            return None
        return all_of(stack(answers)) if len(answers) > 1 else answers[0]

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(…)` unless a gradient is infinite or NaN; unscales first if need be."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._checked("step")
        seen = self._of(optimizer)
        if seen.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if seen.stage is OptState.READY:
            self.unscale_(optimizer)
        assert seen.finite is not None, "No inf checks were recorded for this optimizer."
        result = None if seen.found_inf() else optimizer.step(*args, **kwargs)
        seen.stage = OptState.STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """Makes the scale smaller after a skipped step, and larger from time to time.

        Args:
            new_scale: a number, or a tensor of one element, to be the scale from now on.
        """
        if not self._enabled:
            return
        scale = self._checked("update")
        if new_scale is not None:
            self._scale = self._given(new_scale)
        else:
            answers = [seen for seen in self._seen.values() if seen.finite is not None]
            assert answers, "No inf checks were recorded prior to update."
            self._scale = self._adapted(scale, any([seen.found_inf() for seen in answers]))
        self._seen = {}

    def _given(self, new_scale: Any) -> float:
        if isinstance(new_scale, Tensor) and (new_scale.numel() != 1 or new_scale.requires_grad):
            raise AssertionError(
                "new_scale should be a float or a 1-element livegrad.Tensor with "
                "requires_grad=False."
            )
        return float(new_scale)

    def _adapted(self, scale: float, found_inf: bool) -> float:
        """The next scale; counts the good steps in a row."""
        if found_inf:
            self._growth_tracker = 0
            return scale * self._backoff_factor
        self._growth_tracker += 1
        if self._growth_tracker < self._growth_interval:
            return scale
        self._growth_tracker = 0
        grown = scale * self._growth_factor
        # As a float32, which it must fit.
        return grown if grown <= dtypes.finfo(dtypes.float32).max else scale

    def _of(self, optimizer: Any) -> _Seen:
        return self._seen.setdefault(id(optimizer), _Seen())

    def _checked(self, name: str) -> float:
        assert self._scale is not None, (
            f"Attempted {name} but _scale is None.  This may indicate your script did not use "
            "scaler.scale(loss or outputs) earlier in the iteration."
        )
        return self._scale

    # ---- settings --------------------------------------------------------------------------

    def get_scale(self) -> float:
        """The scale; 1 if not enabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """See `get_growth_factor`."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after a skipped step."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """See `get_backoff_factor`."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many good steps in a row let the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """See `get_growth_interval`."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether losses are scaled."""
        return self._enabled

    # ---- saving ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors and counts, in PyTorch's form; empty if not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes back what `state_dict` gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = float(state_dict["scale"])
        if self._scale is not None:
            self._scale = self._init_scale
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = int(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        assert not self._enabled or not self._seen, (
            "A GradScaler instance may only be pickled at the beginning of an iteration, or at the "
            "end after scaler.update()."
        )
        return {**self.__dict__, "_init_scale": self.get_scale(), "_scale": None}
