"""What is tested here are plans."""

import pytest


@pytest.fixture(autouse=True)
def planned(whole_plans: None) -> None:
    pass
