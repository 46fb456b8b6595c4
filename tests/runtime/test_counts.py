"""Counts of steps move in place: one number is read and written, whatever the group's size."""

from __future__ import annotations

import copy
from typing import Any

import livegrad as lg
from livegrad import nn, optim


def trained(steps: int = 2) -> tuple[Any, list[Any]]:
    params = [nn.Parameter(lg.ones(2)) for _ in range(3)]
    optimizer = optim.Adam(params)
    for _ in range(steps):
        step(optimizer)
    return optimizer, params


def step(optimizer: Any) -> None:
    params = optimizer.param_groups[0]["params"]
    optimizer.zero_grad()
    lg.stack([(p * p).sum() for p in params]).sum().backward()
    optimizer.step()


def counts(optimizer: Any, params: list[Any]) -> list[float]:
    return [optimizer.state[p]["step"].item() for p in params]


def test_a_step_writes_one_number_where_it_lies() -> None:
    optimizer, params = trained()
    places = {id(optimizer.state[p]["step"]._node) for p in params}
    assert len(places) == 1
    step(optimizer)
    assert {id(optimizer.state[p]["step"]._node) for p in params} == places
    assert counts(optimizer, params) == [3, 3, 3]


def test_who_holds_a_count_sees_it_move_and_copies_stay() -> None:
    optimizer, params = trained()
    held = optimizer.state[params[0]]["step"]
    copies = [held.clone(), held + 0, copy.deepcopy(held), held.reshape(1).clone()]
    pending = held * 2
    shown, array = held.detach(), optimizer.state[params[1]]["step"].numpy()
    step(optimizer)
    assert held.item() == shown.item() == array.item() == 3
    assert [x.item() for x in copies] == [2, 2, 2, 2]
    assert pending.item() == 4
    step(optimizer)
    assert counts(optimizer, params) == [4, 4, 4]
    assert array.item() == 4


def test_a_saved_copy_stays() -> None:
    optimizer, params = trained()
    saved = copy.deepcopy(optimizer.state_dict())
    step(optimizer)
    assert [saved["state"][i]["step"].item() for i in range(3)] == [2, 2, 2]
    assert counts(optimizer, params) == [3, 3, 3]


def test_one_tensor_in_two_states_and_another_that_has_its_value() -> None:
    optimizer, params = trained()
    first, second, third = [optimizer.state[p] for p in params]
    other = second["step"]
    second["step"] = first["step"]
    step(optimizer)
    assert other.item() == 2  # of no state any more
    assert first["step"].item() == third["step"].item() == 3


def test_numbers_that_are_no_longer_equal_are_counted_apart() -> None:
    optimizer, params = trained()
    optimizer.state[params[1]]["step"].fill_(10)
    step(optimizer)
    assert counts(optimizer, params) == [3, 11, 3]
    optimizer.state[params[1]]["step"] = 3  # a plain number becomes a tensor
    step(optimizer)
    assert counts(optimizer, params) == [4, 4, 4]
