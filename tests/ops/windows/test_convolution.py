"""Windows, their overlapping sum, and convolutions: against definitions and against PyTorch."""

import numpy as np
import pytest
from against_torch import agree, agree_with_gradients, both
from hypothesis import given, settings, strategies as st

import livegrad as lg
import livegrad.nn.functional as F
from livegrad.ops.windows.unfolding import overlap_add, window_count, windows

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)


@settings(max_examples=40)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.integers(0, 9), st.booleans())
def test_windows_and_overlap_add_are_adjoint(size, stride, dilation, more, first):
    length = dilation * (size - 1) + 1 + more
    shape = (length, 2) if first else (2, length)
    dim = 0 if first else 1
    x = lg.tensor(RNG.normal(size=shape))
    count = window_count(length, size, stride, dilation)
    y = lg.tensor(RNG.normal(size=(*shape[:dim], size, count, *shape[dim + 1 :])))
    seen = windows(x, dim, size, stride, dilation)
    expected = np.take(
        x.numpy(), dilation * np.arange(size)[:, None] + stride * np.arange(count), dim
    )
    np.testing.assert_array_equal(seen.numpy(), expected)
    left = (seen * y).sum().item()
    right = (x * overlap_add(y, dim, shape, stride, dilation)).sum().item()
    assert left == pytest.approx(right, rel=1e-12, abs=1e-12)


CONVOLUTIONS = [
    ((2, 3, 9), (4, 3, 3), {}),
    ((3, 9), (4, 3, 3), {"padding": "same", "dilation": 2}),
    ((2, 4, 6, 7), (6, 2, 3, 2), {"stride": (2, 1), "padding": (1, 2), "groups": 2}),
    ((1, 4, 7, 7), (4, 1, 2, 2), {"padding": "same", "dilation": 2, "groups": 4}),
    ((2, 3, 8, 9), (2, 3, 3, 3), {"stride": 3, "dilation": 2, "padding": 1}),
    ((1, 2, 4, 4, 5), (2, 2, 2, 3, 2), {"stride": 2, "padding": 1}),
    # Images as lanes; many channels; a single element in the last dim.
    ((25, 3, 5, 6), (17, 3, 3, 3), {"padding": 1}),
    ((16, 13, 9), (5, 13, 3), {"stride": 2, "padding": 2}),
    ((14, 13, 4, 1), (2, 13, 1, 2), {"padding": 1, "dilation": 2}),
    ((3, 2, 4, 1), (2, 2, 1, 1), {"padding": 1}),
    # Channels as lanes.
    ((2, 9, 7, 7), (9, 1, 5, 5), {"padding": 2, "groups": 9}),
    ((1, 8, 9, 12), (8, 1, 7, 7), {"padding": 3, "groups": 8}),
    ((1, 17, 6, 19), (17, 1, 3, 2), {"padding": (0, 2), "stride": (1, 3), "groups": 17}),
    ((2, 8, 9, 5), (8, 1, 3, 3), {"padding": 3, "dilation": (2, 3), "stride": 2, "groups": 8}),
]


@pytest.mark.parametrize(("x", "weight", "options"), CONVOLUTIONS, ids=str)
def test_convolution(x, weight, options):
    name = f"conv{len(weight) - 2}d"
    pairs = [both(*x), both(*weight), both(weight[0])]
    mine, yours = [list(each) for each in zip(*pairs, strict=True)]
    ours = getattr(F, name)(*mine, **options)
    theirs = getattr(torch.nn.functional, name)(*yours, **options)
    agree_with_gradients(ours, theirs, mine, yours)


TRANSPOSED = [
    ((2, 3, 5), (3, 4, 3), {}),
    ((4, 5), (4, 2, 3), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}),
    ((2, 4, 3, 4), (4, 1, 3, 2), {"stride": (3, 1), "dilation": (1, 2), "padding": 1}),
    ((1, 2, 3, 3), (2, 2, 2, 2), {"stride": 2, "dilation": 3, "output_padding": 2}),
    ((1, 2, 2, 3, 2), (2, 3, 2, 2, 3), {"stride": 2, "padding": 1}),
    ((2, 18, 5, 4), (18, 1, 4, 3), {"stride": 2, "padding": 1, "groups": 18}),
    ((1, 2, 4, 5), (2, 3, 3, 4), {"stride": (4, 6), "dilation": (6, 4), "padding": (3, 2)}),
    ((1, 3, 3, 4), (3, 2, 5, 2), {"stride": (6, 3), "dilation": (2, 6), "padding": 1}),
]


@pytest.mark.parametrize(("x", "weight", "options"), TRANSPOSED, ids=str)
def test_transposed_convolution(x, weight, options):
    name = f"conv_transpose{len(weight) - 2}d"
    bias = weight[1] * options.get("groups", 1)
    pairs = [both(*x), both(*weight), both(bias)]
    mine, yours = [list(each) for each in zip(*pairs, strict=True)]
    ours = getattr(F, name)(*mine, **options)
    theirs = getattr(torch.nn.functional, name)(*yours, **options)
    agree_with_gradients(ours, theirs, mine, yours)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_same_padding_of_even_kernels_is_longer_after():
    (x, y), (weight, other) = both(1, 2, 7), both(3, 2, 4)
    theirs = torch.nn.functional.conv1d(y, other, padding="same")
    agree_with_gradients(F.conv1d(x, weight, padding="same"), theirs, [x, weight], [y, other])


@pytest.mark.parametrize("dtype", ["int64", "complex128", "float16"])
def test_other_dtypes(dtype):
    x = (RNG.normal(size=(2, 3, 6)) * 4).astype(dtype)
    weight = (RNG.normal(size=(2, 3, 3)) * 4).astype(dtype)
    if dtype == "complex128":
        x = x + 1j * RNG.normal(size=x.shape)
    got = F.conv1d(lg.tensor(x), lg.tensor(weight), padding=1)
    expected = torch.nn.functional.conv1d(torch.tensor(x), torch.tensor(weight), padding=1)
    assert str(got.dtype).split(".")[-1] == dtype
    tolerance = 2e-3 if dtype == "float16" else 1e-9
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["int32", "complex64", "float16", "bfloat16", "float64"])
def test_other_dtypes_of_channels_by_themselves(dtype):
    x, weight = [np.round(RNG.normal(size=s) * 4) for s in ((2, 20, 6, 7), (20, 1, 3, 3))]
    kinds = [getattr(T, dtype) for T in (lg, torch)]
    got, expected = [
        f(T.tensor(x).to(kind), T.tensor(weight).to(kind), padding=1, groups=20)
        for T, f, kind in zip(
            (lg, torch), (F.conv2d, torch.nn.functional.conv2d), kinds, strict=True
        )
    ]
    assert got.dtype is kinds[0]
    agree(got.to(lg.complex128), expected.to(torch.complex128))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_channels_have_the_same_bits_as_lanes_and_in_loops(dtype):
    x, weight = [
        lg.tensor(RNG.normal(size=s).astype(dtype)) for s in ((3, 40, 11, 13), (40, 1, 3, 5))
    ]
    for stride, padding in ((1, (1, 2)), (2, 0), ((3, 1), (2, 1))):
        together = F.conv2d(x, weight, stride=stride, padding=padding, groups=40).numpy()
        for i in range(0, 40, 4):  # too few to be lanes
            part = slice(i, i + 4)
            few = F.conv2d(x[:, part], weight[part], stride=stride, padding=padding, groups=4)
            np.testing.assert_array_equal(few.numpy(), together[:, part])


@pytest.mark.parametrize("side", [8, 16, 23, 24, 33])
@pytest.mark.parametrize("stride", [1, 2])
def test_an_image_has_the_same_bits_alone_and_among_others(side, stride):
    """Images as lanes, and output channels, by how far windows reach beyond images."""
    x, weight = [
        lg.tensor(RNG.normal(size=s).astype("f")) for s in ((32, 30, side, side), (40, 30, 3, 3))
    ]
    together = F.conv2d(x, weight, stride=stride, padding=1).numpy()
    for i in (0, 17, 31):
        alone = F.conv2d(x[i : i + 1], weight, stride=stride, padding=1).numpy()
        np.testing.assert_array_equal(alone[0], together[i])


def test_a_training_step_lays_out_columns_once(counted):
    x = lg.tensor(RNG.normal(size=(2, 3, 8, 8)))
    weight = lg.tensor(RNG.normal(size=(4, 3, 3, 3)), requires_grad=True)
    bias = lg.zeros(4, dtype=lg.float64, requires_grad=True)

    def step():
        loss = F.conv2d(x, weight, bias, padding=1).relu().sum()
        loss.backward()
        return loss.item()

    for _ in range(2):
        step()
        weight.grad = bias.grad = None
    with counted() as c:
        step()
    assert c.plan_misses == 0
    # Pad (2 kernels), columns, product, bias and relu, sum of the loss, and per gradient: that of
    # the output twice, product, transpose, bias.
    assert c.kernels_run <= 12


def test_unfold_and_fold():
    for options in ({}, {"dilation": 2, "padding": 1, "stride": 2}, {"stride": (3, 1)}):
        mine, yours = both(2, 3, 7, 6)
        columns = F.unfold(mine, (2, 3), **options)
        wanted = torch.nn.functional.unfold(yours, (2, 3), **options)
        agree_with_gradients(columns, wanted, [mine], [yours])
        back = F.fold(columns, (7, 6), (2, 3), **options)
        agree(back, torch.nn.functional.fold(wanted, (7, 6), (2, 3), **options))


WRONG = [
    (lambda T, f: f.conv1d(T.ones(1, 3, 5), T.ones(2, 2, 3)), RuntimeError, "channels"),
    (lambda T, f: f.conv1d(T.ones(1, 3, 2), T.ones(2, 3, 3)), RuntimeError, "size"),
    (lambda T, f: f.conv2d(T.ones(3, 5), T.ones(2, 3, 3)), RuntimeError, "weight"),
    (lambda T, f: f.conv1d(T.ones(1, 3, 5), T.ones(2, 3, 3), stride=0), RuntimeError, "stride"),
    (lambda T, f: f.conv1d(T.ones(1, 3, 5), T.ones(2, 3, 3), groups=2), RuntimeError, "groups"),
    (lambda T, f: f.conv1d(T.ones(1, 3, 5), T.ones(2, 3, 3).double()), RuntimeError, "same"),
    (
        lambda T, f: f.conv1d(T.ones(1, 3, 5), T.ones(2, 3, 3), padding="same", stride=2),
        RuntimeError,
        "strided",
    ),
    (
        lambda T, f: f.conv_transpose1d(T.ones(1, 3, 5), T.ones(3, 2, 3), output_padding=1),
        RuntimeError,
        "output padding",
    ),
    (lambda T, f: f.unfold(T.ones(1, 3, 2, 2), 3), RuntimeError, "at least one"),
    (lambda T, f: f.fold(T.ones(1, 4, 5), (3, 3), 2), RuntimeError, "blocks"),
]


@pytest.mark.parametrize(("call", "error", "mentions"), WRONG)
def test_errors(call, error, mentions):
    with pytest.raises(error):
        call(torch, torch.nn.functional)
    with pytest.raises(error, match=mentions):
        call(lg, F)


@pytest.mark.parametrize("images", [2, 3, 5])
@pytest.mark.parametrize("side", [14, 16, 20])
def test_single_places_of_several_images(images: int, side: int) -> None:
    """Images that are multiplied together, or one by one, are those that were given."""
    random = np.random.default_rng(0)
    x = random.standard_normal((images, 24, side, side)).astype(np.float32)
    w = random.standard_normal((40, 24, 1, 1)).astype(np.float32)
    y = F.conv2d(lg.tensor(x), lg.tensor(w)).numpy()
    expected = np.einsum("ncij,oc->noij", x.astype(np.float64), w[:, :, 0, 0])
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


POINTWISE = [
    # Images, groups, channels, outputs, sides.
    (1, 1, 70, 33, (1, 1)), (6, 1, 300, 40, (1, 1)), (5, 2, 17, 9, (1, 1)), (1, 1, 40, 50, (7, 7)),
    (3, 1, 20, 18, (12, 13)), (2, 3, 5, 4, (11, 12)), (9, 1, 13, 6, (4, 4)), (1, 1, 2, 2, (3, 1)),
    (40, 1, 16, 20, (14, 14)), (3, 1, 1, 5, (1, 1)), (3, 1, 1, 5, (12, 12)),
]  # fmt: skip


def _laid_out(array: np.ndarray, way: str) -> lg.Tensor:
    """The same elements, which lie in memory in other ways."""
    if way == "channels last":
        return lg.tensor(array.transpose(0, 2, 3, 1).copy()).permute(0, 3, 1, 2)
    if way == "images last":
        return lg.tensor(array.transpose(1, 2, 3, 0).copy()).permute(3, 0, 1, 2)
    if way == "every other":
        return lg.tensor(np.repeat(array, 2, 1))[:, ::2]
    return lg.tensor(array)


@pytest.mark.parametrize("sizes", POINTWISE, ids=str)
def test_windows_of_single_places(sizes: tuple) -> None:
    """Products of matrices, however operands lie: the same bits, near those of float64."""
    images, groups, channels, outputs, sides = sizes
    x = RNG.normal(size=(images, groups * channels, *sides)).astype("f")
    w = RNG.normal(size=(groups * outputs, channels, 1, 1)).astype("f")
    g = RNG.normal(size=(images, groups * outputs, *sides)).astype("f")
    exact = [torch.tensor(y.astype("d"), requires_grad=True) for y in (x, w)]
    y = torch.nn.functional.conv2d(*exact, groups=groups)
    wanted = [y.detach(), *torch.autograd.grad(y, exact, torch.tensor(g.astype("d")))]
    found = set()
    for way in ("", "channels last", "images last", "every other"):
        mine = [_laid_out(x, way).requires_grad_(), _laid_out(w, way).requires_grad_()]
        out = F.conv2d(*mine, groups=groups)
        results = [out.detach(), *lg.autograd.grad(out, mine, _laid_out(g, way))]
        found.add(b"".join([each.numpy().tobytes() for each in results]))
        for each, right in zip(results, wanted, strict=True):
            assert each.shape == right.shape
            largest = 1e-6 * max(right.abs().max().item(), 1) * 8
            np.testing.assert_allclose(each.numpy(), right.numpy(), rtol=0, atol=largest)
    assert len(found) == 1


def test_what_was_asked_before_is_checked_by_what_it_is() -> None:
    """1.0 is equal to 1, and refused all the same; a list is read again."""
    x, w = lg.ones(1, 2, 5, 5), lg.ones(3, 2, 2, 2)
    assert F.conv2d(x, w, stride=1).shape == (1, 3, 4, 4)
    with pytest.raises(TypeError):
        F.conv2d(x, w, stride=1.0)
    assert F.conv2d(x, w, stride=(1, 1)).shape == (1, 3, 4, 4)
    with pytest.raises(TypeError):
        F.conv2d(x, w, stride=(1.0, 1.0))
    steps = [1, 1]
    assert F.conv2d(x, w, stride=steps).shape == (1, 3, 4, 4)
    steps[0] = 2
    assert F.conv2d(x, w, stride=steps).shape == (1, 3, 2, 4)
    with pytest.raises(RuntimeError):
        F.conv1d(x, w, stride=1)
