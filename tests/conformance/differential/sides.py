"""The two sides of a comparison: a library, and the variables of a program run with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch

from .clipping import Clipping
from .integers import Saturating
from .program import GIVEN, code, names
from .signs import Negating


class Side:
    def __init__(self, library: Any):
        self.library = library
        self.log: list[Any] = []
        self.first_versions: dict[int, int] = {}
        self.variables: dict[str, Any] = {
            "T": library,
            "F": library.nn.functional,
            "__name__": "program",  # so that classes have a module
            "log": self.log,
        }

    def run(self, line: str) -> Exception | None:
        """Runs a line; the error it raised, if any."""
        try:
            exec(code(line), self.variables)
        except Exception as error:
            return without_frames(error)
        finally:
            tensors = self.tensors().values()
            self.first_versions = {
                id(x): self.first_versions.get(id(x), version(x)) for x in tensors
            }
        return None

    def writes(self) -> dict[str, int]:
        """By how much each tensor's version rose since the line that made it.

        What it is then tells how the library made the tensor, which is nobody's business.
        """
        first = self.first_versions
        return {k: version(x) - first.get(id(x), version(x)) for k, x in self.tensors().items()}

    def read(self) -> Exception | None:
        """Reads every tensor, so that nothing is pending; the error that came of it, if any."""
        try:
            for x in self.tensors().values():
                x.tolist()
        except Exception as error:
            return error
        return None

    def own(self) -> dict[str, Any]:
        """The program's variables, in the order they were made."""
        return {k: v for k, v in self.variables.items() if k not in GIVEN and k[0] != "_"}

    def tensors(self) -> dict[str, Any]:
        return {k: v for k, v in self.own().items() if isinstance(v, self.library.Tensor)}


def without_frames(error: Exception) -> Exception:
    """An error that keeps no tensors of the lines that it came through alive."""
    found: BaseException | None = error
    while found is not None:
        found.__traceback__ = None
        found = found.__context__
    return error


def version(x: Any) -> int:
    try:
        return int(x._version)
    except RuntimeError:  # made in inference mode: it counts no writes
        return 0


# A write to what the same line has reshaped: that is done where the write is refused.
AFTER_RESHAPING = re.compile(r"\bt_\(\)\.\w+_\(")


def restore_places(shown: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Undoes what PyTorch does to tensors before it refuses to reshape, resize or set them.

    With each of them goes another one, which shows what it showed before.
    """
    for x, before in shown:
        if place_of(x) == place_of(before):
            continue
        if x.is_inference():
            with torch.inference_mode():
                x.set_(before)
        else:
            x.data = before


def place_of(x: torch.Tensor) -> tuple[Any, ...]:
    """Which elements of which storage a tensor shows."""
    return x.untyped_storage()._cdata, x.shape, x.stride(), x.storage_offset()


# What is said when all that the line writes before has been written.
AFTER_WRITES = (
    "Expected more than 1 value per channel when training",
    "element 0 of tensors does not require grad",
    "running_mean should contain",
)


def may_be_half_done(line: str, error: Exception) -> bool:
    """Whether a line that raised did something before that, of which nothing is refused.

    A loop that writes to a tensor of inference mode is refused with its first write, which PyTorch
    does, and then refuses. A module that normalises batches counts one before it looks at its
    sizes, and before a backward pass that has nowhere to go.
    """
    if any(text in str(error) for text in AFTER_WRITES):
        return True
    return line.startswith("for ") and "Inplace update to inference tensor" not in str(error)


class TorchSide(Side):
    """PyTorch, where a line that raises changes nothing.

    PyTorch checks an index while it writes, so of a write with a bad one a part may be done. With
    `keeping`, values that backward needs are kept as they were when they were used: what PyTorch
    refuses to do with them after a write (or does with the new ones, if that was by `.data`). With
    `saturating`, numbers that no integer stands for are made integers by livegrad's rule; with
    `negating`, complex numbers are negated by it; with `clipping`, gradients at NaN are its; with
    `laying`, gradients lie in memory by it.
    """

    def __init__(
        self,
        keeping: bool = False,
        saturating: bool = False,
        negating: bool = False,
        clipping: bool = False,
        laying: Callable[[], AbstractContextManager[None]] = nullcontext,
    ):
        super().__init__(torch)
        self.dropped: dict[str, Any] = {}  # variables that a line has deleted
        self.laying = laying
        self.keeping = keeping
        self.saturating = saturating
        self.negating = negating
        self.clipping = clipping

    def run(self, line: str) -> Exception | None:
        before = [
            (x.untyped_storage(), x.untyped_storage().clone()) for x in self.tensors().values()
        ]
        shown = [(x, x.detach()) for x in self.tensors().values()]
        self.dropped |= {k: v for k, v in self.variables.items() if k in names(line).drops}
        with self.otherwise("T.func." not in line):  # which takes no hooks on what is saved
            error = super().run(line)
        if error is not None and not may_be_half_done(line, error):
            if not AFTER_RESHAPING.search(line):
                restore_places(shown)
            for storage, copy in before:
                if storage.nbytes() == copy.nbytes():
                    storage.copy_(copy)
        return error

    @contextmanager
    def otherwise(self, saves: bool) -> Iterator[None]:
        """Within it, PyTorch does some things as livegrad does them."""
        with ExitStack() as stack:
            stack.enter_context(self.laying())
            if self.keeping and saves:
                kept = torch.autograd.graph.saved_tensors_hooks(
                    lambda x: x.detach().clone(), lambda x: x
                )
                stack.enter_context(kept)
            if self.saturating:
                stack.enter_context(Saturating())
            if self.negating:
                stack.enter_context(Negating())
            if self.clipping:
                stack.enter_context(Clipping())
            yield
