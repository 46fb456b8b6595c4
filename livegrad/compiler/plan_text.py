"""Plans as text, for the next process: what was planned once is not planned again.

Signatures of kernels stay texts when a plan is read (graph/written.py), so that reading one needs
nothing of the compiler.
"""

from __future__ import annotations

import json
from typing import Any

from livegrad.compiler.plan import (
    Block,
    Donation,
    HostCall,
    Life,
    Output,
    Plan,
    Signature,
    Step,
    Where,
    Write,
)
from livegrad.graph.op import REGISTRY
from livegrad.graph.written import Written, plain, read, text_of


def plan_text(plan: Plan) -> str:
    """A plan as text, without its notes. Unwritable if somebody else's code has a part in it."""
    told = [
        [_step(step) for step in plan.steps],
        *[[list(vars(x).values()) for x in each] for each in _records(plan)],
        plan.arena, plan.leaves, plan.first_int, plan.ints, plan.floats,
    ]  # fmt: skip
    return json.dumps(told, separators=(",", ":"))


def _records(plan: Plan) -> tuple[list[Any], ...]:
    """The parts that are records of numbers."""
    return plan.outputs, plan.buffers, plan.writes, plan.donations, plan.lives


def read_plan(text: str | bytes) -> Plan:
    """The plan that a text is of; its signatures are `Written`."""
    steps, outputs, buffers, writes, donations, lives, arena, *numbers = json.loads(text)
    leaves, first_int, ints, floats = numbers
    return Plan(
        [_read_step(*step) for step in steps],
        [Output(*x) for x in outputs],
        [Output(*x) for x in buffers],
        [Write(*x) for x in writes],
        [Donation(*x) for x in donations],
        arena,
        leaves,
        first_int,
        ints,
        floats,
        [Life(*x) for x in lives],
        recalled=True,
    )


def _step(step: Step) -> list[Any]:
    blocks = [list(vars(block).values()) for block in step.blocks]
    flags = [step.may_fault, step.tail, step.all_or_nothing]
    signature = text_of(step.signature) if step.signature else ""
    calls = [[slot, text_of(x)] for slot, x in step.calls]
    host = None if step.host is None else _host(step.host)
    return [step.kind, step.shape, blocks, signature, calls, host, *flags]


def _host(call: HostCall) -> list[Any]:
    """A call of a reference; attributes that have no words, or an op of others, are Unwritable."""
    told = REGISTRY[call.op], call.attrs, tuple(call.args), tuple(call.dtypes)
    return [*map(plain, told), call.shapes, [[where.slot, where.offset] for where in call.wheres]]


def _read_step(
    kind: str,
    shape: list[int],
    blocks: list[Any],
    text: str,
    calls: list[Any],
    host: list[Any] | None,
    *flags: bool,
) -> Step:
    patched = [Block(slots, [tuple(x) for x in patches], *rest) for slots, patches, *rest in blocks]
    signature: Signature = Written(text) if text else ()
    called: list[Any] = [(slot, Written(x)) for slot, x in calls]
    call = None if host is None else _read_host(*host)
    return Step(kind, tuple(shape), patched, signature, called, call, *flags)


def _read_host(
    op: Any, attrs: Any, args: Any, dtypes: Any, shapes: list[Any], wheres: list[Any]
) -> HostCall:
    sizes = [tuple(shape) for shape in shapes]
    told = read(op).name, read(attrs), list(read(args)), list(read(dtypes))
    return HostCall(*told, sizes, [Where(*where) for where in wheres])
