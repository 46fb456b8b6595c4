"""Values, gradients and what hooks wrote, where PyTorch's are not promised or not wanted."""

from __future__ import annotations

import re
from collections.abc import Collection

from .undefined import GONE, ONE_GRADIENT, OVERLAPPING, TWO_STORAGES

VALUES = ("value", "grad value", "grad", "log")

# What a line on the way did not promise, and in which kinds of difference that may show.
NOTED = {
    OVERLAPPING: ("value", "grad value", "log"),
    TWO_STORAGES: ("value", "grad value", "log"),
    ONE_GRADIENT: ("grad value",),
    GONE: ("log",),
}

NO_INTEGER = "NaN and infinities as integers are what the processor makes of them, in PyTorch"
ENDLESS = "gradients of products do not divide: they are right where PyTorch's, which do, are NaN"
GELU = "PyTorch's gelu of infinity is NaN, where it is computed in vectors"
SHORT_EPS = "the least length to divide by is not rounded to float16, where it would be 0"
AT_ZERO = "PyTorch's second gradient of prelu is another than that of its first one at 0"
HIDDEN_WHOLE = "what tensordot and einsum return is a view, in PyTorch, of what nobody can see"


def explanation_of_values(
    kind: str, detail: str, program: str, noted: Collection[str]
) -> str | None:
    """Why values, gradients or what hooks wrote may differ; None if they should not."""
    for reason, kinds in NOTED.items():
        if reason in noted and kind in kinds:
            return reason
    theirs, _, mine = detail.partition(", livegrad ")
    if kind == "value" and re.search("-9223372036854775808|-2147483648", theirs):
        return NO_INTEGER
    if kind != "grad" and re.search(r"\b(cum)?prod\(", program) and re.search("nan|inf", detail):
        return ENDLESS
    if "gelu(" in program and "nan" in theirs and "inf" in mine:
        return GELU
    if re.search(r"cosine_similarity\(|normalize\(", program) and "nan" in theirs:
        return SHORT_EPS if "float16" in program else None
    if re.search(r"PReLU\(|prelu\(", program) and "create_graph=True" in program:
        return AT_ZERO if re.search(r"\b0\.0\b", program) else None
    return HIDDEN_WHOLE if kind != "value" and is_watched(program) else None


def is_watched(program: str) -> bool:
    """Whether what tensordot or einsum returned retains its gradient, or has a hook."""
    for name in re.findall(r"^(\w+) = T\.(?:tensordot|einsum)\(", program, re.MULTILINE):
        if re.search(rf"\b{name}\.(retain_grad|register_hook)\(", program):
            return True
    return False
