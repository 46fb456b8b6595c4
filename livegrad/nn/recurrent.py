"""Recurrent layers: RNN, LSTM, GRU, over whole sequences. See `livegrad.ops.layers.recurrent`."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from livegrad.creation import empty
from livegrad.nn import functional as F, init
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.nn.utils.rnn import PackedSequence
from livegrad.ops.layers.recurrent import recurrent
from livegrad.ops.layers.recurrent_cells import CELLS
from livegrad.ops.making.constants import from_array
from livegrad.ops.making.generate import filled
from livegrad.ops.shaping.joining import cat, record_slice
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support.autocast import is_on as is_autocast_on
from livegrad.ops.support.public import publish
from livegrad.ops.windows.unfolding import permuted
from livegrad.tensor import Tensor


class RNNBase(Module):
    """What RNN, LSTM and GRU share: layers over each other, each in one or two directions.

        weight_ih_l0  (gates * hidden, input)    weight_hh_l0  (gates * hidden, hidden)
        bias_ih_l0    (gates * hidden,)          bias_hh_l0    (gates * hidden,)

    Layer k has `_lk`, the backward direction `_reverse` behind that; an LSTM with `proj_size` also
    has weight_hr (proj, hidden). All start even in ±1/sqrt(hidden_size).
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_options(dropout, num_layers, hidden_size, proj_size, bias, batch_first, input_size)
        if mode not in CELLS:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(2 if bidirectional else 1):
                shapes = self._shapes(layer, direction)
                self._all_weights.append(list(shapes))
                for name, shape in shapes.items():
                    data = empty(*shape, device=device, dtype=dtype)
                    self.register_parameter(name, Parameter(data))
        self.reset_parameters()

    def _shapes(self, layer: int, direction: int) -> dict[str, tuple[int, ...]]:
        """The parameters of one layer in one direction."""
        state = self.proj_size or self.hidden_size
        width = state * (2 if self.bidirectional else 1) if layer else self.input_size
        gates = CELLS[self.mode].gates * self.hidden_size
        end = f"_l{layer}" + ("_reverse" if direction else "")
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih" + end: (gates, width),
            "weight_hh" + end: (gates, state),
        }
        if self.bias:
            shapes["bias_ih" + end] = shapes["bias_hh" + end] = (gates,)
        if self.proj_size:
            shapes["weight_hr" + end] = (self.proj_size, self.hidden_size)
        return shapes

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters, one list per layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Nothing to do: that is for GPUs."""

    def reset_parameters(self) -> None:
        """Draws new weights."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes, and options that differ from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            value = getattr(self, name)
            if value != usual:
                text += f", {name}={value}"
        return text

    # ---- checks ----------------------------------------------------------------------------

    def check_input(self, input: Any, batch_sizes: Any) -> None:
        """Raises unless the input has the dims and features it should."""
        weights = getattr(self, self._all_weights[0][0]).dtype
        if input.dtype is not weights and not is_autocast_on():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weights}). "
                f"Convert input: input.to({weights}), or convert model: "
                f"model.to({input.dtype})"
            )
        wanted = 3 if batch_sizes is None else 2
        if input.ndim != wanted:
            raise RuntimeError(f"input must have {wanted} dimensions, got {input.ndim}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )

    def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """The shape of a first state for this input."""
        if batch_sizes is not None:
            count = int(batch_sizes[0])
        else:
            count = input.shape[0] if self.batch_first else input.shape[1]
        return len(self._all_weights), count, self.proj_size or self.hidden_size

    def get_expected_cell_size(self, input: Any, batch_sizes: Any) -> tuple[int, int, int]:
        """The shape of a first cell for this input."""
        layers, count, _ = self.get_expected_hidden_size(input, batch_sizes)
        return layers, count, self.hidden_size

    def check_hidden_size(
        self,
        hx: Any,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raises unless a first state has the shape it should."""
        if tuple(hx.shape) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
        """Raises unless input and first states fit."""
        self.check_input(input, batch_sizes)
        states = [hidden] if self.mode != "LSTM" else list(hidden)
        wanted = self.get_expected_hidden_size(input, batch_sizes)
        sizes = [(wanted, "hidden" if self.mode != "LSTM" else "hidden[0]")]
        if self.mode == "LSTM":
            sizes.append((self.get_expected_cell_size(input, batch_sizes), "hidden[1]"))
        for state, (size, name) in zip(states, sizes, strict=True):
            what = name if self.mode == "LSTM" else "hidden"
            self.check_hidden_size(state, size, f"Expected {what} size {{}}, got {{}}")
            if state.dtype is not input.dtype and not is_autocast_on():
                raise RuntimeError(
                    f"Input and {what} tensors are not the same dtype, found input tensor with "
                    f"{input.dtype} and {what} tensor with {state.dtype}"
                )

    def permute_hidden(self, hx: Any, permutation: Any) -> Any:
        """First or last states in the order of other batch places."""
        if permutation is None:
            return hx
        if self.mode == "LSTM":
            return tuple([x.index_select(1, permutation) for x in hx])
        return hx.index_select(1, permutation)

    # ---- running ---------------------------------------------------------------------------

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> tuple[Any, Any]:
        """(states of the last layer after every step, last states of all layers).

        Args:
            input: (T, N, features), (N, T, features) with `batch_first`, (T, features) for a
                single sequence, or a PackedSequence.
            hx: the first states (layers * directions, N, hidden), 0 if None; of an LSTM a pair
                of these and of the cells.
        """
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        if input.ndim not in (2, 3):
            raise ValueError(
                f"{self._get_name()}: Expected input to be 2D or 3D, got {input.ndim}D instead"
            )
        single = input.ndim == 2
        hx = self._with_batch(hx, single)
        time = 1 if self.batch_first else 0
        if single:
            input = input.unsqueeze(1 - time)
        if hx is None:
            self.check_input(input, None)
        else:
            self.check_forward_args(input, hx, None)
        if input.shape[time] == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        rows, steps, batch = _as_rows(input, time)
        rows, last = self._run(rows, hx, batch, None)
        out = _reshaped(rows, (steps, batch, rows.shape[1]))
        if self.batch_first:
            out = out.transpose(0, 1)
        if single:
            return out.squeeze(1 - time), _each(lambda x: x.squeeze(1), last)
        return out, last

    def _with_batch(self, hx: Any, single: bool) -> Any:
        """First states with a dim for the batch; raises unless they are like the input."""
        if hx is None:
            return None
        wanted, kind = (2, "unbatched") if single else (3, "batched")
        for x in hx if self.mode == "LSTM" else (hx,):
            if x.ndim != wanted:
                what = "hx and cx" if self.mode == "LSTM" else "hx"
                raise RuntimeError(
                    f"For {kind} {wanted}-D input, {what} should also be {wanted}-D but got "
                    f"{x.ndim}-D tensor"
                )
        return _each(lambda x: x.unsqueeze(1), hx) if single else hx

    def _packed(self, input: PackedSequence, hx: Any) -> tuple[Any, Any]:
        if hx is None:
            self.check_input(input.data, input.batch_sizes)
        else:
            hx = self.permute_hidden(hx, input.sorted_indices)
            self.check_forward_args(input.data, hx, input.batch_sizes)
        count = int(input.batch_sizes[0])
        rows, last = self._run(input.data, hx, count, input.batch_sizes)
        return input._replace(data=rows), self.permute_hidden(last, input.unsorted_indices)

    def _run(self, rows: Any, hx: Any, count: int, sizes: Any) -> tuple[Any, Any]:
        """The layers over each other, on rows of steps; see `livegrad.ops.layers.recurrent`."""
        directions = 2 if self.bidirectional else 1
        last: list[Any] = []
        for layer in range(self.num_layers):
            found = []
            for direction in range(directions):
                number = layer * directions + direction
                y, *final = self._layer(number, rows, hx, count, sizes, bool(direction))
                found.append(y)
                last.append(final)
            rows = found[0] if directions == 1 else cat(found, 1)
            if self.dropout and layer < self.num_layers - 1:
                rows = F.dropout(rows, self.dropout, self.training)
        states = [_side_by_side(column) for column in zip(*last, strict=True)]
        return rows, tuple(states) if self.mode == "LSTM" else states[0]

    def _layer(
        self, number: int, rows: Any, hx: Any, count: int, sizes: Any, reverse: bool
    ) -> list[Any]:
        """One layer in one direction: states after every step, last state (and cell)."""
        names = self._all_weights[number]
        weights = {name.partition("_l")[0]: getattr(self, name) for name in names[1:]}
        bias, state_bias = weights.get("bias_ih"), weights.get("bias_hh")
        if bias is not None and self.mode != "GRU":
            bias, state_bias = bias + state_bias, None
        gates = self._input_gates(rows, names[0], bias)
        kind = gates.dtype  # under autocast, not that of the weights
        h, c = self._first(number, hx, count, kind)
        states, cells = recurrent(
            self.mode,
            gates,
            h,
            _as_kind(weights["weight_hh"], kind),
            c=c,
            bias=None if state_bias is None else _as_kind(state_bias, kind),
            projection=_as_kind(weights["weight_hr"], kind) if self.proj_size else None,
            sizes=sizes,
            reverse=reverse,
        )
        found = [states, _last_rows(states, count, sizes, reverse)]
        return found if cells is None else [*found, _last_rows(cells, count, sizes, reverse)]

    def _input_gates(self, rows: Any, name: str, bias: Any) -> Any:
        """The products of all steps' inputs with the weight `name`."""
        return F.linear(rows, getattr(self, name), bias)

    def _first(self, number: int, hx: Any, count: int, dtype: Any) -> tuple[Any, Any]:
        """The first state and cell of one layer in one direction."""
        has_cell = self.mode == "LSTM"
        if hx is not None:
            first = [_as_kind(x[number], dtype) for x in (hx if has_cell else (hx,))]
            return first[0], first[1] if has_cell else None
        h = filled((count, self.proj_size or self.hidden_size), 0, dtype)
        if not has_cell or not self.proj_size:
            return h, h if has_cell else None
        return h, filled((count, self.hidden_size), 0, dtype)


def _as_rows(input: Any, time: int) -> tuple[Any, int, int]:
    """Rows of steps, sequence by sequence; how many steps and sequences there are."""
    shape = input.shape
    steps, batch, features = shape[time], shape[1 - time], shape[2]
    if time == 1 and batch > 1:
        input = permuted(input, (1, 0, 2)) if type(input) is Tensor else input.transpose(0, 1)
    return _reshaped(input, (steps * batch, features)), steps, batch


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` with another shape; classes of the user's own are asked, as by public functions."""
    return reshape_to(x, shape) if type(x) is Tensor else x.reshape(shape)


def _as_kind(x: Any, dtype: Any) -> Any:
    return x if x.dtype is dtype else x.to(dtype)


def _each(function: Any, states: Any) -> Any:
    """`function` of a state, or of a pair of state and cell."""
    if isinstance(states, tuple | list):
        return tuple([function(x) for x in states])
    return function(states)


def _side_by_side(states: Sequence[Any]) -> Any:
    """Of all layers (layers, N, width), in fewer nodes than `stack` takes."""
    joined = states[0] if len(states) == 1 else cat(list(states), 0)
    return reshape_to(joined, (len(states), *states[0].shape))


def _last_rows(rows: Any, count: int, sizes: Any, reverse: bool) -> Any:
    """Of each sequence the row of the step that was taken last."""
    if reverse or sizes is None:
        return record_slice(rows, 0, 0 if reverse else rows.shape[0] - count, count)
    steps = np.asarray(sizes.tolist(), np.int64)
    starts = np.concatenate(([0], np.cumsum(steps)[:-1]))
    place = np.arange(count)
    lengths = (steps[:, None] > place).sum(0)
    return rows.index_select(0, from_array(starts[lengths - 1] + place))


def _check_options(
    dropout: Any,
    num_layers: int,
    hidden_size: int,
    proj_size: int,
    bias: Any,
    batch_first: Any,
    input_size: Any,
) -> None:
    is_number = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
    if not is_number or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element "
            "being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}",
            stacklevel=5,
        )
    wanted = (
        ("bias", bias, bool),
        ("batch_first", batch_first, bool),
        ("input_size", input_size, int),
        ("hidden_size", hidden_size, int),
    )
    for name, value, kind in wanted:
        if not isinstance(value, kind):
            raise TypeError(
                f"{name} should be of type {kind.__name__}, got: {type(value).__name__}"
            )
    if input_size <= 0:
        raise ValueError("input_size must be greater than zero")
    if hidden_size <= 0:
        raise ValueError("hidden_size must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNN(RNNBase):
    """h = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu with `nonlinearity="relu"`.

    Takes (input_size, hidden_size, num_layers, nonlinearity, …), the rest as RNNBase.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: layers over each other.
        nonlinearity: "tanh" or "relu".
        bias: whether there are b_ih and b_hh.
        batch_first: whether sequences are (N, L, features) rather than (L, N, features).
        dropout: the share of what a layer hands to the next that is dropped in training.
        bidirectional: whether a second one reads each sequence from its end.

    Example:
        >>> out, h = nn.RNN(4, 8)(lg.ones(5, 3, 4))
        >>> out.shape
        livegrad.Size([5, 3, 8])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        if len(args) > 3:
            nonlinearity, args = args[3], (*args[:3], *args[4:])
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory: a state h and a cell c, with gates that forget, write and show.

    i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of W_ih x + b_ih + W_hh h + b_hh;
    c = f c + i g; h = o tanh(c), with `proj_size` W_hr times that.

    Args:
        input_size: features of the input.
        hidden_size: features of state and cell.
        num_layers: layers over each other.
        bias: whether there are b_ih and b_hh.
        batch_first: whether sequences are (N, L, features) rather than (L, N, features).
        dropout: the share of what a layer hands to the next that is dropped in training.
        bidirectional: whether a second one reads each sequence from its end.
        proj_size: features of what is shown, if not `hidden_size`.

    Example:
        >>> out, (h, c) = nn.LSTM(4, 8, num_layers=2, batch_first=True)(lg.ones(3, 5, 4))
        >>> out.shape, h.shape
        (livegrad.Size([3, 5, 8]), livegrad.Size([2, 3, 8]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent unit: r, z = sigmoid(W_ih x + b_ih + W_hh h + b_hh);
    n = tanh(W_in x + b_in + r (W_hn h + b_hn)); h = (1 - z) n + z h.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        num_layers: layers over each other.
        bias: whether there are b_ih and b_hh.
        batch_first: whether sequences are (N, L, features) rather than (L, N, features).
        dropout: the share of what a layer hands to the next that is dropped in training.
        bidirectional: whether a second one reads each sequence from its end.

    Example:
        >>> out, h = nn.GRU(4, 8, batch_first=True)(lg.ones(3, 5, 4))
        >>> out.shape
        livegrad.Size([3, 5, 8])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


def _no_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


# What layers do with the tensors they are given can be overridden.
publish(globals(), ("cat", "recurrent"))
