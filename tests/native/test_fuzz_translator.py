"""Random functions by the translator and by Python; more by `fuzz_translator.py` itself."""

from __future__ import annotations

import warnings

import pytest
from fuzz_translator import fuzz

from livegrad.native import layout

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not layout.is_known(), reason="an interpreter we do not know"),
]


@pytest.mark.parametrize("seed", range(8))
def test_translated_or_refused(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # such as of `-1.5()`
        translated, refused = fuzz(seed, 50)
    assert translated > refused
