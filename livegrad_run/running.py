"""A PyTorch program is run as Python itself would run it, with livegrad in the place of torch.

`__file__`, `__main__`, `sys.argv`, `sys.path`, tracebacks and exit codes are those of
`python script.py`, `python -m module` and `python -c text`; so the same program can be run by
either.
"""

from __future__ import annotations

import atexit
import builtins
import importlib
import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader

from livegrad_run.child import sitecustomize

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType, TracebackType
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_CHILD = os.path.join(_HERE, "child")
_HOOK = os.path.join(os.path.dirname(_HERE), "livegrad", "porting", "hook.py")


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Runs a file, or the `__main__` of a directory or an archive; "-" is standard input."""
    prepare()
    sys.argv = [path, *arguments]
    if path == "-":
        sys.path.insert(0, "")
        execute(_compiled(sys.stdin.buffer.read(), "<stdin>"), main_module())
    elif os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        sys.path.insert(0, os.path.abspath(path))
        _run_found("__main__", path)
    else:
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
        source, file = _read(path), os.path.abspath(path)
        loader = SourceFileLoader("__main__", file)
        execute(_compiled(source, file), main_module(__file__=file, __loader__=loader))


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Runs a module, as `python -m` does; one of torch's if it is called so."""
    prepare()
    sys.argv = ["-m", *arguments]
    sys.path.insert(0, os.getcwd())
    _run_found(name, name)


def run_text(text: str, arguments: Sequence[str]) -> None:
    """Runs a text, as `python -c` does."""
    prepare()
    sys.argv = ["-c", *arguments]
    sys.path.insert(0, "")
    execute(_compiled(text.encode(), "<string>"), main_module())


def run_profiled(start: Callable[..., None], program: str, arguments: Sequence[str]) -> None:
    """Runs a program by one of these functions, and says on standard error where its time went."""
    measured = importlib.import_module("livegrad.debug").profile()  # nobody else waits for tensors
    try:
        with measured:
            start(program, arguments)
    finally:
        print(measured, file=sys.stderr)


def prepare() -> None:
    """Puts livegrad in the place of torch, here and in processes that this one starts."""
    sitecustomize.wait()
    os.environ["LIVEGRAD_RUN"] = sys.prefix
    os.environ["LIVEGRAD_RUN_PATH"] = os.path.dirname(_HERE)
    old = os.environ.get("PYTHONPATH", "")
    if _CHILD not in old.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_CHILD, old]))


# ------------------------------------------------------------------------------------ the program


def main_module(**attributes: Any) -> ModuleType:
    """A new `__main__`, like the one that Python makes for a script."""
    module = type(sys)("__main__")
    module.__dict__.update(__builtins__=builtins, __annotations__={}, **attributes)
    sys.modules["__main__"] = module
    return module


def execute(code: CodeType, module: ModuleType) -> None:
    """Runs the program. What it does not catch ends the process, as it would without us."""
    try:
        exec(code, module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        error.__traceback__ = _without_ours(error.__traceback__)
        _explain(error)
        _report(error)
        raise


def _explain(error: BaseException) -> None:
    """Says what to use instead of a name of torch, if that was what is missing."""
    if isinstance(error, AttributeError | ImportError):
        importlib.import_module("livegrad.porting.blame").explain(error)


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback that begins in the program, and does not end where we say that a name is not."""
    while traceback is not None and _file(traceback) == __file__:
        traceback = traceback.tb_next
    last = traceback
    while last is not None and last.tb_next is not None:
        if _file(last.tb_next) == _HOOK:
            last.tb_next = None
            break
        last = last.tb_next
    return traceback


def _file(traceback: TracebackType) -> str:
    return traceback.tb_frame.f_code.co_filename


def _report(error: BaseException) -> None:
    """Shows an error by the hook that is set now, and not once more when Python ends by it."""
    sys.excepthook(type(error), error, error.__traceback__)
    sys.excepthook = lambda *_: None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        problem = f"[Errno {error.errno}] {error.strerror}"
        raise _fail(f"can't open file {os.path.abspath(path)!r}: {problem}", 2) from None


def _compiled(source: bytes, name: str) -> CodeType:
    """The code of a source text. An error in it is shown without our frames."""
    try:
        return compile(source, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        error.__traceback__ = None
        _report(error)
        raise


def _fail(message: str, status: int) -> SystemExit:
    """Ends the process as Python does when there is nothing to run."""
    print(f"{sys.executable}: {message}", file=sys.stderr)
    return SystemExit(status)


# --------------------------------------------------------------------------------------- modules


def _run_found(name: str, shown: str) -> None:
    """Runs a module that the import system finds."""
    spec = _found(name, shown)
    code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    if code is None:
        raise _fail(f"No code object available for {shown}", 1)
    sys.argv[0] = shown if name == "__main__" else str(spec.origin)
    module = main_module(
        __file__=spec.origin, __loader__=spec.loader, __package__=spec.parent, __spec__=spec
    )
    execute(code, module)


def _found(name: str, shown: str) -> ModuleSpec:
    """The spec of what is to be run: of a package, its `__main__`."""
    if name in ("torch.distributed.launch", "torch.distributed.run"):
        name = "livegrad.porting.launch"  # which does not run scripts in a module of its own
    try:
        if name == "__main__":
            spec = _main_in(shown)
        else:
            spec = importlib.import_module("importlib.util").find_spec(name)
    except ModuleNotFoundError as error:
        why = f"{type(error).__name__}: {error}"
        raise _fail(f"Error while finding module specification for {name!r} ({why})", 1) from None
    if spec is None:
        raise _fail(f"No module named {name}", 1)
    if spec.submodule_search_locations is not None:
        return _found(f"{name}.__main__", shown)
    return spec


def _main_in(path: str) -> ModuleSpec | None:
    """The `__main__` of a directory or an archive, which is not the one that runs now."""
    spec = PathFinder.find_spec("__main__", [path])
    if spec is None:
        raise _fail(f"can't find '__main__' module in {os.path.abspath(path)!r}", 1)
    return spec


def report_at_exit() -> None:
    """Says on standard error, when the process ends, which names of torch its modules use."""
    atexit.register(
        lambda: print(*checker().report_of_process().lines(), sep="\n", file=sys.stderr)
    )


def checker() -> Any:
    """The module `checking`, which programs that only run do not wait for."""
    return importlib.import_module("livegrad.porting.checking")
