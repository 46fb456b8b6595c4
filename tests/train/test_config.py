"""Configuration: files and command lines into dataclasses, and mistakes named with their key."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from livegrad.train import ConfigError, load_config, save_config


class Kind(enum.Enum):
    MLP = "mlp"
    CNN = "cnn"


@dataclass
class Layer:
    size: int
    act: str = "relu"


@dataclass
class Model:
    width: int = 64
    kind: Kind = Kind.MLP
    dropout: float | None = None
    layers: list[Layer] = field(default_factory=list)


@dataclass
class Config:
    """A training run."""

    name: str
    model: Model = field(default_factory=lambda: Model(width=7))
    lr: float = field(default=1e-3, metadata={"help": "the learning rate"})
    debug: bool = False
    sizes: list[int] = field(default_factory=lambda: [1, 2])
    betas: tuple[float, float] = (0.9, 0.999)
    out: Path = Path("runs")
    mode: Literal["fast", "slow"] = "fast"
    tags: dict[str, int] = field(default_factory=dict)
    steps: int | None = 5
    other: Any = None


def load(*args, path=None):
    return load_config(Config, path, ["--name=a", *args])


FILE = """
name = "from file"
lr = 1
sizes = [4, 5]
[model]
width = 32
layers = [{size = 3}, {size = 4, act = "tanh"}]
[tags]
x = 1
"""


def test_a_file_over_defaults_and_the_command_line_over_both(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(FILE)
    config = load_config(Config, path, ["--model.dropout=.5", "--lr", "0.25", "--tags.y=2"])
    assert config.name == "from file"
    assert config.lr == 0.25
    assert config.model == Model(32, Kind.MLP, 0.5, [Layer(3), Layer(4, "tanh")])
    assert config.tags == {"x": 1, "y": 2}
    assert config.sizes == [4, 5]
    assert load_config(Config, None, [f"--config={path}"]).model.width == 32
    whole = load_config(Config, path, ())
    assert type(whole.lr) is float


def test_forms_of_the_command_line():
    config = load(
        "--model.width=128", "--model.kind=cnn", "--debug", "--sizes=7,8", "--betas=[0.5, 1]",
        "--out", "x/y", "--mode=slow", "--steps=none", "--other=[1, 'a']",
    )  # fmt: skip
    assert config.model.width == 128
    assert config.model.kind is Kind.CNN
    assert config.debug is True
    assert config.sizes == [7, 8]
    assert config.betas == (0.5, 1.0)
    assert config.out == Path("x/y")
    assert config.mode == "slow"
    assert config.steps is None
    assert config.other == [1, "a"]
    assert load("--no-debug").debug is False
    assert load("--debug=yes").debug is True
    assert load("--lr=-1e-2").lr == -0.01
    assert load("--other=some words").other == "some words"
    # What the default of a table says holds for what is not given.
    assert load("--model.dropout=0.1").model.width == 7


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--model.width=wide"], r"model.width: got 'wide'; expected int"),
        (["--model.width=1.5"], r"model.width: got '1.5'; expected int"),
        (["--model.widht=3"], r"model.widht is unknown; did you mean model.width\?"),
        (["--nothing=3"], r"nothing is unknown; known are name, model, lr"),
        (["--sizes=1,b"], r"sizes\[1\]: got 'b'; expected int"),
        (["--betas=1"], r"betas: got \['1'\].*; expected tuple\[float, float\]"),
        (["--mode=medium"], r"mode: got 'medium'; expected one of 'fast', 'slow'"),
        (["--model.kind=rnn"], r"model.kind: got 'rnn'; expected one of MLP, CNN"),
        (["--model=3"], r"model: got '3'; expected a table \(Model\)"),
        (["--steps=x"], r"steps: got 'x'; expected int or none"),
        (["--debug=perhaps"], r"debug: got 'perhaps'; expected bool"),
        (["--model.layers=[{act='x'}]"], r"model.layers\[0\].size is missing; expected int"),
        (["--lr"], r"--lr needs a value; expected float"),
        (["lr=3"], r"'lr=3' is not expected"),
    ],
)
def test_mistakes_on_the_command_line(args, message):
    with pytest.raises(ConfigError, match=message):
        load(*args)


def test_mistakes_in_a_file_are_all_named(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("lr = true\nsizes = 3\n[model]\nwidth = 1.0\nextra = 1\n")
    with pytest.raises(ConfigError) as caught:
        load_config(Config, path, ())
    text = str(caught.value)
    for part in (
        "name is missing; expected str",
        "lr in ",
        "got True (bool); expected float",
        "sizes in ",
        "expected list[int]",
        "model.width in ",
        "got 1.0 (float); expected int",
        "model.extra in ",
        str(path),
    ):
        assert part in text
    path.write_text("lr = = 3")
    with pytest.raises(ConfigError, match=r"run.toml: .*line 1"):
        load_config(Config, path, ())


def test_checks_of_the_class_itself():
    @dataclass
    class Checked:
        rate: float = 0.5

        def __post_init__(self):
            if not 0 <= self.rate <= 1:
                raise ValueError(f"rate is {self.rate}; expected 0 to 1")

    with pytest.raises(ConfigError, match="Checked: rate is 2.0; expected 0 to 1"):
        load_config(Checked, None, ["--rate=2"])
    with pytest.raises(TypeError, match="expected a dataclass"):
        load_config(dict, None, ())


def test_saved_and_loaded_again(tmp_path):
    config = load(
        "--model.layers=[{size=3}]", "--steps=none", "--model.kind=cnn", "--tags={a=1}",
        "--other=3", '--out=q"uo\\te ü', "--lr=inf",
    )  # fmt: skip
    save_config(config, tmp_path / "c.toml")
    assert load_config(Config, tmp_path / "c.toml", ()) == config


def test_help(capsys):
    with pytest.raises(SystemExit) as caught:
        load_config(Config, None, ["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith("A training run.")
    assert "--model.width    int" in text.replace("  --", "--")
    assert "the learning rate  [0.001]" in text
    assert "[required]" in text
