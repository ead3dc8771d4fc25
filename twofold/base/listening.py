"""Where a server waits for questions."""

from __future__ import annotations

import socket

from twofold.base.errors import UserError


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address of this machine; port 0 takes any that is free."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (socket.gaierror, UnicodeError):
        raise UserError(f"no address is called '{host}': give 127.0.0.1, or 0.0.0.0 for everybody") from None
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"port {port} of {host} cannot be used ({why}): give another --port") from None
