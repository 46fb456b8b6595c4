"""How much of PyTorch's module database is right: `python -m tests.conformance.module_db`.

    --only Linear,LSTM     these modules
    --inputs 5             at most so many inputs per module and mode
    --dtype float64        float32 by default
    --jobs 2               processes
    --write                raise the floor

Every module of `torch.testing._internal.common_modules.module_db` is built twice, gets PyTorch's
weights through `load_state_dict`, and is called on the same inputs, while training and not. Outputs
and gradients of inputs and parameters must agree, keys, shapes and (afterwards) values of the state
dict, and the text of `repr`. Dropout is set to 0. The exit code is 1 if an input fails that the
floor (`module_floor.json`) has as right.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("LIVEGRAD_NUM_THREADS", "1")

import torch
from torch.testing._internal.common_modules import module_db

import livegrad as lg
from livegrad import nn

FLOOR = Path(__file__).resolve().parent / "module_floor.json"
MODES = ("train", "eval")
TOLERANCE = {"float32": (2e-5, 2e-5), "float64": (1e-8, 1e-9)}
# PyTorch sums the alignments in float32, livegrad in float64.
LOOSER = {"nn.CTCLoss": {"float32": (1e-4, 1e-4), "float64": (1e-8, 1e-9)}}


class Mismatch(Exception):
    """The two differ."""


def counterpart(info: Any) -> Any:
    """Our module of the same name, or None."""
    return getattr(nn, info.name.rpartition(".")[2], None)


# --------------------------------------------------------------------------------- translating


class Translator:
    """PyTorch's values as ours; a tensor met twice is one tensor again."""

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}
        self.leaves: list[tuple[torch.Tensor, Any]] = []  # inputs that get a gradient

    def __call__(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return self.tensor(x)
        if isinstance(x, torch.nn.Module):
            return self.module(x)
        if isinstance(x, torch.nn.LinearCrossEntropyOptions):
            names = ("allow_retain_graph", "batch_chunk_size", "chunking_method", "acc_policy")
            return nn.LinearCrossEntropyOptions(**{name: getattr(x, name) for name in names})
        if isinstance(x, torch.dtype):
            return getattr(lg, str(x).removeprefix("torch."))
        if isinstance(x, torch.device):
            return "cpu"
        if isinstance(x, dict):
            return {key: self(value) for key, value in x.items()}
        if type(x) in (list, tuple, torch.Size):
            return (list if type(x) is list else tuple)(map(self, x))
        if callable(x):
            return getattr(nn.functional, x.__name__, x)
        return x

    def tensor(self, x: torch.Tensor) -> Any:
        if id(x) not in self.known:
            made = lg.tensor(x.detach().numpy())
            if x.requires_grad:
                made.requires_grad_()
                self.leaves.append((x, made))
            self.known[id(x)] = made
        return self.known[id(x)]

    def module(self, x: Any) -> Any:
        """The layers that are arguments of others."""
        if not isinstance(x, torch.nn.TransformerEncoderLayer | torch.nn.TransformerDecoderLayer):
            return getattr(nn, type(x).__name__)()
        made = getattr(nn, type(x).__name__)(
            x.self_attn.embed_dim,
            x.self_attn.num_heads,
            x.linear1.out_features,
            x.dropout.p,
            self(x.activation),
            x.norm1.eps,
            x.self_attn.batch_first,
            x.norm_first,
            x.linear1.bias is not None,
        )
        return made.to(self(x.linear1.weight.dtype))


def without_noise(module: Any) -> None:
    """Dropout with probability 0."""
    for below in module.modules():
        if "Dropout" in type(below).__name__:
            below.p = 0.0
        elif isinstance(getattr(below, "dropout", None), float):
            below.dropout = 0.0


# ----------------------------------------------------------------------------------- comparing


def flat(x: Any) -> Iterator[Any]:
    """The tensors (and Nones) in a result."""
    if isinstance(x, tuple | list):
        for part in x:
            yield from flat(part)
    else:
        yield x


def compare(mine: Any, theirs: Any, what: str, tolerance: tuple[float, float]) -> None:
    if (mine is None) != (theirs is None):
        raise Mismatch(f"{what}: got {type(mine).__name__}, expected {type(theirs).__name__}")
    if theirs is None:
        return
    got, wanted = torch.from_numpy(mine.detach().numpy()), theirs.detach()
    rtol, atol = tolerance
    if wanted.numel() and wanted.is_floating_point():  # sums of many: relative to the largest, too
        finite = wanted[wanted.isfinite()].abs()
        atol = max(atol, rtol * float(finite.max())) if finite.numel() else atol
    try:
        torch.testing.assert_close(got, wanted, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        raise Mismatch(f"{what}: {' '.join(str(error).split())[:160]}") from None


def gradients(outputs: list[Any], leaves: list[Any], weights: list[Any], grad: Any) -> Any:
    """Gradients of the leaves, from fixed random gradients of the outputs; None if none flow."""
    pairs = [
        (y, w) for y, w in zip(outputs, weights, strict=True) if y is not None and y.requires_grad
    ]
    if not pairs or not leaves:
        return None
    total = sum([(y * w).sum() for y, w in pairs])
    return grad(total, leaves, allow_unused=True)


def call(module: Any, given: Any) -> Any:
    return module(*given[0], **given[1])


def check_input(info: Any, sample: Any, training: bool, dtype: str) -> None:
    """Raises unless a module behaves like PyTorch's on one input."""
    built, given = sample.constructor_input, sample.forward_input
    tolerance = LOOSER.get(info.name, TOLERANCE)[dtype]
    translate = Translator()
    torch.manual_seed(3)
    theirs = info.module_cls(*built.args, **built.kwargs).to(getattr(torch, dtype))
    mine = counterpart(info)(*translate(built.args), **translate(built.kwargs))
    mine.to(getattr(lg, dtype))
    translate.leaves.clear()
    inputs = (given.args, given.kwargs)
    our_inputs = (translate(given.args), translate(given.kwargs))
    for module in (theirs, mine):
        without_noise(module)
        module.train(training)
    if isinstance(theirs, torch.nn.modules.lazy.LazyModuleMixin):
        with torch.no_grad():
            call(theirs, inputs)
    if repr(mine) != repr(theirs) and "function" not in repr(theirs):
        same = isinstance(mine, nn.modules.lazy.LazyModuleMixin)
        if not same:
            raise Mismatch(f"repr: got {mine!r}, expected {theirs!r}"[:300])
    mine.load_state_dict({k: v.detach().numpy() for k, v in theirs.state_dict().items()})
    compare_states(mine, theirs, tolerance)
    y, t = call(mine, our_inputs), call(theirs, inputs)
    mine_out, their_out = list(flat(y)), list(flat(t))
    if len(mine_out) != len(their_out):
        raise Mismatch(f"got {len(mine_out)} outputs, expected {len(their_out)}")
    for i, (a, b) in enumerate(zip(mine_out, their_out, strict=True)):
        compare(a, b, f"output {i}", tolerance)
    draw = torch.Generator().manual_seed(1)
    weights = [
        None if b is None else torch.randn(b.shape, generator=draw, dtype=torch.float64).to(b.dtype)
        for b in their_out
    ]
    ours = [None if w is None else lg.tensor(w.numpy()) for w in weights]
    leaves = [*translate.leaves, *zip(theirs.parameters(), mine.parameters(), strict=True)]
    wanted = gradients(their_out, [b for b, _ in leaves], weights, torch.autograd.grad)
    got = gradients(mine_out, [a for _, a in leaves], ours, lg.autograd.grad)
    if (wanted is None) != (got is None):
        raise Mismatch("one has gradients, the other has not")
    for i, (leaf, _) in enumerate(leaves if wanted is not None else ()):
        expected = torch.zeros_like(leaf) if wanted[i] is None else wanted[i]
        found = lg.zeros(*leaf.shape, dtype=getattr(lg, dtype)) if got[i] is None else got[i]
        compare(found, expected, f"gradient {i} of {tuple(leaf.shape)}", tolerance)
    compare_states(mine, theirs, tolerance)


def compare_states(mine: Any, theirs: Any, tolerance: tuple[float, float]) -> None:
    ours, wanted = mine.state_dict(), theirs.state_dict()
    if list(ours) != list(wanted):
        raise Mismatch(f"state_dict keys: got {list(ours)}, expected {list(wanted)}")
    for key, value in wanted.items():
        compare(ours[key], value, f"state_dict[{key!r}]", tolerance)


# --------------------------------------------------------------------------------------- running


@dataclass
class Result:
    """The verdicts on one module."""

    name: str
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MODES, 0))
    failed: dict[str, str] = field(default_factory=dict)  # "train 3" -> reason

    def passed(self, mode: str) -> int:
        return self.totals[mode] - sum(key.startswith(mode) for key in self.failed)


def check_module(place: int, most: int, dtype: str) -> Result:
    """Checks the inputs of one module of the database."""
    info = module_db[place]
    result = Result(info.name)
    for mode in MODES:
        training = mode == "train"
        torch.manual_seed(0)
        samples = info.module_inputs_func(
            info,
            device="cpu",
            dtype=getattr(torch, dtype),
            requires_grad=True,
            training=training,
        )
        for i, sample in enumerate(samples):
            if i >= most:
                break
            result.totals[mode] += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    check_input(info, sample, training, dtype)
                except Mismatch as error:
                    result.failed[f"{mode} {i}"] = str(error)
                except Exception as error:
                    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
                    result.failed[f"{mode} {i}"] = reason[:200]
    return result


def _job(arguments: tuple[int, int, str]) -> Result:
    torch.set_num_threads(1)
    return check_module(*arguments)


def row(result: Result) -> str:
    cells = [f"{result.passed(m):5d} of {result.totals[m]:4d}" for m in MODES]
    return f"{result.name:32s} {cells[0]}   {cells[1]}"


def read_floor() -> dict[str, Any]:
    return json.loads(FLOOR.read_text()) if FLOOR.exists() else {"missing": [], "modules": {}}


def worse(results: list[Result], floor: dict[str, Any]) -> list[str]:
    """What was right once and is no more; of a part of the inputs, only failures count."""
    found = []
    for result in results:
        known = floor["modules"].get(result.name)
        for mode in MODES:
            if known is None:
                continue
            before, total = known[mode]
            if result.totals[mode] - result.passed(mode) > total - before:
                found.append(f"{result.name} {mode}: {result.passed(mode)} instead of {before}")
    return found


def summary(names: list[str], missing: list[str], results: list[Result]) -> str:
    total = sum(sum(r.totals.values()) for r in results)
    right = total - sum(len(r.failed) for r in results)
    return (
        f"{len(names) - len(missing)} of {len(names)} modules present"
        f" ({100 * (1 - len(missing) / max(len(names), 1)):.1f} %); {right} of {total} inputs right"
        f" ({100 * right / max(total, 1):.2f} %)"
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.module_db")
    parser.add_argument("--only", default="")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--dtype", default="float32", choices=list(TOLERANCE))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--failures", type=int, default=5, help="listed per module")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(argv)
    only = {name.rpartition(".")[2] for name in options.only.split(",") if name}
    chosen = [
        (i, info)
        for i, info in enumerate(module_db)
        if not only or info.name.rpartition(".")[2] in only
    ]
    names = [info.name for _, info in chosen]
    missing = [info.name for _, info in chosen if counterpart(info) is None]
    jobs = [(i, options.inputs, options.dtype) for i, info in chosen if info.name not in missing]
    began, results = time.monotonic(), []
    print(f"{'module':32s} {'train':>13s}   {'eval':>13s}")
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for result in pool.imap(_job, jobs):
            print(row(result), flush=True)
            for key, reason in list(result.failed.items())[: options.failures]:
                print(f"    {key}: {reason}")
            results.append(result)
    print(f"missing: {', '.join(missing) or 'none'}")
    print(summary(names, missing, results), f"in {time.monotonic() - began:.0f} s")
    floor = read_floor()
    fallen = worse(results, floor)
    for line in fallen:
        print(f"below the floor: {line}")
    if options.write and not fallen:
        if options.inputs < 1_000_000 or only or options.dtype != "float32":
            print("--write wants everything, in float32", file=sys.stderr)
            return 2
        modules = {r.name: {m: [r.passed(m), r.totals[m]] for m in MODES} for r in results}
        reasons = {r.name: r.failed for r in results if r.failed}
        saved = {"missing": missing, "modules": modules, "failures": reasons}
        FLOOR.write_text(json.dumps(saved, indent=1) + "\n")
    return 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main())
