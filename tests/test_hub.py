"""`hub`: models of directories, weights by their address."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import livegrad as lg
from livegrad import hub

HUBCONF = '''
from helper import SIZE
import livegrad as lg

dependencies = ["livegrad"]

def linear(outputs=1, **options):
    """A layer."""
    return lg.nn.Linear(SIZE, outputs)

def _hidden():
    pass
'''


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "hubconf.py").write_text(HUBCONF)
    (tmp_path / "helper.py").write_text("SIZE = 3")
    return tmp_path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "hub"


def test_a_model_of_a_directory(repo: Path) -> None:
    net = hub.load(str(repo), "linear", 2, source="local", trust_repo=True)
    assert net.weight.shape == (2, 3)
    assert hub.list(str(repo), source="local") == ["linear"]
    assert hub.help(str(repo), "linear", source="local") == "A layer."


def test_a_repository_in_the_cache(repo: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    repo_in_cache = cache / "owner_name_main"
    repo_in_cache.mkdir()
    for name in ("hubconf.py", "helper.py"):
        (repo_in_cache / name).write_text((repo / name).read_text())
    assert hub.load("owner/name", "linear").weight.shape == (1, 3)
    with pytest.raises(RuntimeError, match="source='local'"):
        hub.load("owner/name:v2", "linear")


def test_what_is_missing_is_named(repo: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="Cannot find callable absent"):
        hub.load(str(repo), "absent", source="local")
    with pytest.raises(FileNotFoundError, match=r"hubconf\.py"):
        hub.load(str(tmp_path / "none"), "linear", source="local")
    with pytest.raises(ValueError, match="Unknown source"):
        hub.load(str(repo), "linear", source="elsewhere")
    (repo / "hubconf.py").write_text("dependencies = ['a_package_of_nobody']")
    with pytest.raises(RuntimeError, match="Missing dependencies: a_package_of_nobody"):
        hub.load(str(repo), "linear", source="local")


def test_weights_are_fetched_once(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    lg.save({"w": lg.ones(2)}, file)
    url = file.as_uri()
    assert hub.load_state_dict_from_url(url)["w"].tolist() == [1.0, 1.0]
    file.unlink()
    assert hub.load_state_dict_from_url(url)["w"].tolist() == [1.0, 1.0]
    assert (cache / "checkpoints" / "weights.pt").exists()


def test_weights_have_the_digest_of_their_name(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    lg.save({"w": lg.ones(2)}, file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    for name, fits in ((f"a-{digest}.pt", True), ("a-00000000.pt", False)):
        copy = tmp_path / name
        copy.write_bytes(file.read_bytes())
        if fits:
            assert "w" in hub.load_state_dict_from_url(copy.as_uri(), check_hash=True)
        else:
            with pytest.raises(RuntimeError, match="invalid hash value"):
                hub.load_state_dict_from_url(copy.as_uri(), check_hash=True)
            assert not (cache / "checkpoints" / name).exists()


def test_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub._Hub, "directory", None)
    hub.set_dir(tmp_path)
    assert hub.get_dir() == str(tmp_path)
