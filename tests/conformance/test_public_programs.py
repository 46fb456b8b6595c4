"""The harness that runs public programs under both: it sees what is equal, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.programs import __main__ as harness, data, readme, report
from tests.conformance.programs.catalogue import Program, programs

PROGRAM = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
from torchvision_like import scale

torch.manual_seed(0)
nn = torch.nn
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(), nn.Linear(8, 1))
x = torch.randn(64, 4)
y = x.sum(1, keepdim=True) * scale
optimizer = torch.optim.Adam(net.parameters(), lr=float(sys.argv[1]))
for a, b in DataLoader(TensorDataset(x, y), 16, shuffle=True):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(net(a), b).backward()
    optimizer.step()
"""


@pytest.fixture
def checkouts(tmp_path: Path) -> Path:
    repo = tmp_path / "owner+name"
    repo.mkdir()
    (repo / "train.py").write_text(PROGRAM)
    (repo / "torchvision_like.py").write_text("scale = 2.0")
    (repo / "bad.py").write_text("import torch\ntorch.nothing_of_the_kind")
    return tmp_path


@pytest.mark.slow
def test_a_program_gives_the_same_losses_under_both(checkouts: Path) -> None:
    result = harness.run(Program("owner+name", "train.py", ("0.01",)), checkouts, 100, False)
    assert result.torch.ran
    assert result.livegrad.ran
    assert report.equal(result.losses) == "4 of 4"
    assert result.losses["torch"] != result.losses["torch"][::-1]


@pytest.mark.slow
def test_a_program_that_fails_is_seen_to(checkouts: Path) -> None:
    result = harness.run(Program("owner+name", "bad.py"), checkouts, 100, False)
    assert (result.torch.code, result.livegrad.code) == (1, 1)
    assert "nothing_of_the_kind" in result.livegrad.last


def test_losses_are_compared_from_the_first_on() -> None:
    assert report.equal({"torch": [1.0, 2.0, 3.0], "livegrad": [1.0, 2.0001, 4.0]}) == "2 of 3"
    assert report.equal({"torch": [1.0, 2.0], "livegrad": [1.1, 2.0]}) == "0 of 2"
    assert report.equal({}) == ""


def test_the_table_has_the_latest_result_of_each_program() -> None:
    ran = {"code": 0, "seconds": 2.0, "last": ""}
    failed = {"code": 1, "seconds": 1.0, "last": "a | b"}
    one = {"name": "n", "args": "", "torch": ran, "livegrad": failed, "losses": {}}
    lines = report.table([one, {**one, "livegrad": {**ran, "seconds": 1.0}}])
    assert lines[2:] == ["| n | ran | ran |  | 0.50 |"]
    assert report.table([one])[2] == "| n | ran | no: a / b |  |  |"
    text = report.page([one, {**one, "name": "m", "livegrad": {**ran, "seconds": 1.0}}])
    assert "- 2 programs; 2 run under torch, 1 of these here too." in text
    assert "the geometric mean is 0.50" in text
    later = report.page([{**one, "livegrad": ran}], text)
    assert "- 2 programs; 2 run under torch, 2 of these here too." in later
    now, older = later.split("## Run earlier")
    assert "| n | ran | ran |  | 1.00 |" in now
    assert "| m | ran | ran |  | 0.50 |" in older
    assert report.page([{**one, "livegrad": ran}], later) == later
    where = {"code": 1, "last": "no x, which /tmp/a+b/c.py uses; see https://x.org/y/z"}
    assert report.outcome(where) == "no: no x, which c.py uses; see https://x.org/y/z"
    assert report.outcome({"code": None}) == "ran to the limit"


def test_blocks_of_a_document(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(
        "# x\n```python\nimport torch\n```\n```python\nshort\n```\n```bash\nimport torch\n```\n"
    )
    assert readme.blocks(page) == [(3, "import torch\n")]
    assert readme.blocks(tmp_path / "absent.md") == []


def test_data_are_in_the_formats_that_are_read(tmp_path: Path) -> None:
    for kind in ("mnist", "text", "words", "input", "cora"):
        data.make(kind, tmp_path / kind)
    images = (tmp_path / "mnist" / "MNIST" / "raw" / "train-images-idx3-ubyte").read_bytes()
    assert len(images) == 16 + data.TRAIN * 28 * 28
    assert len((tmp_path / "cora" / "cora.content").read_text().splitlines()) == 2708


def test_programs_are_named_once(tmp_path: Path) -> None:
    found = [(p.name, p.args) for p in programs(tmp_path)]
    assert len(found) == len(set(found)) >= 100
