"""Emit rules speak to the Emitter alone: every one of them can be compiled for other machines."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import livegrad.ops  # registers them
from livegrad import dtypes
from livegrad.compiler.builder import Builder
from livegrad.compiler.emitter import Emitter, register_element
from livegrad.compiler.values import Machine
from livegrad.graph.infer import elementwise_dtypes
from livegrad.graph.meta import meta_of
from livegrad.graph.op import REGISTRY, Op

llvm = pytest.importorskip("llvmlite.binding")

TARGETS = ["nvptx64-nvidia-cuda", "aarch64-unknown-linux-gnu", "wasm32-unknown-unknown"]
DTYPES = [dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.bool_]
# What rules may ask of a machine beyond instructions: C's functions (those of float end in f).
MATHEMATICS = set(
    "acos acosh asin asinh atan atan2 atanh cos cosh erf erfc exp2 lgamma log10 log2 pow sin sinh "
    "tan".split()
)
ONE_AT_A_TIME = Machine(lanes=1, attributes="nounwind")
RULES = sorted(name for name, op in REGISTRY.items() if op.kind == "elementwise" and op.emit)


@pytest.fixture(scope="module", params=TARGETS)
def machine(request):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(request.param).create_target_machine(opt=1)


def operand_counts(op: Op) -> list[int]:
    parameters = list(inspect.signature(op.emit).parameters.values())[1:]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return [2]
    required = [p for p in parameters if p.default is p.empty]
    return sorted({len(required), len(parameters)})


def scalar_function(op: Op, dtype: dtypes.DType, count: int) -> str | None:
    """The rule as a function of single values; None if the op does not take the dtype."""
    given = [dtype] * count
    if op.result == "select":
        given[0] = dtypes.bool_
    try:
        compute, _ = elementwise_dtypes(op, [meta_of((4,), d) for d in given])
    except (RuntimeError, NotImplementedError):
        return None
    given = [d if op.result == "select" and i == 0 else compute for i, d in enumerate(given)]
    params = [(register_element(d), f"x{i}") for i, d in enumerate(given)]
    b = Builder("rule", [("ptr", "out"), *params], ONE_AT_A_TIME)
    out, *values = b.params
    e = Emitter(b, compute)
    e.on_fault = lambda bad, *what: None
    b.store(op.emit(e, *values), out)
    return b.ir()


@pytest.mark.parametrize("name", RULES)
def test_rules_are_no_machines_own(machine, name):
    op = REGISTRY[name]
    compiled = 0
    for count in operand_counts(op):
        for dtype in DTYPES:
            ir = scalar_function(op, dtype, count)
            if ir is not None:
                module = llvm.parse_assembly(ir)
                module.triple = machine.triple
                module.data_layout = str(machine.target_data)
                assert "rule" in machine.emit_assembly(module)
                asked_for = re.findall(r"declare .*@(?!llvm\.)(\w+)\(", ir)
                assert all(MATHEMATICS & {f, f.removesuffix("f")} for f in asked_for)
                compiled += 1
    assert compiled


def test_rules_do_not_reach_through_the_emitter():
    for file in Path(livegrad.ops.__path__[0]).rglob("*.py"):
        assert not re.search(r"\b\w\._?b\b", file.read_text(encoding="utf-8")), file
