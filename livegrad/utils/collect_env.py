"""`python -m torch.utils.collect_env`: what a report about a problem should say."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version


def lines() -> list[str]:
    """The versions of what takes part, one a line."""
    out = [f"livegrad: {_version('livegrad')}", f"Python: {sys.version}"]
    out += [f"platform: {platform.platform()}", f"processor: {platform.processor()}"]
    return out + [f"{name}: {_version(name)}" for name in ("numpy", "scipy", "llvmlite")]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def get_pretty_env_info() -> str:
    """All of it as one text."""
    return "\n".join(lines())


def main() -> None:
    """Prints it."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
