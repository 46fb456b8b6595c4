"""Under `livegrad run`, torch is livegrad: its modules, its version, its errors."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from tests.porting.support import python, run, write

pytestmark = pytest.mark.slow  # other processes


def told(text: str, cwd: Path) -> list[object]:
    """What a program collects in a list called `out`."""
    ran = run("-c", f"import json\nout = []\n{text}\nprint(json.dumps(out))", cwd=cwd)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def test_modules_are_those_of_livegrad(tmp_path: Path) -> None:
    text = """
import torch, livegrad
import torch.nn as nn, torch.nn.functional as F
import torch.optim.lr_scheduler as lr
import torch.nn.modules.linear
import torch.backends.cudnn as cudnn
from torch.utils.data import DataLoader
from torch.nn.modules.activation import MultiheadAttention
from torch.distributions.normal import Normal
from torch import Tensor, nn as other
out += [nn is livegrad.nn, F is livegrad.nn.functional, other is nn]
out += [torch.nn.modules.linear.Linear is nn.Linear, MultiheadAttention is nn.MultiheadAttention]
out += [lr is livegrad.optim.lr_scheduler, Tensor is livegrad.Tensor, cudnn.benchmark is False]
out += [Normal is livegrad.distributions.Normal, DataLoader is livegrad.utils.data.DataLoader]
out += [isinstance(torch.ones(2), torch.Tensor), torch.device("cpu").type == "cpu"]
from functorch import vmap
out += [vmap is torch.func.vmap]
"""
    assert told(text, tmp_path) == [True] * 13


def test_the_version_is_that_of_the_pytorch_that_is_followed(tmp_path: Path) -> None:
    text = """
import torch, importlib.metadata, importlib.util
v = torch.__version__
out += [v.split(".")[:2], v >= "2.9", v >= (2, 13), v < "2.14", v == torch.version.__version__]
out += [importlib.metadata.version("torch") == v, isinstance(v, str), torch.version.cuda]
out += [importlib.util.find_spec("torch").name, importlib.util.find_spec("torch.nothing")]
"""
    assert told(text, tmp_path) == [
        ["2", "13"], True, True, True, True, True, True, None, "torch", None,
    ]  # fmt: skip


def test_torchvision_has_a_version(tmp_path: Path) -> None:
    text = """
import importlib.metadata, torchvision
out += [importlib.metadata.version("torchvision") == torchvision.__version__]
"""
    assert told(text, tmp_path) == [True]


def test_programs_print_torchs_names(tmp_path: Path) -> None:
    text = "import torch\nout += [str(torch.ones(2).shape), str(torch.float32), str(torch.strided)]"
    assert told(text, tmp_path) == ["torch.Size([2])", "torch.float32", "torch.strided"]


def test_classes_are_pickled_and_found_by_torchs_names(tmp_path: Path) -> None:
    text = """
import pickle, torch, torch.nn as nn
by_name = b"ctorch.nn.modules.linear\\nLinear\\n."
out += [pickle.loads(by_name) is nn.Linear, pickle.loads(b"ctorch\\nfloat32\\n.") is torch.float32]
x = pickle.loads(pickle.dumps(nn.Linear(2, 3)))
relu = nn.functional.relu
out += [x.weight.shape == (3, 2), pickle.loads(pickle.dumps(relu)) is relu]
"""
    assert told(text, tmp_path) == [True] * 4


def test_what_is_only_livegrads_is_not_torchs(tmp_path: Path) -> None:
    text = """
import torch, torch.compiler, torch.ops
out += [hasattr(torch, x) for x in ("train", "graph", "runtime", "explain", "nothing")]
out += [torch.compiler.is_compiling(), torch.ops.aten.relu.default(torch.tensor([-1.0])).item()]
"""
    assert told(text, tmp_path) == [False] * 6 + [0.0]


def test_a_function_is_not_hidden_by_the_module_of_its_name(tmp_path: Path) -> None:
    text = """
import torch, torch.multiprocessing.spawn
from torch.nn.utils.weight_norm import WeightNorm
from torch.nn.utils.spectral_norm import SpectralNorm, spectral_norm
from torch.nn.parallel.parallel_apply import parallel_apply
from torch._higher_order_ops.while_loop import while_loop
from torch._higher_order_ops.cond import cond
nn = torch.nn
found = [torch.multiprocessing.spawn, nn.utils.weight_norm, nn.utils.spectral_norm, spectral_norm]
found += [nn.parallel.parallel_apply, parallel_apply, while_loop, cond]
out += [type(f).__name__ for f in found]
out += [nn.utils.weight_norm(nn.Linear(2, 3))(torch.ones(1, 2)).shape == (1, 3)]
"""
    assert told(text, tmp_path) == ["function"] * 8 + [True]


MISSING = [
    ("import torch\n\ntorch.nothing_there()", "torch.nothing_there", 3),
    ("import torch.nothing.at_all", "torch.nothing", 1),
    ("from torch.nn import (\n    Linear,\n    Nothing,\n)", "torch.nn.Nothing", 1),
    ("import torch\nx = torch.ones(2)\nx.to_mkldnn()", "torch.Tensor.to_mkldnn", 3),
    ("import torch.nn as nn\nnn.Linaer(2, 3)", "torch.nn.Linaer", 2),
    ("import torchtext.legacy", "torchtext.legacy", 1),
    ("import torchaudio", "torchaudio", 1),
]


def test_a_missing_name_is_named_with_its_line(tmp_path: Path) -> None:
    for text, name, line in MISSING:
        write(tmp_path, script=text)
        ran = run("script.py", cwd=tmp_path)
        last = ran.stderr.strip().splitlines()[-1]
        assert ran.returncode == 1
        assert f"livegrad has no {name}, which {tmp_path}/script.py uses in line {line}" in last
        assert "livegrad/porting" not in ran.stderr
    assert "dense" in run("-c", MISSING[3][0], cwd=tmp_path).stderr
    assert "did you mean torch.nn.Linear?" in run("-c", MISSING[4][0], cwd=tmp_path).stderr


def test_a_missing_package_is_named_with_its_line_and_how_to_get_it(tmp_path: Path) -> None:
    write(tmp_path, script="import torch\n\nimport not_there.at_all")
    ran = run("script.py", cwd=tmp_path)
    assert ran.returncode == 1
    name, line = ran.stderr.strip().splitlines()[-2:]
    assert name == "ModuleNotFoundError: No module named 'not_there'"
    assert f"not_there is not installed in {sys.prefix}, which {tmp_path}/script.py" in line
    assert "imports in line 3: pip install not_there" in line
    write(tmp_path, script="import not_there\nimport torch")
    assert "pip install not_there" in run("script.py", cwd=tmp_path).stderr
    # What a package does not have is no question of packages.
    ran = run("-c", "import torch, json.nothing", cwd=tmp_path)
    assert ran.stderr.strip().endswith("No module named 'json.nothing'")


def test_programs_that_ask_whether_a_name_is_there_get_an_answer(tmp_path: Path) -> None:
    text = """
import torch
out += [hasattr(torch, "nothing"), hasattr(torch.nn, "nothing")]
try:
    from torch.nothing import x
except ImportError as error:
    out += [error.name]
"""
    assert told(text, tmp_path) == [False, False, "torch.nothing"]


def test_other_processes_keep_their_torch(tmp_path: Path) -> None:
    """Nothing is left behind: the next `python` finds whatever is called torch there."""
    write(tmp_path, torch="__version__ = 'another'")
    assert run("-c", "import torch; print(torch.__version__)", cwd=tmp_path).stdout != "another\n"
    assert (
        python("-c", "import torch; print(torch.__version__)", cwd=tmp_path).stdout == "another\n"
    )


def test_the_report_says_what_is_used_and_missing(tmp_path: Path) -> None:
    write(
        tmp_path,
        script="import torch, beside\ntorch.ones(2)\nif 0:\n    torch.absent()",
        beside="import torch.nn as nn\nnn.Linear(2, 2)",
    )
    ran = run("--report", "script.py", cwd=tmp_path)
    assert ran.returncode == 0
    lines = ran.stderr.strip().splitlines()
    assert lines[-1] == "5 names of torch used, 4 there, 1 missing"
    assert lines[-2].endswith("script.py:4: livegrad has no torch.absent")


def test_pickles_of_pytorchs_tensors_are_refused_in_words(tmp_path: Path) -> None:
    ran = run(
        "-c",
        "import pickle\npickle.loads(b'ctorch.storage\\n_load_from_bytes\\n(C\\x00tR.')",
        cwd=tmp_path,
    )
    assert ran.returncode == 1
    assert "Write them with torch.save" in ran.stderr


def test_torchvision_is_livegrads_where_it_is_not_installed(tmp_path: Path) -> None:
    if importlib.util.find_spec("torchvision") is not None:
        pytest.skip("torchvision itself is installed")
    text = """
import torchvision, livegrad.vision
import torchvision.transforms as transforms, torchvision.datasets
from torchvision.models import resnet18, ResNet18_Weights
from torchvision.models.resnet import BasicBlock
from torchvision.ops import nms
from torchvision.transforms import v2
out += [torchvision is livegrad.vision, transforms is livegrad.vision.transforms]
out += [resnet18 is livegrad.vision.models.resnet18, ResNet18_Weights.DEFAULT.name == "DEFAULT"]
out += [torchvision.datasets is livegrad.vision.datasets, v2 is transforms.v2]
"""
    assert told(text, tmp_path) == [True] * 6


def test_an_installed_torchvision_is_used(tmp_path: Path) -> None:
    package = tmp_path / "torchvision"
    package.mkdir()
    start = "from torchvision import _meta_registrations\nname = 'theirs'"
    write(package, __init__=start, _meta_registrations="raise ImportError('no C++')")
    assert told("import torchvision\nout += [torchvision.name]", tmp_path) == ["theirs"]
