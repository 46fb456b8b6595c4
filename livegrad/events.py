"""What livegrad does, told as it happens: for profilers, viewers and the curious.

| kind | told | event |
|---|---|---|
| `recorded` | an operation was recorded | `Recorded` |
| `planned` | a plan was made for what is pending | `Planned` |
| `compiled` | a kernel was compiled, or loaded from disk | `Compiled` |
| `ran` | a flush is over: what was pending has values | `Ran` |
| `read` | the program was given a value | `Read` |

```python
import livegrad as lg

with lg.events.listen("ran", lambda ran: print(ran.reason, [step.ops for step in ran.steps])):
    lg.ones(3).exp().sum().item()               # item() [('exp', 'full', 'sum')]
```

Values, plans, steps and kernels have names that stay: `event.node` and `event.plan` are numbers
which nothing else gets in this process, a step is known by its plan and its number there, and
`kernel` is a digest, the same in every process. Events hold no values: keeping them keeps no
memory alive.
"""

from __future__ import annotations

from livegrad.graph.events import (
    KINDS,
    Compiled,
    Listening,
    Planned,
    Ran,
    Read,
    Recorded,
    Step,
    listen,
)

__all__ = [
    "KINDS",
    "Compiled",
    "Listening",
    "Planned",
    "Ran",
    "Read",
    "Recorded",
    "Step",
    "listen",
]
