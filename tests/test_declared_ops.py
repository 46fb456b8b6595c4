"""Operations that are declared by a schema: `library.Library`, `define`, `impl`."""

from __future__ import annotations

from typing import Any

import pytest

import livegrad as lg
from livegrad.library import Library, custom_op, define, get_ctx, impl, register_kernel
from livegrad.library.schema import parse
from livegrad.porting.modules import ops


@pytest.fixture
def space(request: Any) -> str:
    return f"declared_{request.node.name.partition('[')[0]}"


def called(space: str) -> Any:
    return getattr(ops, space)


def test_a_schema_has_names_defaults_kinds_and_what_is_written() -> None:
    said = parse("f(Tensor x, int[2] k=1, *, float by=2, Tensor(a!)? out=None) -> Tensor(a)")
    assert said.name == "f"
    parameters = said.signature.parameters.values()
    assert [(p.name, p.default) for p in parameters][1:] == [
        ("k", [1, 1]), ("by", 2.0), ("out", None),
    ]  # fmt: skip
    assert [p.name for p in parameters if p.kind is p.KEYWORD_ONLY] == ["by", "out"]
    assert (said.written, said.aliases) == ({"out"}, True)


@pytest.mark.parametrize("text", ["f", "f(Tensor x)", "f(Tensor) -> Tensor"])
def test_what_is_no_schema(text: str) -> None:
    with pytest.raises(RuntimeError, match="is no schema|is no argument"):
        parse(text)


def test_a_function_for_the_cpu_runs_when_its_value_is_needed(space: str) -> None:
    calls: list[Any] = []

    def scaled(x: Any, by: float = 2.0) -> Any:
        calls.append(by)
        return lg.from_numpy(x.numpy() * by)

    library = Library(space, "DEF")
    assert library.define("scaled(Tensor x, float by=2) -> Tensor") == "scaled"
    library.impl("scaled", scaled, "CPU")
    library.impl("scaled", lambda x, by: lg.empty_like(x), "Meta")
    library.impl("scaled", print, "CUDA")
    y = called(space).scaled(lg.ones(2), by=3)
    assert calls == []
    assert (y + 1).tolist() == [4, 4]
    assert calls == [3.0]
    assert type(calls[0]) is float
    assert called(space).scaled.default(lg.ones(2)).tolist() == [2, 2]


def test_one_without_a_key_has_the_gradient_of_what_it_calls(space: str) -> None:
    define(f"{space}::cube", "(Tensor x) -> Tensor", lib=(library := Library(space, "FRAGMENT")))

    @impl(library, "cube")
    def cube(x: Any) -> Any:
        return x * x * x

    x = lg.tensor([2.0], requires_grad=True)
    called(space).cube(x).sum().backward()
    assert x.grad.tolist() == [12.0]


def test_a_function_of_autograd_is_not_called_below_itself(space: str) -> None:
    library = Library(space, "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: lg.from_numpy(x.numpy() * 2), "CPU")

    class Twice(lg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with lg._C._AutoDispatchBelowAutograd():
                return called(space).twice(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    library.impl("twice", Twice.apply, "Autograd")
    x = lg.ones(2, requires_grad=True)
    y = called(space).twice(x)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([2, 2], [2, 2])


def test_overloads_are_chosen_by_their_arguments(space: str) -> None:
    library = Library(space, "DEF")
    library.define("add.Tensor(Tensor x, Tensor y) -> Tensor")
    library.define("add.Scalar(Tensor x, Scalar y) -> Tensor")
    library.impl("add.Tensor", lambda x, y: x + y)
    library.impl("add.Scalar", lambda x, y: x + 10 * y)
    add, x = called(space).add, lg.ones(1)
    assert [add(x, x).item(), add(x, 2).item(), add.Scalar(x, 3).item()] == [2, 21, 31]
    with pytest.raises(RuntimeError, match="no overload takes these"):
        add(x)


def test_one_that_writes_returns_what_it_wrote_to(space: str) -> None:
    library = Library(space, "DEF")
    library.define("clear_(Tensor(a!) x) -> Tensor(a!)")
    library.impl("clear_", lambda x: x.zero_(), "CPU")
    x = lg.ones(2)
    assert called(space).clear_(x) is x
    assert (x.tolist(), x._version > 0) == ([0, 0], True)


def test_without_a_function_for_the_cpu() -> None:
    library = Library("declared_empty", "DEF")
    library.define("none(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="Could not run 'declared_empty::none'"):
        ops.declared_empty.none(lg.ones(1))
    away = custom_op("declared_empty::away", lambda x: x, mutates_args=(), device_types="cuda")
    with pytest.raises(NotImplementedError, match="'CPU' backend"):
        away(lg.ones(1))
    register_kernel("declared_empty::away", "cpu", lambda x: x + 1)
    assert away(lg.ones(1)).item() == 2
    away.register_kernel("cpu")(lambda x: x + 2)
    assert away(lg.ones(1)).item() == 3


def test_a_size_that_only_values_tell_runs_at_once(space: str) -> None:
    @custom_op(f"{space}::places", mutates_args=())
    def places(x: Any) -> Any:
        return lg.from_numpy(x.numpy().nonzero()[0])

    @places.register_fake
    def _(x: Any) -> Any:
        return x.new_empty([get_ctx().new_dynamic_size()], dtype=lg.int64)

    assert places(lg.tensor([0.0, 1.0, 2.0])).tolist() == [1, 2]


def test_what_is_refused(space: str) -> None:
    library = Library(space, "DEF")
    library.define("f(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="is there already"):
        library.define("f(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="kind IMPL defines nothing"):
        Library(space, "IMPL").define("g(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="no operation"):
        library.impl("unknown", print)
    with pytest.raises(RuntimeError, match="cannot be replaced"):
        Library("aten", "IMPL").impl("add.Tensor", print, "CPU")
    with pytest.raises(ValueError, match="Unsupported kind"):
        Library(space, "NEW")
    with pytest.raises(ValueError, match="reserved namespace"):
        Library("aten", "DEF")
    with pytest.raises(RuntimeError, match="no dispatcher"):
        library.fallback(print)
