"""What annotations speak of, for type checkers and editors: nothing here is needed to run."""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Number = bool | int | float | complex | np.generic
# What elementwise functions compute with, on either side.
Operand = Tensor | Number
