"""Recurrent cells: one step at a time, for loops of your own."""

from __future__ import annotations

import math
from typing import Any

from livegrad.creation import empty, zeros
from livegrad.nn import functional as F, init
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.ops.layers.recurrent_cells import step
from livegrad.ops.support.public import publish
from livegrad.tensor import Tensor


class RNNCellBase(Module):
    """What the cells share: weight_ih (gates * hidden, input), weight_hh, bias_ih, bias_hh.

    All start even in ±1/sqrt(hidden_size).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}
        for name, shape in shapes.items():
            self.register_parameter(name, Parameter(empty(*shape, device=device, dtype=dtype)))
        for name in ("bias_ih", "bias_hh"):
            data = Parameter(empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, data)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes, and options that differ from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text + (f", nonlinearity={nonlinearity}" if nonlinearity != "tanh" else "")

    def _step(self, kind: str, input: Tensor, states: list[Any]) -> list[Tensor]:
        """The states after a step; `states` are h and, of an LSTM, c, or None for zeros."""
        name = type(self).__name__
        if input.ndim not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        for place, state in enumerate(states):
            if state is not None and state.ndim not in (1, 2):
                what = f"hx[{place}]" if len(states) > 1 else "hidden"
                raise ValueError(
                    f"{name}: Expected {what} to be 1D or 2D, got {state.ndim}D instead"
                )
        batched = input.ndim == 2
        x = input if batched else input.unsqueeze(0)
        first = [self._state(state, x) for state in states]
        self._check(x, first[0])
        gates = F.linear(x, self.weight_ih, self.bias_ih)
        state_gates = F.linear(first[0], self.weight_hh, self.bias_hh)
        found = step(kind, gates, state_gates, first[-1].to(gates.dtype))
        return found if batched else [y.squeeze(0) for y in found]

    def _state(self, state: Any, x: Any) -> Any:
        if state is None:
            return zeros(x.shape[0], self.hidden_size, dtype=x.dtype)
        return state if state.ndim == 2 else state.unsqueeze(0)

    def _check(self, x: Any, h: Any) -> None:
        if x.shape[1] != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {x.shape[1]} expected {self.input_size}"
            )
        if x.shape[0] != h.shape[0]:
            raise RuntimeError(
                f"Input batch size {x.shape[0]} doesn't match hidden0 batch size {h.shape[0]}"
            )
        if h.shape[1] != self.hidden_size:
            raise RuntimeError(
                f"hidden0 has inconsistent hidden_size: got {h.shape[1]}, expected "
                f"{self.hidden_size}"
            )


class RNNCell(RNNCellBase):
    """One step of an RNN: tanh (or relu) of W_ih x + b_ih + W_hh h + b_hh."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The state after a step from state `hx` (0 if None)."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(f"RNN_{self.nonlinearity.upper()}", input, [hx])[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM; see `LSTM`.

    Args:
        input_size: features of the input.
        hidden_size: of the state.
        bias: whether there are biases.

    Example:
        >>> h, c = nn.LSTMCell(4, 8)(lg.ones(3, 4))
        >>> h.shape
        livegrad.Size([3, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """State and cell after a step from `hx`, a pair of state and cell (0 if None)."""
        h, c = self._step("LSTM", input, [None, None] if hx is None else list(hx))
        return h, c


class GRUCell(RNNCellBase):
    """One step of a GRU; see `GRU`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The state after a step from state `hx` (0 if None)."""
        return self._step("GRU", input, [hx])[0]


# What cells do with the tensors they are given can be overridden.
publish(globals(), ("step",))
