"""Addresses that a server is asked to wait at."""

from __future__ import annotations

import pytest

from twofold.base.errors import UserError
from twofold.base.listening import listen
from twofold.cli import main


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 300, "300.1.1.1", "é\udcff"])
def test_an_address_that_is_none_is_one_line(host: str) -> None:
    with pytest.raises(UserError, match="no address is called"):
        listen(host, 0)


def test_a_port_that_is_taken_is_one_line() -> None:
    with listen("127.0.0.1", 0) as first, pytest.raises(UserError, match="give another --port"):
        listen("127.0.0.1", first.getsockname()[1])


@pytest.mark.parametrize("command", ["page", "serve"])
def test_a_port_that_no_machine_has_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, ".", "--port=70000"]) == 2
    assert capsys.readouterr().err == "twofold: --port must be at most 65535, got 70000\n"
