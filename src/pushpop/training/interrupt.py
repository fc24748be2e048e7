"""Ctrl-C and SIGTERM: the first asks a run to stop and save, the second leaves at once."""

import signal
import threading
from types import FrameType
from typing import Any, NoReturn


class StopRequested(Exception):
    """A signal came; nothing has changed since it was last looked for."""


class Signals:
    """While entered, from the main thread, remembers the first signal in `received`."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

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
