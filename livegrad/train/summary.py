"""summary(): the layers of a model, what they give, and what they cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from livegrad.compiler.flops import flops_of
from livegrad.creation import zeros
from livegrad.graph.handle import Handle
from livegrad.nn.module import Module
from livegrad.nn.parameter import is_lazy
from livegrad.train.restoring import restored
from livegrad.utils.module_trace import Call, ModuleTrace, tensors_in, trace_modules

HEADINGS = ("layer", "output", "parameters", "FLOPs", "memory")


@dataclass
class Row:
    """One module: what it has and does itself, without the modules in it.

    `outputs` and `memory` are of the last call. `calls` is 0 for a module that `forward` never
    calls, although its parameters may be used.
    """

    name: str
    kind: str
    depth: int
    outputs: list[tuple[int, ...]]
    parameters: int
    flops: int
    memory: int
    calls: int

    @property
    def label(self) -> str:
        """`  conv1 (Conv2d)`, indented by depth."""
        last = self.name.rpartition(".")[2]
        times = "" if self.calls <= 1 else f" ×{self.calls}"
        text = f"{last} ({self.kind})" if last else self.kind
        return "  " * self.depth + text + times


@dataclass
class Summary:
    """The table, and its totals; print it.

    `flops` are those of one forward pass; bytes are of parameters, of buffers, of the inputs, and
    of what the layers give, which is about what a training step keeps for its backward pass.
    """

    rows: list[Row]
    parameters: int
    trainable: int
    flops: int
    parameter_bytes: int
    buffer_bytes: int
    input_bytes: int
    output_bytes: int

    @property
    def total_bytes(self) -> int:
        """Parameters, buffers, inputs and outputs together."""
        return self.parameter_bytes + self.buffer_bytes + self.input_bytes + self.output_bytes

    def __str__(self) -> str:
        table = [HEADINGS, *[_cells(row) for row in self.rows]]
        widths = [max(len(cells[i]) for cells in table) for i in range(len(HEADINGS))]
        lines = [_aligned(cells, widths) for cells in table]
        rule = "─" * max(map(len, lines))
        frozen = self.parameters - self.trainable
        return "\n".join(
            [
                lines[0],
                rule,
                *lines[1:],
                rule,
                f"parameters  {self.parameters:,} ({self.trainable:,} trainable, {frozen:,} not)",
                f"FLOPs       {si(self.flops)} per forward pass, products only",
                f"memory      {size(self.total_bytes)}: parameters {size(self.parameter_bytes)}, "
                f"buffers {size(self.buffer_bytes)}, inputs {size(self.input_bytes)}, "
                f"outputs of layers {size(self.output_bytes)}",
            ]
        )

    __repr__ = __str__


def summary(model: Module, *inputs: Any, **keywords: Any) -> Summary:
    """What a model does with an input: its layers, their output shapes, parameters, FLOPs, memory.

        print(summary(model, lg.zeros(1, 3, 224, 224)))
        print(summary(model, (1, 3, 224, 224)))       # a shape of float32 will do

    The model runs in `eval` mode without computing values, except those that it reads itself, and
    is afterwards as it was.
    """
    given = tuple(_as_input(x) for x in inputs)
    with restored(model):
        model.eval()
        trace = trace_modules(model, given, keywords)
    return _summed(model, trace, tensors_in((given, keywords)))


def _as_input(x: Any) -> Any:
    """A tuple of integers as zeros of that shape."""
    shape = isinstance(x, tuple) and x and all(type(n) is int for n in x)
    return zeros(x) if shape and not isinstance(x, Handle) else x


def _summed(model: Module, trace: ModuleTrace, inputs: list[Any]) -> Summary:
    flops = [0] * len(trace.calls)
    for node, place in zip(trace.nodes, trace.owners(), strict=True):
        flops[place] += flops_of(node)
    by_module: dict[int, list[tuple[Call, int]]] = {}
    for call, own in zip(trace.calls, flops, strict=True):
        by_module.setdefault(id(call.module), []).append((call, own))
    counted: set[int] = set()
    rows = [
        _row(name, module, by_module.get(id(module), []), counted)
        for name, module in model.named_modules()
    ]
    params = [p for p in model.parameters() if not is_lazy(p)]
    parents = {call.parent for call in trace.calls}
    leaves = [call for place, call in enumerate(trace.calls) if place not in parents]
    return Summary(
        rows,
        sum(p.numel() for p in params),
        sum(p.numel() for p in params if p.requires_grad),
        sum(flops),
        sum(p.nbytes for p in params),
        sum(b.nbytes for b in model.buffers() if not is_lazy(b)),
        sum(x.nbytes for x in inputs),
        sum(call.bytes for call in leaves),
    )


def _row(name: str, module: Module, calls: list[tuple[Call, int]], counted: set[int]) -> Row:
    """A module's row; a parameter that several modules share is counted in the first."""
    own = [p for p in module.parameters(recurse=False) if not is_lazy(p) and id(p) not in counted]
    counted.update(id(p) for p in own)
    last = calls[-1][0] if calls else None
    return Row(
        name,
        type(module).__name__,
        0 if not name else name.count(".") + 1,
        [] if last is None else last.outputs,
        sum(p.numel() for p in own),
        sum(flops for _, flops in calls),
        0 if last is None else last.bytes,
        len(calls),
    )


# ---------------------------------------------------------------------------------------- printing


def _cells(row: Row) -> tuple[str, ...]:
    shapes = ", ".join(str(list(shape)) for shape in row.outputs[:3])
    more = ", …" if len(row.outputs) > 3 else ""
    return (
        row.label,
        shapes + more if row.calls else "not called",
        f"{row.parameters:,}" if row.parameters else "-",
        si(row.flops) if row.flops else "-",
        size(row.memory) if row.calls else "-",
    )


def _aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    texts = [cells[i].ljust(widths[i]) for i in range(2)]
    numbers = [cells[i].rjust(widths[i]) for i in range(2, len(cells))]
    return "  ".join([*texts, *numbers]).rstrip()


def si(number: float) -> str:
    """1234567 as `1.23 M`."""
    power = min(int(math.log10(number) // 3), 5) if number >= 1000 else 0
    return f"{number / 1000**power:.3g} {'kMGTP'[power - 1]}" if power else f"{number:.0f}"


def size(count: float) -> str:
    """Bytes for people: `1.2 MB`."""
    return f"{si(count)}{'' if count >= 1000 else ' '}B"
