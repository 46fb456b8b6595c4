"""`python -m tests.conformance.differential --programs 20000 --seed 0`"""

from __future__ import annotations

import sys

from .command import main

sys.exit(main())
