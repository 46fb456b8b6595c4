"""Values as text that every process of this version of the package understands."""

from __future__ import annotations

import pytest

import livegrad as lg
from livegrad.compiler.rows import generate_rows
from livegrad.compiler.signature import Instr, Store, Stream
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.written import Unwritable, Written, text_of, text_or_none, value_of

SIGNATURE = (
    generate_rows,
    (Stream(lg.float32, 1), Stream(lg.int64, 2, "position")),
    (Instr("op", ("add", lg.bfloat16), (0, 1), lg.float32, True),),
    (Store(0, 1, False, tail=True),),
)


@pytest.mark.parametrize(
    "value",
    [
        SIGNATURE,
        (),
        (1, 1.0, True, None, "a", -0.0, 1 << 70, 1e300),
        ([1, [2, (3,)]], (4,)),
        (REGISTRY["add"], lg.complex64),
        (b"", bytes(range(256))),
    ],
)
def test_a_text_is_read_as_what_was_written(value):
    again = value_of(Written(text_of(value)))
    assert again == value
    assert repr(again) == repr(value)
    assert text_of(Written(text_of(value))) == text_of(value)


def test_what_is_not_finite_is_written_too():
    low, high, none = value_of(Written(text_of((-float("inf"), float("inf"), float("nan")))))
    assert (low, high) == (-float("inf"), float("inf"))
    assert none != none


def test_different_values_have_different_texts():
    values = [1, 1.0, True, "1", (1,), [1], None, 0.0, -0.0, lg.float32, "float32"]
    assert len({text_of(value) for value in values}) == len(values)


def foreign(n, x):
    return x


@pytest.mark.parametrize("value", [foreign, lambda: 0, object(), {1}, foreign.__code__])
def test_what_is_not_the_packages_own_has_no_text(value):
    with pytest.raises(Unwritable):
        text_of((value,))
    assert text_or_none((value,)) is None


def test_an_op_with_a_rule_of_others_has_no_text():
    op = Op("test_foreign", "composite", infer=lambda metas, attrs, shape: metas[0], expand=foreign)
    try:
        with pytest.raises(Unwritable):
            text_of(op)
    finally:
        del REGISTRY["test_foreign"]


def test_nothing_but_the_package_is_read():
    for text in ('{"function":"os:system"}', '{"os:system":["true"]}', '{"livegrad:Tensor":[1]}'):
        with pytest.raises(Unwritable):
            value_of(Written(text))
