"""SobolEngine: points, where it stands, what it refuses."""

from __future__ import annotations

import pytest

import livegrad as lg
from livegrad.quasirandom import SobolEngine


def test_the_sequence_goes_on_and_begins_anew() -> None:
    engine = SobolEngine(3)
    first = engine.draw(5)
    rest = engine.draw(3)
    engine.reset()
    whole = engine.draw(8)
    assert lg.cat([first, rest]).tolist() == whole.tolist()
    assert engine.reset().fast_forward(5).draw(3).tolist() == rest.tolist()
    assert engine.num_generated == 8
    assert engine.draw(0).shape == (0, 3)


def test_scrambled_points_follow_the_seed() -> None:
    a, b, other = (SobolEngine(2, scramble=True, seed=s).draw(4) for s in (1, 1, 2))
    assert a.tolist() == b.tolist()
    assert a.tolist() != other.tolist()
    assert bool(((a >= 0) & (a <= 1)).all())
    lg.manual_seed(0)
    drawn = SobolEngine(2, scramble=True).draw(4)
    lg.manual_seed(0)
    assert SobolEngine(2, scramble=True).draw(4).tolist() == drawn.tolist()


def test_powers_of_two_and_dtypes() -> None:
    engine = SobolEngine(1)
    assert engine.draw_base2(2, dtype=lg.float64).dtype == lg.float64
    out = lg.empty(0)
    engine.draw(2, out=out)
    assert out.shape == (2, 1)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(3)
    with pytest.raises(ValueError, match="dimensionality"):
        SobolEngine(0)
    assert repr(SobolEngine(2, True, 3)) == "SobolEngine(dimension=2, scramble=True, seed=3)"
