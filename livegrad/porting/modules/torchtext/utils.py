"""`torchtext.utils`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any


def unicode_csv_reader(unicode_csv_data: Any, **kwargs: Any) -> Iterator[list[str]]:
    """The rows of a table, with fields of any length."""
    csv.field_size_limit(2**31 - 1)
    yield from csv.reader(unicode_csv_data, **kwargs)
