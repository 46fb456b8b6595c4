"""Why tests of the Array API suite fail, in words, for docs/array_api.md."""

from __future__ import annotations

import re

OPERATOR = r"__i?(add|and|floordiv|lshift|matmul|mod|mul|or|pow|rshift|sub|truediv|xor)__"
COMPARISON = r"__(eq|ge|gt|le|lt|ne)__\(x1, x2\)"
PROMOTION = (
    "operators promote like PyTorch's: an array without dims does not widen one with dims of "
    "the same kind, but is converted to its type; the functions of this namespace promote like "
    "the standard"
)

# (what the test's name has in it, what its message has in it, reason); the first that fits.
REASONS: list[tuple[str, str, str]] = [
    (
        r"test_special_cases\.py::.*\[sqrt\(real\(x_i\) is \+infinity and isfinite\(imag",
        r"should be \+0 \+ infinity j",
        "a mistake of the standard: it asks sqrt(+infinity + 1j) to be 0 + infinity j, the value "
        "that belongs to -infinity; livegrad, NumPy and C say +infinity + 0j",
    ),
    (
        r"test_special_cases\.py::.*\[__i?floordiv__\(.*infinity",
        r"",
        "operators are PyTorch's (and NumPy's): inf // 1 is NaN and 1 // -inf is -1; the function "
        "`floor_divide` of this namespace has the standard's values",
    ),
    (
        r"test_operators_and_elementwise_functions\.py::.*\[" + OPERATOR,
        r"dtype=\w+, but should be \w+",
        PROMOTION,
    ),
    (
        r"test_operators_and_elementwise_functions\.py::.*\[" + COMPARISON,
        r"__\w\w__\((.*, )?tensor\([^\[]",  # one operand without dims
        PROMOTION,
    ),
    (
        r"test_array_object\.py::test_getitem_masking",
        r"shape of the mask \[.*\b0\b.*\] at index",
        "indexing is PyTorch's: a mask with a size of 0 where the array has another is an "
        "IndexError; the standard, and NumPy, take it for a mask that is false everywhere",
    ),
]


def reason_for(test: str, message: str) -> str | None:
    """Why a test fails with a message, if that is known."""
    for name, words, reason in REASONS:
        if re.search(name, test) and re.search(words, message):
            return reason
    return None
