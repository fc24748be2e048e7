"""Ctrl-C and SIGTERM: the first asks a run to stop and save, the second leaves at once.

A run that was started by a sweep stops too when the sweep is no more.
"""

import os
import signal
import threading
from types import FrameType
from typing import Any, NoReturn

PARENT = "PUSHPOP_PARENT"
"""The variable of the environment with the number of the process that a run must not outlive."""


class StopRequested(Exception):
    """Raised at a safe point after SIGINT or SIGTERM."""


class Signals:
    """While entered, from the main thread, remembers the first signal in `received`."""

    def __init__(self) -> None:
        self._signal: int | None = None
        self._parent = os.environ.get(PARENT)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    @property
    def received(self) -> int | None:
        """The first signal that came, if any; SIGTERM too if the parent has gone."""
        if self._signal is None and self._parent not in (None, str(os.getppid())):
            return signal.SIGTERM
        return self._signal

    @received.setter
    def received(self, number: int | None) -> None:
        self._signal = number

    def check(self) -> None:
        """Raise `StopRequested` if a signal came."""
        if self.received is not None:
            raise StopRequested

    def leave(self) -> NoReturn:
        """Raise what ends the process as the signal would have: exit codes 130 and 143."""
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + int(self.received or 0))

    def _receive(self, number: int, _: FrameType | None) -> None:
        self.received = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
