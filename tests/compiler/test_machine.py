"""How wide vectors are is the machine's to say: kernels are right for any width."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.compiler
import livegrad.nn.functional as F
from livegrad.compiler.values import Machine
from livegrad.runtime.cpu import assemble, jit, machine
from livegrad.runtime.cpu.diskcache import DiskCache
from livegrad.runtime.plans import forget_plans


@pytest.fixture
def narrow(monkeypatch: Any) -> Any:
    """Kernels of four lanes."""
    forget_plans()
    monkeypatch.setattr(machine, "MACHINE", Machine(4, machine.MACHINE.attributes))
    monkeypatch.setattr(assemble, "_kernels", {})
    before = jit.disk_cache()
    jit.use_disk_cache(DiskCache(None))  # kernels are known by their signatures there
    yield
    jit.use_disk_cache(before)
    forget_plans()


def results() -> list[Any]:
    lg.manual_seed(1)
    x = lg.randn(5, 37, requires_grad=True)
    F.layer_norm(F.softmax(x * 2, 1), (37,)).pow(2).mean().backward()
    values = [x.grad, x.sum(0), x.cumsum(0), x.cummax(1)[1], x.argmax(1), x[lg.tensor([3, 1])]]
    values += [x.half().var(0), lg.zeros(5, 37).index_add(0, lg.tensor([1, 1]), lg.ones(2, 37))]
    values += [x.t().contiguous(), lg.rand(33), lg.randint(0, 9, (33,)), (x > 0).any(0)]
    return [value.tolist() for value in values]


def test_four_lanes_give_the_same(narrow: Any, monkeypatch: Any) -> None:
    given = results()
    monkeypatch.undo()
    forget_plans()
    for ours, usual in zip(given, results(), strict=True):
        np.testing.assert_allclose(ours, usual, rtol=1e-5, atol=1e-6)


def test_four_lanes_are_four(narrow: Any, monkeypatch: Any) -> None:
    texts: list[str] = []
    monkeypatch.setattr(assemble, "_ir", _noting(texts, assemble._ir))
    results()
    assert texts
    widths = {int(w) for text in texts for w in re.findall(r"<(\d+) x ", text)}
    assert widths <= {2, 4}


def _noting(texts: list[str], generated: Any) -> Any:
    def generated_and_noted(signature: Any) -> str:
        texts.append(generated(signature))
        return texts[-1]

    return generated_and_noted


def test_no_pass_knows_a_width() -> None:
    for file in Path(livegrad.compiler.__path__[0]).rglob("*.py"):
        text = re.sub(r'""".*?"""|`[^`]*`', "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"LANES|<16 x|prefer-vector-width", text), file
