"""Data sets that are built of one another: `IterDataPipe`, `MapDataPipe`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from livegrad.utils.data.dataset import Dataset, IterableDataset

T_co = TypeVar("T_co", covariant=True)


class _Chained:
    """`pipe.name(...)` makes a further pipe of this one, of a class that is known by `name`."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if _Chained in cls.__bases__:
            cls.functions = {}

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Makes `function(pipe, ...)` a method of all pipes."""
        cls.functions[function_name] = function

    def __getattr__(self, name: str) -> Any:
        function = type(self).functions.get(name)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return lambda *args, **kwargs: function(self, *args, **kwargs)


class IterDataPipe(_Chained, IterableDataset[T_co], Generic[T_co]):
    """A pipe that is read from its beginning to its end."""


class MapDataPipe(_Chained, Dataset[T_co], Generic[T_co]):
    """A pipe whose items have keys."""


class functional_datapipe:
    """Decorates a class of pipes: every pipe gets a method of that name, which makes one of it."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        base = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe
        if not issubclass(cls, base):
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
        if self.name in base.functions:
            raise Exception(  # as PyTorch does
                f"Unable to add DataPipe function name {self.name} as it is already taken"
            )
        base.register_function(self.name, cls)
        return cls
