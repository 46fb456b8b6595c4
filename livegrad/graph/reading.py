"""Which values the gradient rules of an op read: told by their code, so that no op has to say it.

lerp(a, b, 0.5)     lambda g, y, a, b, w: mul(g, conj(w))      w is a number here: no value
linear(x, w, bias)  the rule of `bias` has no use for x and w
"""

from __future__ import annotations

import dis
from functools import cache
from types import FunctionType
from typing import Any

from livegrad.graph.node import Spec

# The place of the output among the parameters of a rule: g, y, *operands.
_Y = 1


def spared(spec: Spec) -> tuple[bool, ...]:
    """For each input that such a node may have, whether its gradient rule reads no value at all."""
    rules: Any = spec.op.grads
    if spec.op.kind == "elementwise":  # rules are per operand, some of which are numbers
        pattern = spec.attrs[1]
    else:
        pattern = "t" * len(rules)
    tensors = [i for i, letter in enumerate(pattern) if letter == "t"]
    read = [read_by(rules[i]) for i in tensors]
    values = {_Y, *[2 + i for i in tensors]}
    return tuple([places is not None and not places & values for places in read])


@cache
def read_by(rule: Any) -> frozenset[int] | None:
    """The places of the parameters that a rule uses; None if its code does not tell."""
    if rule is None:
        return frozenset()
    code = getattr(rule, "__code__", None)
    if not isinstance(rule, FunctionType) or code is None or code.co_flags & _TAKES_MORE:
        return None
    names = code.co_varnames[: code.co_argcount]
    used: set[Any] = set()
    for instruction in dis.get_instructions(code):
        found = instruction.argval
        used.update(found if isinstance(found, tuple) else (found,))
    return frozenset([i for i, name in enumerate(names) if name in used])


_TAKES_MORE = 0x04 | 0x08  # *args, **kwargs
