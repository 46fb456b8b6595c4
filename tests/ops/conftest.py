"""Ops are tested in whole plans, where they are fused; LIVEGRAD_MODE=pieces has them run alone."""

import os

import pytest


@pytest.fixture(autouse=True)
def planned(request: pytest.FixtureRequest) -> None:
    if "pieces" not in os.environ.get("LIVEGRAD_MODE", ""):
        request.getfixturevalue("whole_plans")
