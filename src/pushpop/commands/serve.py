"""`pushpop serve`."""

# ruff: noqa: RUF009  `option` only wraps `field`

from dataclasses import dataclass

from pushpop.devices import read_device
from pushpop.errors import InputError
from pushpop.options import Command, argument, option


@dataclass(frozen=True)
class Serve(Command):
    """Show models, and a playground, in a browser.

    Examples:
        pushpop serve
        pushpop serve reverse-stack runs/copy-queue-seed0 --port 0
    """

    models: list[str] | None = argument(
        "shipped models by name, or folders; by default all shipped ones", count="*"
    )
    host: str = option(
        "127.0.0.1", "the address to listen at; only this machine can reach the default"
    )
    port: int = option(8000, "the port to listen at; 0 takes a free one")
    allow_host: str = option(
        "",
        "more names that the server is asked for by, such as a proxy's, with commas in "
        "between; requests for other names are refused",
    )
    device: str = option(
        "cpu",
        "where models run: cpu, cuda or cuda:N (a GPU), mps (Apple's), auto: cuda or else cpu",
    )

    def execute(self) -> None:
        read_device("device", self.device)
        try:
            from pushpop.viewer.server import listen
        except ModuleNotFoundError as error:
            raise InputError(
                f"serving needs {error.name}, which is not installed: pip install 'pushpop[serve]'"
            ) from None

        if not 0 <= self.port < 2**16:
            raise InputError(f"port {self.port}: expected a number from 0 to 65535")
        listen(
            self.models or [],
            self.host,
            self.port,
            [name for name in self.allow_host.split(",") if name],
            self.device,
        )
