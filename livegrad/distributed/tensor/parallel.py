"""Modules whose weights lie on a mesh: `torch.distributed.tensor.parallel`, for one process.

A style says how the weights of a layer lie, and whether what comes out is an ordinary tensor. With
one process, nothing else follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import Any

from livegrad.distributed.device_mesh import DeviceMesh, current_mesh
from livegrad.distributed.tensor.placed import DTensor, mark, placed
from livegrad.distributed.tensor.placement_types import Placement, Replicate, Shard
from livegrad.nn.module import Module
from livegrad.nn.sparse import Embedding
from livegrad.tensor import Tensor


class ParallelStyle:
    """How a module is spread; subclasses define `_apply`."""

    src_data_rank: int | None = 0

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        raise NotImplementedError(f"{type(self).__name__} does not define _apply")


class _OfLayers(ParallelStyle):
    """How the weights of a layer lie, and, if nobody says otherwise, what it reads and gives."""

    reads: Placement
    gives: Placement

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or self.reads,)
        self.output_layouts = (output_layouts or self.gives,)
        self.use_local_output = use_local_output

    def _placement(self, module: Module, name: str) -> Placement:
        raise NotImplementedError

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        for name, parameter in module.named_parameters():
            mark(parameter, device_mesh, [self._placement(module, name)])

        def change(_: Module, inputs: Any, output: Any) -> Any:
            return _out(output, device_mesh, self.output_layouts, self.use_local_output)

        module.register_forward_hook(change)
        return module


class ColwiseParallel(_OfLayers):
    """A Linear by its outputs, an Embedding by its columns."""

    reads, gives = Replicate(), Shard(-1)

    def _placement(self, module: Module, name: str) -> Placement:
        return Shard(1 if isinstance(module, Embedding) else 0)


class RowwiseParallel(_OfLayers):
    """A Linear by its inputs, an Embedding by its rows."""

    reads, gives = Shard(-1), Replicate()

    def _placement(self, module: Module, name: str) -> Placement:
        if isinstance(module, Embedding):
            return Shard(0)
        return Shard(1) if name == "weight" else Replicate()


class SequenceParallel(_OfLayers):
    """A norm or dropout, by the elements of sequences."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_dim = sequence_dim
        super().__init__(
            input_layouts=Shard(sequence_dim),
            output_layouts=Shard(sequence_dim),
            use_local_output=use_local_output,
        )

    def _placement(self, module: Module, name: str) -> Placement:
        return Replicate()


class PrepareModuleInput(ParallelStyle):
    """How what goes into a module lies."""

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _tuple(input_layouts)
        self.desired_input_layouts = _tuple(desired_input_layouts)
        self.desired_input_kwarg_layouts = dict(desired_input_kwarg_layouts or {})
        self.use_local_output = use_local_output
        if len(self.input_layouts) != len(self.desired_input_layouts):
            raise AssertionError("input_layouts and desired_input_layouts should have same length!")

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        wanted, named = self.desired_input_layouts, self.desired_input_kwarg_layouts

        def change(_: Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if wanted and len(wanted) != len(inputs):
                raise ValueError("module inputs and input_layouts should have same length!")
            if wanted:
                inputs = tuple(
                    _out(x, device_mesh, (p,), self.use_local_output)
                    for x, p in zip(inputs, wanted, strict=True)
                )
            for name, p in named.items():
                if name in kwargs:
                    kwargs[name] = _out(kwargs[name], device_mesh, (p,), self.use_local_output)
            return inputs, kwargs

        module.register_forward_pre_hook(change, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """How what comes out of a module lies."""

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        self.output_layouts = _tuple(output_layouts)
        self.desired_output_layouts = _tuple(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError(
                "output_layouts and desired_output_layouts should have same length!"
            )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        wanted = self.desired_output_layouts

        def change(_: Module, inputs: Any, output: Any) -> Any:
            items = output if isinstance(output, tuple) else (output,)
            if len(items) != len(wanted):
                raise ValueError("module outputs and output_layouts should have same length!")
            found = tuple(
                _out(x, device_mesh, (p,), self.use_local_output)
                for x, p in zip(items, wanted, strict=True)
            )
            return found if isinstance(output, tuple) else found[0]

        module.register_forward_hook(change)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Both."""

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: Any = None,
        desired_input_kwarg_layouts: Any = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: Any = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Spreads a module, or those in it that a plan names: {"layers.*.mlp": ColwiseParallel()}."""
    mesh = current_mesh(device_mesh)
    if isinstance(parallelize_plan, ParallelStyle):
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict | None):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in (parallelize_plan or {}).items():
        for found in _found(module, path.split(".") if path else []):
            style._apply(found, mesh)
    return module


def _found(module: Module, path: list[str]) -> list[Module]:
    """The modules that a path names; parts of it may be patterns."""
    if not path:
        return [module]
    children = [child for name, child in module.named_children() if fnmatch(name, path[0])]
    return [found for child in children for found in _found(child, path[1:])]


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Within it, `cross_entropy` takes logits that are spread by their classes."""
    yield


def _tuple(layouts: Any) -> tuple[Any, ...]:
    if layouts is None:
        return ()
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts)


def _out(x: Any, mesh: DeviceMesh, layouts: tuple[Any, ...], local: bool) -> Any:
    """What goes on: an ordinary tensor, or one that lies as it should; others as they are."""
    if not isinstance(x, Tensor) or layouts == (None,):
        return x
    plain = x.to_local() if isinstance(x, DTensor) else x
    return plain if local else placed(plain, mesh, layouts)


__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]
