# SPDX-License-Identifier: Apache-2.0
"""Where the time went."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Phases:
    """Seconds of each named phase, in order; each is printed as it ends."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - started, 1)
        print(f"[{name}: {self.seconds[name]:.1f} s]", flush=True)
