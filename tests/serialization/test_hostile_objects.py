"""Files that name classes and functions run nothing, whatever they name."""

from __future__ import annotations

import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from test_hostile_safetensors import document as of_structure

import livegrad as lg
from livegrad import nn
from livegrad.serialization import LoadError, safe_globals

RAN: list[str] = []


class Gadget:
    """A class of the program's that would do harm."""

    def __new__(cls) -> Any:
        RAN.append("__new__")
        return super().__new__(cls)

    def __init__(self) -> None:
        RAN.append("__init__")

    def __setattr__(self, name: str, value: Any) -> None:
        RAN.append("__setattr__")

    def __getattr__(self, name: str) -> Any:
        RAN.append("__getattr__")
        raise AttributeError(name)


class Restoring:
    def __setstate__(self, state: Any) -> None:
        RAN.append("__setstate__")


class Ending(nn.Module):
    def __del__(self) -> None:
        RAN.append("__del__")


class Reducing:
    def __reduce__(self) -> Any:
        RAN.append("__reduce__")
        return os.getcwd, ()


def obj(name: str, state: Any = None, **more: Any) -> dict[str, Any]:
    return {"$object": name, "id": 0, **({} if state is None else {"state": state}), **more}


def document(value: Any) -> bytes:
    return of_structure({"object": value})


HERE = __name__
MODULE = {"training": True, "_parameters": {}, "_buffers": {}, "_modules": {}}
CASES: dict[str, tuple[Any, str]] = {
    "a function of Python": ({"$function": "os.system"}, "the function 'os.system'"),
    "the same otherwise": ({"$function": "posix.system"}, "the function 'posix.system'"),
    "eval": ({"$function": "builtins.eval"}, "the function 'builtins.eval'"),
    "saving": ({"$function": "livegrad.save"}, "the function 'livegrad.save'"),
    "code from the net": ({"$function": "livegrad.hub.load"}, "the function 'livegrad.hub.load'"),
    "a partial": (
        {"$partial": [{"$function": "os.system"}, ["true"], {}]},
        "the function 'os.system'",
    ),
    "a partial of a class": (
        {"$partial": [{"$class": "subprocess.Popen"}, [["true"]], {}]},
        "the class 'subprocess.Popen'|does not have",
    ),
    "a partial of text": ({"$partial": ["x", [], {}]}, "a partial of other things"),
    "a class of Python": (
        obj("tempfile._TemporaryFileCloser", {"name": "x"}),
        "objects of 'tempfile._TemporaryFileCloser'",
    ),
    "an exception": (obj("builtins.KeyError"), "objects of 'builtins.KeyError'"),
    "a tensor": (obj("livegrad.nn.Parameter"), "only running its code would make"),
    "a graph module": (
        obj("livegrad.fx.GraphModule", MODULE),
        "only running its code would make|does not have",
    ),
    "a class that reduces": (obj(f"{HERE}.Reducing"), "objects of|only running its code"),
    "a class that ends": (obj(f"{HERE}.Ending", MODULE), "has a __del__"),
    "a state setter": (obj(f"{HERE}.Restoring", {"a": 1}), "objects of|__setstate__ would run"),
    "a class that is none": (obj("os.system"), "which it is not"),
    "an attribute of an object": (obj(f"{HERE}.RAN.append"), "does not have"),
    "no such class": (obj("nowhere.Net"), "'nowhere.Net', which this program does not have"),
    "no name": (obj(""), "does not have"),
    "another kind of name": (obj(3), "expected text"),  # type: ignore[arg-type]
    "a hidden method": (
        obj("livegrad.nn.ReLU", {**MODULE, "forward": {"$function": "livegrad.relu"}}),
        "'forward', which hides a method",
    ),
    "a hidden method by a member": (
        obj("livegrad.nn.ReLU", {**MODULE, "_modules": {"forward": None}}),
        "'forward', which hides a method",
    ),
    "parameters that are none": (
        obj("livegrad.nn.ReLU", {**MODULE, "_parameters": {"a": 1}}),
        "_parameters of other things",
    ),
    "modules that are none": (
        obj("livegrad.nn.ReLU", {**MODULE, "_modules": {"a": {"$tensor": "t"}}}),
        "_modules of other things",
    ),
    "a state that is none": (obj("livegrad.nn.ReLU", [1]), "a state that is no dict"),
    "slots that are none": (obj("livegrad.nn.ReLU", MODULE, slots={"a": 1}), "the slot 'a'"),
    "items of a module": (obj("livegrad.nn.ReLU", MODULE, items=[1]), "gives items"),
    "pairs of a module": (obj("livegrad.nn.ReLU", MODULE, pairs=[]), "gives pairs"),
    "a number twice": ([obj("livegrad.nn.ReLU", MODULE)] * 2, "an object of number 0"),
    "no such number": ({"$ref": 3}, "refers to an object of number 3"),
    "a number that is text": ({"$ref": "0"}, "refers to an object"),
    "an enum that is none": ({"$enum": ["os.environ", "PATH"]}, "which it is not"),
    "no enum": ({"$enum": ["livegrad.nn.ReLU", "x"]}, "which is none"),
    "no tuple": ({"$named": ["livegrad.nn.ReLU", [1]]}, "which is none"),
    "a method of a string": ({"$method": ["x", "format"]}, "has the method"),
    "a method of a class": (
        {"$method": [{"$class": "livegrad.nn.ReLU"}, "apply"]},
        "has the method",
    ),
    "a constant": ({"$constant": "Namespace"}, "the constant"),
    "a namespace": ({"$namespace": {"a": 1}, "kind": "os"}, "a namespace"),
    "a path": ({"$path": 1}, "expected text"),
    "a deque": ({"$deque": [1], "most": -1}, "a deque of at most"),
    "a nested tensor": ({"$nested": {"values": 1}}, "a nested tensor that is none"),
    "sizes that do not fit": (
        {"$nested": {"values": {"$tensor": "t"}, "requires_grad": False, "sizes": [[3]]}},
        "do not fit",
    ),
    "attributes of a tensor": (
        {"$tensor": "t", "attributes": {"grad": 1}},
        "gives a tensor the attribute",
    ),
}


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_hostile_objects(case: str, weights_only: bool, tmp_path: Path) -> None:
    structure, pattern = CASES[case]
    RAN.clear()
    made = document(structure)
    with pytest.raises(LoadError, match=f"(?s)^load: <BytesIO>: .*({pattern})"):
        lg.load(io.BytesIO(made), weights_only=weights_only)
    assert RAN == []


def test_no_special_method_runs(tmp_path: Path) -> None:
    RAN.clear()
    made = document(obj(f"{HERE}.Gadget", {"a": 1}))
    with pytest.raises(LoadError, match="allow it"):
        lg.load(io.BytesIO(made))
    back = lg.load(io.BytesIO(made), weights_only=False)
    with safe_globals([Gadget]):
        allowed = lg.load(io.BytesIO(made))
    assert RAN == []
    assert back.a == allowed.a == 1


def test_a_file_is_not_removed_by_a_class_of_python(tmp_path: Path) -> None:
    """What `tempfile` closes, it deletes; nobody may make such an object."""
    victim = tmp_path / "victim"
    victim.write_text("here")
    names = [f"tempfile.{n}" for n in vars(tempfile) if isinstance(getattr(tempfile, n), type)]
    assert names
    state = {"name": str(victim), "delete": True, "close_called": False, "cleanup_called": False}
    for name in names:
        with pytest.raises(LoadError):
            lg.load(io.BytesIO(document(obj(name, state))), weights_only=False)
    assert victim.exists()


def test_a_good_file_is_good() -> None:
    back = lg.load(io.BytesIO(document(obj("livegrad.nn.ReLU", {**MODULE, "inplace": False}))))
    assert back(lg.tensor([-1.0, 2.0])).tolist() == [0, 2]
    assert json.loads(json.dumps(MODULE)) == MODULE
