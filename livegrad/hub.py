"""`torch.hub`: models by the `hubconf.py` of a directory, and weights by their address.

load("path/to/repo", "resnet18", source="local")     calls `resnet18` of its hubconf.py
load_state_dict_from_url(url)                        from the cache, or fetched into it

Repositories are not fetched: a directory is where somebody has put it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse
from urllib.request import urlopen

from livegrad.serialization import load as load_file

_HUBCONF = "hubconf.py"
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")


class _Hub:
    directory: str | None = None


def get_dir() -> str:
    """Where repositories and weights are kept: TORCH_HOME/hub, or ~/.cache/torch/hub."""
    return _Hub.directory or os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keeps repositories and weights in another directory."""
    _Hub.directory = os.path.expanduser(d)


class tqdm:
    """A bar that shows nothing: packages import this name from here."""

    def __init__(self, iterable: Any = (), **options: Any) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable)

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, n: int = 1) -> None:
        """Nothing."""

    close = update


# ----------------------------------------------------------------------------------- repositories


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **options: Any) -> Any:
    """What the function `model` of a repository's hubconf.py returns for the other arguments."""
    for name in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        options.pop(name, None)
    return _entry(_hubconf(repo_or_dir, source), model)(*args, **options)


def list(repo_or_dir: str, *args: Any, source: str = "github", **options: Any) -> Any:
    """The names of the functions of a repository's hubconf.py."""
    members = vars(_hubconf(repo_or_dir, source)).items()
    return [name for name, value in members if callable(value) and not name.startswith("_")]


def help(repo_or_dir: str, model: str, *args: Any, source: str = "github", **options: Any) -> Any:
    """The docstring of a function of a repository's hubconf.py."""
    return _entry(_hubconf(repo_or_dir, source), model).__doc__


def _directory(repo: str, source: str) -> Path:
    """Where a repository is: given as it is, or in the cache, as PyTorch puts it there."""
    if source not in ("github", "local"):
        raise ValueError(f"Unknown source: {source!r}. Allowed values: 'github' | 'local'.")
    if source == "local":
        return Path(repo)
    name, _, ref = repo.partition(":")
    for branch in [ref] if ref else ["main", "master"]:
        found = Path(get_dir()) / f"{name.replace('/', '_')}_{branch.replace('/', '_')}"
        if found.is_dir():
            return found
    raise RuntimeError(
        f"hub.load: {repo!r} is not in {get_dir()}, and livegrad fetches no code. Clone it, and "
        "say hub.load('path/to/the/clone', …, source='local')"
    )


def _hubconf(repo: str, source: str) -> ModuleType:
    """A repository's hubconf.py, imported with the repository on the path."""
    directory = _directory(repo, source)
    path = directory / _HUBCONF
    if not path.is_file():
        raise FileNotFoundError(f"hub: there is no {_HUBCONF} in {directory}")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(directory))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(directory))
    _check_dependencies(module)
    return module


def _check_dependencies(module: ModuleType) -> None:
    needed = getattr(module, "dependencies", ())
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")


def _entry(module: ModuleType, name: str) -> Any:
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


# ---------------------------------------------------------------------------------------- weights


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """What `load` reads from a file of the cache, which is fetched if it is not there."""
    directory = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    path = directory / (file_name or os.path.basename(urlparse(url).path))
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        found = HASH_REGEX.search(path.name) if check_hash else None
        download_url_to_file(url, str(path), found[1] if found else None, progress)
    return load_file(path, map_location=map_location)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Fetches a file. It is complete, and has the SHA-256 that was asked for, or is not there."""
    target = Path(dst)
    with (
        urlopen(url) as source,
        tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part,
    ):
        try:
            shutil.copyfileobj(source, part)
            part.flush()
            _check_hash(Path(part.name), hash_prefix)
            os.replace(part.name, target)
        except BaseException:
            os.unlink(part.name)
            raise


def _check_hash(path: Path, prefix: str | None) -> None:
    if prefix:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if not digest.startswith(prefix):
            raise RuntimeError(f'invalid hash value (expected "{prefix}", got "{digest}")')
