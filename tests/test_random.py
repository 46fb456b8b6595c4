"""Random numbers: Philox itself, generators, distributions, dropout."""

import numpy as np
import pytest

import livegrad as lg
from livegrad.ops.making.philox import philox


@pytest.mark.parametrize(
    ("seed", "counter", "words"),
    [
        # Known answers of Random123 for philox4x32-10 with the upper counter words 0.
        (0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ],
)
def test_philox_known_answers(seed, counter, words):
    got = philox(seed, np.array([counter]))
    assert tuple(int(w[0]) for w in got) == words


@pytest.mark.parametrize("seed", [0, 5, 2**63 + 12345, 2**64 - 1])
def test_few_words_are_those_of_many(seed):
    """A few are made with Python's integers, many with NumPy's."""
    counters = np.array([0, 1, 2**31, 2**32 - 1, 2**32, 2**40 + 7, 2**62, 3, 9], np.int64)
    many = philox(seed, counters)
    for i, counter in enumerate(counters):
        few = philox(seed, np.array([[counter]]))
        assert few[0].shape == (1, 1)
        assert [int(w[0, 0]) for w in few] == [int(w[i]) for w in many]
    assert [w.shape for w in philox(seed, np.zeros((2, 0), np.int64))] == [(2, 0)] * 4


def test_numbers_depend_on_seed_and_position_alone():
    lg.manual_seed(7)
    whole = lg.rand(10).numpy()
    lg.manual_seed(7)
    parts = np.concatenate([lg.rand(4).numpy(), lg.rand(2, 3).numpy().ravel()])
    np.testing.assert_array_equal(whole, parts)


def test_generator_state_round_trip():
    lg.manual_seed(3)
    lg.rand(5)
    state = lg.get_rng_state()
    first = lg.rand(4).tolist()
    lg.set_rng_state(state)
    assert lg.rand(4).tolist() == first
    assert lg.initial_seed() == 3


def test_own_generator_leaves_the_default_alone():
    lg.manual_seed(0)
    expected = lg.rand(3).tolist()
    lg.manual_seed(0)
    own = lg.Generator().manual_seed(5)
    lg.rand(100, generator=own)
    assert lg.rand(3).tolist() == expected
    assert own.seed() == own.initial_seed()
    with pytest.raises(ValueError, match="64 bits"):
        own.manual_seed(1 << 70)


@pytest.mark.parametrize("dtype", [lg.float16, lg.bfloat16, lg.float32, lg.float64])
def test_uniform(dtype):
    lg.manual_seed(0)
    x = lg.rand(20000, dtype=dtype).double().numpy()
    assert x.min() >= 0
    assert x.max() < 1
    assert abs(x.mean() - 0.5) < 0.01
    assert abs(x.var() - 1 / 12) < 0.005


@pytest.mark.parametrize("dtype", [lg.float16, lg.float32, lg.float64])
def test_normal(dtype):
    lg.manual_seed(0)
    x = lg.randn(20000, dtype=dtype).double().numpy()
    assert abs(x.mean()) < 0.03
    assert abs(x.std() - 1) < 0.02
    assert abs((x**3).mean()) < 0.1
    assert abs((x**4).mean() - 3) < 0.2


def test_integers():
    lg.manual_seed(0)
    x = lg.randint(-3, 4, (7000,)).numpy()
    assert set(x) == set(range(-3, 4))
    assert abs(np.bincount(x + 3) - 1000).max() < 150
    assert lg.randint(5, (3,)).shape == (3,)
    assert lg.randint(5, size=(2, 3), dtype=lg.uint8).dtype is lg.uint8
    wide = lg.randint(0, 1 << 40, (1000,)).numpy()
    assert wide.max() > 1 << 39
    with pytest.raises(RuntimeError, match="'from' to be less than 'to'"):
        lg.randint(5, 5, (1,))


def test_permutation():
    lg.manual_seed(0)
    assert sorted(lg.randperm(50).tolist()) == list(range(50))
    assert lg.randperm(0).tolist() == []


def test_in_place_distributions():
    lg.manual_seed(0)
    n = 20000
    assert abs(lg.empty(n).uniform_(2, 4).mean().item() - 3) < 0.02
    assert abs(lg.empty(n).normal_(5, 0.5).std().item() - 0.5) < 0.02
    assert abs(lg.empty(n).exponential_(2).mean().item() - 0.5) < 0.02
    assert abs(lg.empty(n).bernoulli_(0.3).mean().item() - 0.3) < 0.02
    assert abs(lg.bernoulli(lg.full((n,), 0.7)).mean().item() - 0.7) < 0.02
    assert set(lg.empty(100).random_(3).tolist()) == {0, 1, 2}
    mean = lg.tensor([0.0, 100.0])
    assert (lg.normal(mean, 1.0) - mean).abs().max().item() < 10
    with pytest.raises(RuntimeError, match="std >= 0"):
        lg.empty(2).normal_(0, -1)


def test_dropout_keeps_no_mask_and_its_gradient_uses_the_same_one():
    lg.manual_seed(0)
    x = lg.ones(10000, requires_grad=True)
    y = lg.dropout(x, 0.25, True)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    kept = y.detach().numpy()
    assert set(np.unique(kept)) == {0.0, np.float32(1 / 0.75)}
    assert abs((kept > 0).mean() - 0.75) < 0.02
    assert lg.dropout(x, 0.25, False) is x
    assert lg.dropout(x, 1.0, True).sum().item() == 0
    with pytest.raises(ValueError, match="between 0 and 1"):
        lg.dropout(x, 1.5, True)


def test_multinomial():
    lg.manual_seed(0)
    weights = lg.tensor([1.0, 0.0, 3.0])
    drawn = lg.multinomial(weights, 8000, replacement=True).numpy()
    share = np.bincount(drawn, minlength=3) / 8000
    np.testing.assert_allclose(share, [0.25, 0, 0.75], atol=0.02)
    rows = lg.multinomial(lg.ones(4, 5), 5).numpy()
    assert all(sorted(row) == list(range(5)) for row in rows)
    with pytest.raises(RuntimeError, match="without replacement"):
        lg.multinomial(weights, 4)


@pytest.mark.parametrize("dtype", [lg.float16, lg.bfloat16, lg.float32, lg.float64])
def test_one_category_of_each_row(dtype):
    lg.manual_seed(0)
    weights = lg.tensor([1.0, 0.0, 3.0, 4.0], dtype=dtype)
    drawn = lg.multinomial(weights.expand(8000, 4), 1)
    assert drawn.shape == (8000, 1)
    assert drawn.dtype is lg.int64
    share = np.bincount(drawn.flatten().numpy(), minlength=4) / 8000
    np.testing.assert_allclose(share, [0.125, 0, 0.375, 0.5], atol=0.02)
    assert lg.multinomial(weights, 1).shape == (1,)
    assert lg.multinomial(lg.ones(0, 3), 1).shape == (0, 1)
    tiny = lg.multinomial(lg.tensor([0.0, 1e-300], dtype=lg.float64).expand(50, 2), 1)
    assert tiny.flatten().tolist() == [1] * 50


@pytest.mark.usefixtures("whole_plans")
def test_one_category_is_drawn_without_numpy(counted):
    weights = lg.tensor([1.0, 2.0, 3.0])
    with counted() as count:
        assert lg.multinomial(weights, 1).item() in (0, 1, 2)
    assert count.host_steps == 0


@pytest.mark.parametrize("weights", [[0.2, -0.1], [float("nan"), 1.0], [float("inf"), 1.0], [0.0]])
@pytest.mark.parametrize("rows", [1, 3])
def test_multinomial_refuses(weights, rows):
    with pytest.raises(RuntimeError, match="multinomial: probability tensor"):
        lg.multinomial(lg.tensor([[1.0] * len(weights)] * (rows - 1) + [weights]), 1, True).tolist()


def test_multinomial_of_one_row_is_that_of_many():
    weights = lg.tensor([0.1, 0.0, 0.6, 0.3])
    lg.manual_seed(5)
    one = lg.multinomial(weights, 40, True).tolist()
    lg.manual_seed(5)
    many = lg.multinomial(weights.expand(2, 4), 40, True)[0].tolist()
    assert one == many
    assert set(one) <= {0, 2, 3}


def test_programs_that_seed_nothing_draw_different_numbers(python):
    source = "import livegrad as lg; print(lg.initial_seed(), lg.rand(3).tolist())"
    first, second = [python(source).stdout.split(maxsplit=1) for _ in range(2)]
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_a_new_generator_starts_where_pytorchs_does():
    assert lg.Generator().initial_seed() == 67280421310721
    assert lg.rand(3, generator=lg.Generator()).tolist() == (
        lg.rand(3, generator=lg.Generator()).tolist()
    )


def test_negative_seeds_count_from_the_top():
    first = lg.manual_seed(-5).initial_seed()
    values = lg.rand(3).tolist()
    assert first == lg.initial_seed() == 2**64 - 5
    lg.manual_seed(2**64 - 5)
    assert lg.rand(3).tolist() == values


def test_seed_is_a_new_one_each_time():
    seeds = {lg.seed() for _ in range(4)}
    assert len(seeds) == 4
    assert lg.initial_seed() in seeds


@pytest.mark.parametrize("device", ["x", "", "cuda", "meta", "cpu:x"])
def test_generators_of_devices_that_are_not_there(device: str) -> None:
    with pytest.raises((RuntimeError, AssertionError)):  # the latter of a GPU, as everywhere
        lg.Generator(device)


@pytest.mark.parametrize("device", [1.5, True, [], b"cpu"])
def test_generators_of_what_is_no_device(device: object) -> None:
    with pytest.raises(TypeError):
        lg.Generator(device)


@pytest.mark.parametrize("device", [None, "cpu", "cpu:0", lg.device("cpu")])
def test_generators_of_the_cpu(device: object) -> None:
    assert lg.Generator(device).initial_seed() == lg.Generator().initial_seed()


def test_integers_like_a_tensor_take_one_bound_or_two_also_by_name():
    x = lg.ones(200)
    for drawn in (lg.randint_like(x, 2), lg.randint_like(x, high=2), lg.randint_like(x, 0, 2)):
        assert sorted(set(drawn.tolist())) == [0.0, 1.0]
    assert set(lg.randint_like(x, low=1, high=2).tolist()) == {1.0}
    with pytest.raises(TypeError, match="high"):
        lg.randint_like(x)
