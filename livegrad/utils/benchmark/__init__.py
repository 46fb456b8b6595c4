"""Measuring how long code takes: `torch.utils.benchmark` for livegrad.

What a statement records is computed before the clock stops, also results that nobody keeps.
"""

from __future__ import annotations

from livegrad.utils.benchmark import utils as utils
from livegrad.utils.benchmark.utils.common import (
    Measurement as Measurement,
    TaskSpec as TaskSpec,
    ordered_unique as ordered_unique,
    select_unit as select_unit,
    set_torch_threads as set_torch_threads,
    trim_sigfig as trim_sigfig,
    unit_to_english as unit_to_english,
)
from livegrad.utils.benchmark.utils.compare import Colorize as Colorize, Compare as Compare
from livegrad.utils.benchmark.utils.fuzzer import (
    FuzzedParameter as FuzzedParameter,
    FuzzedTensor as FuzzedTensor,
    Fuzzer as Fuzzer,
    ParameterAlias as ParameterAlias,
)
from livegrad.utils.benchmark.utils.timer import (
    Language as Language,
    Timer as Timer,
    timer as timer,
)
