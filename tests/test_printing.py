"""repr of tensors, against texts that PyTorch prints."""

import pytest

import livegrad as lg
from livegrad import printing

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def default_options():
    yield
    lg.set_printoptions(profile="default")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: lg.tensor(1.5), "tensor(1.5000)"),
        (lambda: lg.tensor(3), "tensor(3)"),
        (lambda: lg.tensor(True), "tensor(True)"),
        (lambda: lg.tensor([1.0, 2.0]), "tensor([1., 2.])"),
        (lambda: lg.tensor([1.5, -2.25]), "tensor([ 1.5000, -2.2500])"),
        (lambda: lg.tensor([]), "tensor([])"),
        (lambda: lg.zeros(0, 3), "tensor([], size=(0, 3))"),
        (lambda: lg.zeros(0, dtype=lg.int64), "tensor([], dtype=livegrad.int64)"),
        (lambda: lg.tensor([1, 20]), "tensor([ 1, 20])"),
        (lambda: lg.tensor([True, False]), "tensor([ True, False])"),
        (lambda: lg.tensor([NAN, 1.0]), "tensor([nan, 1.])"),
        (lambda: lg.tensor([INF, 1.5]), "tensor([   inf, 1.5000])"),
        (lambda: lg.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
        (lambda: lg.tensor([1e10, 1.0]), "tensor([1.0000e+10, 1.0000e+00])"),
        (lambda: lg.tensor([0.0, 0.0]), "tensor([0., 0.])"),
        (lambda: lg.tensor([1.0], dtype=lg.float64), "tensor([1.], dtype=livegrad.float64)"),
        (lambda: lg.tensor([1.5], dtype=lg.bfloat16), "tensor([1.5000], dtype=livegrad.bfloat16)"),
        (lambda: lg.tensor([1], dtype=lg.int32), "tensor([1], dtype=livegrad.int32)"),
        (lambda: lg.tensor([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
        (
            lambda: lg.tensor([1.0], requires_grad=True) * 2,
            "tensor([2.], grad_fn=<MulBackward0>)",
        ),
        (lambda: lg.ones(2, 2), "tensor([[1., 1.],\n        [1., 1.]])"),
        (
            lambda: lg.zeros(2, 1, 2),
            "tensor([[[0., 0.]],\n\n        [[0., 0.]]])",
        ),
        (lambda: lg.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    ],
)
def test_repr(make, text):
    assert repr(make()) == text


def test_long_tensors_are_shortened_in_every_dim():
    text = repr(lg.arange(3000).reshape(10, 300))
    assert text.count("...") == 7
    assert text.splitlines()[0] == "tensor([[   0,    1,    2,  ...,  297,  298,  299],"


def test_lines_are_wrapped():
    lines = repr(lg.arange(40)).splitlines()
    assert len(lines) == 3
    assert max(len(line) for line in lines) <= 80


def test_suffix_goes_to_a_line_of_its_own_when_it_does_not_fit():
    x = (lg.zeros(2, 9) + 0.5).requires_grad_()
    assert repr(x).endswith("],\n       requires_grad=True)")


def test_options():
    x = lg.tensor([1.23456, 2.0])
    lg.set_printoptions(precision=2)
    assert repr(x) == "tensor([1.23, 2.00])"
    lg.set_printoptions(profile="default", sci_mode=True)
    assert repr(x) == "tensor([1.2346e+00, 2.0000e+00])"
    lg.set_printoptions(profile="full")
    assert "..." not in repr(lg.zeros(2000))
    lg.set_printoptions(profile="short")
    assert printing.get_printoptions()["edgeitems"] == 2
    with pytest.raises(ValueError, match="profile"):
        lg.set_printoptions(profile="no such")


def test_printing_changes_nothing():
    x = lg.ones(3, requires_grad=True)
    y = x * 2
    repr(y)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_what_may_not_be_differentiated_any_more_can_be_printed():
    x = lg.ones(3, requires_grad=True)
    first, _ = (x * 2).split([1, 2])
    with lg.no_grad():
        part = x[:2]
        x.add_(1)
    assert repr(part) == "tensor([2., 2.], grad_fn=<Invalid>)"
    first.detach().mul_(2)
    assert repr(first) == "tensor([4.], grad_fn=<Invalid>)"
