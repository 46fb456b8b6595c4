"""What the storage programs are expected to return is what PyTorch returns."""

from __future__ import annotations

import pytest
from storage_programs import PROGRAMS, Program, expected, outcome

torch = pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_program(run: Program) -> None:
    assert outcome(run, torch) == expected()[run.__name__]
