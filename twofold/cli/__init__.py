"""The command line: parses, calls, prints."""

from __future__ import annotations

import sys

from twofold.cli.usage import HELP, USAGE


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code. A user's mistake is one message, never a traceback."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv or argv[0] in ("-h", "--help", "help"):
        lines = "".join(f"  {name:<16} {line}\n" for name, (_, line) in _domain_commands().items())
        print(USAGE.format(domains=lines))
        return 0
    if argv[0] == "--version":
        from twofold import __version__

        print(f"twofold {__version__}")
        return 0
    from twofold.base.errors import UserError
    from twofold.base.surroundings import SURROUNDINGS, told

    try:
        return _dispatch(argv[0], argv[1:])
    except UserError as error:
        if "--debug" in argv:
            raise
        from twofold.cli.running import complain

        complain(str(error))
        return 2
    except BrokenPipeError:
        return 1
    except SURROUNDINGS as error:
        if "--debug" in argv:
            raise
        from twofold.cli.running import complain

        complain(told(error))
        return 2
    except KeyboardInterrupt:
        return 130


def _domain_commands() -> dict[str, tuple[str, str]]:
    """The commands of the lab and of the domains: name -> ('module:function', one line of help)."""
    from twofold.lab.commands import COMMANDS
    from twofold.settings.domains import domains

    theirs = {name: command for domain in domains().values() for name, command in domain.commands.items()}
    return {**COMMANDS, **theirs}


def _dispatch(command: str, argv: list[str]) -> int:
    from twofold.base.errors import UserError
    from twofold.cli import running, showing
    from twofold.settings.domains import function_at
    from twofold.settings.schema import nearest
    from twofold.show.console import set_up_logging

    own = {**running.COMMANDS, **showing.COMMANDS}
    theirs = _domain_commands()
    if command not in own and command not in theirs:
        hint = nearest(command, [*own, *theirs])
        raise UserError(
            f"no command '{command}'" + (f"; did you mean '{hint}'?" if hint else "; see twofold --help")
        )
    set_up_logging(terminal=sys.stderr.isatty(), debug="--debug" in argv)
    if command in theirs:
        return int(function_at(theirs[command][0])(argv))
    if "--help" in argv or "-h" in argv:
        print(HELP[command])
        return 0
    return own[command](argv)
