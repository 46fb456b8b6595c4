"""Recurrent layers: steps, lengths, and what recording them costs."""

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn
from livegrad.graph.state import LOCAL, reference_mode
from livegrad.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
)


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


KINDS = ["RNN", "LSTM", "GRU"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_is_its_cell_step_by_step(kind):
    layer, cell = getattr(nn, kind)(3, 4), getattr(nn, kind + "Cell")(3, 4)
    cell.load_state_dict({key.removesuffix("_l0"): v for key, v in layer.state_dict().items()})
    x = lg.tensor(draw(5, 2, 3))
    out, last = layer(x)
    state = None
    for t in range(5):
        state = cell(x[t], state)
        close(out[t], state[0] if kind == "LSTM" else state)
    for a, b in zip(last, state, strict=True) if kind == "LSTM" else [(last, state)]:
        close(a[0], b)
    single, _ = layer(x[:, 0])
    close(single, out[:, 0])
    assert cell(x[0, 0])[0].ndim == (1 if kind == "LSTM" else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_of_different_lengths_do_not_touch(kind):
    layer = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=True)
    parts = [lg.tensor(draw(n, 3, seed=n)) for n in (2, 5, 3)]
    out, last = layer(pack_sequence(parts, enforce_sorted=False))
    assert isinstance(out, PackedSequence)
    padded, lengths = pad_packed_sequence(out)
    assert lengths.tolist() == [2, 5, 3]
    for i, part in enumerate(parts):
        alone, final = layer(part)
        close(padded[: len(part), i], alone)
        for a, b in zip(last, final, strict=True) if kind == "LSTM" else [(last, final)]:
            close(a[:, i], b)


def test_lengths_are_run_time_arguments():
    """The same few nodes are recorded for every length, and nothing is compiled."""
    layer = nn.LSTM(3, 4, num_layers=2)
    counts, compiled = [], []
    for length in (3, 4, 9, 50):
        layer.zero_grad()
        before = lg.stats()
        y, _ = layer(lg.tensor(draw(length, 2, 3)))
        (y * y).mean().backward()
        counts.append(len(LOCAL.state.nodes))
        layer.weight_ih_l0.grad.numpy()
        after = lg.stats()
        made = after.kernels_compiled + after.kernels_loaded
        compiled.append(made - before.kernels_compiled - before.kernels_loaded)
    assert len(set(counts[1:])) == 1  # the first time, initial values are pending too
    assert counts[1] < 60
    assert compiled[1:] == [0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_equals_reference(kind):
    layer = getattr(nn, kind)(3, 4)
    x = draw(4, 2, 3)

    def run():
        layer.zero_grad()
        layer(lg.tensor(x))[0].sum().backward()
        return [p.grad.numpy() for p in layer.parameters()]

    compiled = run()
    with reference_mode():
        plain = run()
    for a, b in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_after_a_read_have_the_same_bits(kind):
    layer = getattr(nn, kind)(3, 20, num_layers=2)
    x = draw(6, 5, 3)

    def run(read):
        layer.zero_grad()
        loss = (layer(lg.tensor(x))[0] ** 2).sum()
        if read:
            loss.item()
        loss.backward()
        return [p.grad.numpy().tobytes() for p in layer.parameters()]

    assert run(read=True) == run(read=False)


def test_nothing_runs_through_numpy(counted):
    packed = pack_sequence([lg.tensor(draw(n, 3)) for n in (5, 2)])
    with counted() as c:
        for layer in (nn.LSTM(3, 4, proj_size=2), nn.GRU(3, 4, bidirectional=True), nn.RNN(3, 4)):
            layer(packed)[0].data.sum().backward()
            layer.weight_hh_l0.grad.numpy()
    assert c.host_steps == 0


def test_dropout_is_between_layers_while_training():
    layer = nn.GRU(3, 50, num_layers=2, dropout=0.5)
    x = lg.tensor(draw(2, 4, 3))
    assert layer(x)[0].tolist() != layer(x)[0].tolist()
    layer.eval()
    assert layer(x)[0].tolist() == layer(x)[0].tolist()
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        nn.GRU(3, 4, dropout=0.5)


def test_low_precision_and_double():
    for dtype, tolerance in ((lg.bfloat16, 0.1), (lg.float16, 1e-2), (lg.float64, 1e-6)):
        layer = nn.LSTM(3, 4)
        x = draw(4, 2, 3)
        wanted = layer(lg.tensor(x))[0].detach().numpy()
        y, _ = layer.to(dtype)(lg.tensor(x).to(dtype))
        assert y.dtype is dtype
        np.testing.assert_allclose(y.detach().double().numpy(), wanted, atol=tolerance)
        y.sum().backward()
        assert layer.weight_hh_l0.grad.dtype is dtype


MISTAKES = [
    (lambda: nn.LSTM(3, 4)(lg.ones(2, 2, 5)), RuntimeError, "Expected 3, got 5"),
    (lambda: nn.LSTM(3, 4)(lg.ones(2, 2, 2, 3)), ValueError, "2D or 3D"),
    (lambda: nn.GRU(3, 4)(lg.ones(2, 2, 3), lg.ones(1, 3, 4)), RuntimeError, r"got \[1, 3, 4\]"),
    (lambda: nn.GRU(3, 4)(lg.ones(2, 2, 3), lg.ones(1, 4)), RuntimeError, "should also be 3-D"),
    (lambda: nn.GRU(3, 4)(lg.ones(2, 2, 3).double()), ValueError, "does not match weight dtype"),
    (lambda: nn.RNN(3, 4)(lg.ones(0, 2, 3)), RuntimeError, "larger than 0"),
    (lambda: nn.RNN(3, 4, nonlinearity="sin"), ValueError, "Unknown nonlinearity"),
    (lambda: nn.LSTM(3, 4, proj_size=4), ValueError, "smaller than hidden_size"),
    (lambda: nn.GRU(3, 4, proj_size=2), ValueError, "only supported for LSTM"),
    (lambda: nn.LSTM(3, 4, dropout=1.5), ValueError, r"in range \[0, 1\]"),
    (lambda: nn.LSTMCell(3, 4)(lg.ones(2, 5)), RuntimeError, "inconsistent input_size"),
    (lambda: nn.GRUCell(3, 4)(lg.ones(2, 3), lg.ones(3, 4)), RuntimeError, "batch size 2"),
    (lambda: pack_padded_sequence(lg.ones(3, 2, 1), [1, 2]), RuntimeError, "decreasing order"),
    (lambda: pack_padded_sequence(lg.ones(3, 2, 1), [2]), RuntimeError, "batch_size=2"),
    (lambda: pack_padded_sequence(lg.ones(3, 2, 1), [3, 0]), RuntimeError, "greater than 0"),
    (lambda: pack_padded_sequence(lg.ones(3, 2, 1), [4, 1]), RuntimeError, "at most 3"),
    (lambda: pad_sequence([lg.ones(2, 3), lg.ones(2, 4)]), RuntimeError, "differ in length only"),
]


@pytest.mark.parametrize(("call", "error", "text"), MISTAKES, ids=[m[2] for m in MISTAKES])
def test_mistakes(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_weights_can_be_shared_and_replaced():
    layer = nn.LSTM(4, 4, num_layers=2)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        setattr(layer, f"{name}_l1", getattr(layer, f"{name}_l0"))
    assert len(list(layer.parameters())) == 4
    y, _ = layer(lg.tensor(draw(3, 2, 4)))
    y.sum().backward()
    assert layer.weight_hh_l1.grad is layer.weight_hh_l0.grad
    assert [len(part) for part in layer.all_weights] == [4, 4]
    assert layer.all_weights[0][0] is layer.weight_ih_l0


def test_results_are_values_of_their_own() -> None:
    x = lg.ones(4, 3, 2)
    for options in ({}, {"batch_first": True}, {"num_layers": 2}, {"proj_size": 1}):
        y, (h, c) = nn.LSTM(2, 2, **options)(x)
        assert h.is_contiguous()
        assert c.is_contiguous()
        assert (y.transpose(0, 1) if "batch_first" in options else y).is_contiguous()
    h, c = nn.LSTMCell(2, 2)(x[0])
    assert (h.stride(), c.stride()) == ((2, 1), (2, 1))
