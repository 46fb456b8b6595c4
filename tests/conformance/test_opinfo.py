"""A part of the conformance run that fits into the suite; `opinfo.py` has all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.conformance import opinfo_report as report  # noqa: E402

# One or two of each family.
OPS = """
    add mul div pow sigmoid erf lgamma remainder bitwise_and eq clamp where lerp nan_to_num
    sum mean prod amax var cumsum median logsumexp any
    reshape permute cat roll tril as_strided diagonal unfold
    gather scatter_add index_select index_put masked_select take_along_dim sort topk
    matmul addmm einsum linalg.norm linalg.inv linalg.qr linalg.svd linalg.eigh
    abs fft.rfft complex softmax
    nn.functional.layer_norm nn.functional.cross_entropy nn.functional.conv2d
    nn.functional.max_pool2d nn.functional.gelu nn.functional.interpolate nn.functional.pad
""".split()


def test_a_sample_of_the_database_is_not_below_the_floor() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    command = [sys.executable, "-m", "tests.conformance.opinfo", "--samples", "3"]
    done = subprocess.run(
        [*command, "--only", ",".join(OPS)],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_the_page_says_what_the_floor_says() -> None:
    wanted = report.coverage(report.Floor.read())
    assert report.COVERAGE.read_text() == wanted, "run python -m tests.conformance.opinfo --write"


def test_every_failure_has_a_reason() -> None:
    floor = report.Floor.read()
    without = [
        f"{name} {column}"
        for name, cells in floor.table().items()
        for column, (passed, total) in cells.items()
        if passed < total and report.reason_for(name, column) is None
    ]
    assert without == []
