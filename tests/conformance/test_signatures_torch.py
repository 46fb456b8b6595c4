"""Names, order, kinds and defaults of arguments, against PyTorch's, for all that both have."""

from __future__ import annotations

import ast
import importlib
import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from livegrad.utils.tensorboard import SummaryWriter

torch = pytest.importorskip("torch")

NAMESPACES = """
    nn nn.functional nn.init nn.utils nn.utils.rnn nn.utils.parametrize nn.utils.parametrizations
    nn.utils.prune nn.parameter optim optim.lr_scheduler optim.swa_utils utils.data autograd
    autograd.functional utils.checkpoint func amp
""".split()

# What differs, and why.
KNOWN = {
    # PyTorch's dispatch on return_indices hides the arguments, which are documented as these.
    "nn.functional.adaptive_max_pool1d": "hidden there",
    "nn.functional.adaptive_max_pool2d": "hidden there",
    "nn.functional.adaptive_max_pool3d": "hidden there",
    "nn.functional.fractional_max_pool2d": "hidden there",
    "nn.functional.fractional_max_pool3d": "hidden there",
    "nn.functional.max_pool1d": "hidden there",
    "nn.functional.max_pool2d": "hidden there",
    "nn.functional.max_pool3d": "hidden there",
    "nn.functional.normalize": "out= is added by a wrapper",
    "nn.Module.forward": "there, an attribute that raises",
    "utils.data.random_split": "the default is the library's own generator",
    "optim.lr_scheduler.ChainedScheduler.step": "takes what the base class takes",
    "optim.lr_scheduler.SequentialLR.step": "takes what the base class takes",
    "nn.utils.prune.CustomFromMask.apply": "takes what the base class takes",
    "nn.utils.prune.Identity.apply": "takes what the base class takes",
    "nn.utils.prune.RandomStructured.apply": "takes what the base class takes",
    "nn.utils.prune.RandomUnstructured.apply": "takes what the base class takes",
    "autograd.Function.__init__": "object's own",
    "utils.checkpoint.checkpoint": "preserve_rng_state is among **kwargs there",
    "amp.GradScaler.__init__": "the CPU is the device",
    "amp.autocast.__init__": "the CPU is the device",
    "amp.custom_bwd": "the CPU is the device",
    "amp.custom_fwd": "the CPU is the device",
}


def shown(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return ""
    text = getattr(default, "__name__", None) or repr(default)
    return text.replace("torch.", "").replace("livegrad.", "")


def parameters(function: Any) -> list[tuple[str, str, str]] | None:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in one
        return None
    return [(p.name, p.kind.name, shown(p.default)) for p in found]


def pairs(namespace: str) -> Iterator[tuple[str, Any, Any]]:
    """Functions and methods that both libraries have in a namespace, by name."""
    theirs = importlib.import_module(f"torch.{namespace}")
    ours = importlib.import_module(f"livegrad.{namespace}")
    for name in sorted(vars(theirs)):
        their, our = getattr(theirs, name), getattr(ours, name, None)
        place = getattr(their, "__module__", None) or ""
        if name.startswith("_") or our is None or not place.startswith(f"torch.{namespace}"):
            continue
        if inspect.isclass(their):
            yield from methods(f"{namespace}.{name}", their, our)
        elif callable(their):
            yield f"{namespace}.{name}", their, our


def methods(name: str, theirs: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    for key, value in vars(theirs).items():
        public = key == "__init__" or not key.startswith("_")
        if public and callable(getattr(theirs, key)) and not inspect.isclass(value):
            found = getattr(ours, key, None)
            if callable(found):
                yield f"{name}.{key}", getattr(theirs, key), found


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_signatures(namespace: str) -> None:
    different, known, compared = {}, set(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, theirs, ours in pairs(namespace):
            wanted, got = parameters(theirs), parameters(ours)
            if wanted is None or got is None:
                continue
            compared += 1
            if got != wanted and name in KNOWN:
                known.add(name)
            elif got != wanted:
                different[name] = (got, wanted)
    assert different == {}
    assert compared
    assert known == {n for n in KNOWN if n.startswith(f"{namespace}.") and n in names(namespace)}


def names(namespace: str) -> set[str]:
    return {name for name, _, _ in pairs(namespace)}


def test_summary_writer() -> None:
    """Read from the source: PyTorch's needs the tensorboard package to be imported."""
    path = Path(torch.__file__).parent / "utils" / "tensorboard" / "writer.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    writer = next(x for x in tree.body if getattr(x, "name", "") == "SummaryWriter")
    compared = set()
    for method in writer.body:
        if not isinstance(method, ast.FunctionDef) or not hasattr(SummaryWriter, method.name):
            continue
        if method.name.startswith("_") and method.name != "__init__":
            continue
        given = method.args.args
        defaults = [""] * (len(given) - len(method.args.defaults))
        defaults += [repr(ast.literal_eval(x)) for x in method.args.defaults]
        wanted = list(zip([x.arg for x in given], defaults, strict=True))
        got = parameters(getattr(SummaryWriter, method.name))
        assert got is not None
        assert [(name, default) for name, _, default in got] == wanted, method.name
        compared.add(method.name)
    assert {"__init__", "add_scalar", "add_embedding", "add_hparams", "add_graph"} <= compared
