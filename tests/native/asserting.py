"""A function with an assertion, in a module whose assertions pytest does not rewrite."""

from typing import Any


def asserts(x: Any) -> Any:
    assert x is not None
    return x
