"""Open the port, say where, serve until Ctrl-C."""

import socket
import sys
from collections.abc import Sequence

from pushpop.devices import find_device
from pushpop.errors import InputError


def listen(
    models: Sequence[str],
    host: str,
    port: int,
    allowed: Sequence[str] = (),
    device: str = "cpu",
) -> None:
    """Serve these models, or the shipped ones, until the process is interrupted.

    It answers requests for this host, for the local ones and for those that are `allowed`.
    """
    try:
        import uvicorn

        from pushpop.viewer.connection import TimedProtocol
        from pushpop.viewer.server import make_app
    except ModuleNotFoundError as error:
        raise InputError(
            f"serving needs {error.name}, which is not installed: pip install 'pushpop[serve]'"
        ) from None
    import torch

    from pushpop.viewer.catalogue import open_models
    from pushpop.viewer.trace import Example, trace

    torch.set_num_threads(1)
    where = find_device(device)
    entries = open_models(models)
    for entry in entries.values():
        entry.model.to(where)
    with _bind(host, port) as door:
        for entry in entries.values():  # compiles the kernels before the first visitor comes
            first = entry.model.vocabulary.blank or entry.model.vocabulary.source[0]
            trace(entry.model, Example((first,)), max_length=1)
        app = make_app(entries, hosts=(host, *allowed))
        settings = uvicorn.Config(
            app, http=TimedProtocol, log_level="warning", timeout_keep_alive=10
        )
        shown = f"[{host}]" if ":" in host else host
        names = ", ".join(entries) or "no models, only the playground"
        print(f"serving {names}", file=sys.stderr)
        print(f"http://{shown}:{door.getsockname()[1]}  (Ctrl-C stops)", flush=True)
        uvicorn.Server(settings).run(sockets=[door])


def _bind(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"host {host!r}: {error.strerror or error}") from None
    family, kind, protocol, _, address = found[0]
    door = socket.socket(family, kind, protocol)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(address)
        door.listen(128)  # who comes before the server has started waits instead of being refused
    except OSError as error:
        door.close()
        raise InputError(
            f"{host}:{port}: {error.strerror or error}; choose another with --port, or --port 0"
        ) from None
    return door
