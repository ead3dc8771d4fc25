"""The command line: parses, calls, prints."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code. A user's mistake is one message, never a traceback."""
    from twofold.base.errors import UserError
    from twofold.base.signals import Stopped, Terminated, unwinding
    from twofold.base.surroundings import SURROUNDINGS, told
    from twofold.cli.streams import fill_in_streams, nobody_reads, printable_output

    fill_in_streams()
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        with unwinding(), printable_output():
            return _dispatch(argv)
    except UserError as error:
        if "--debug" in argv:
            raise
        return _complain(str(error), 2)
    except Stopped as stop:
        return _complain(f"{stop}: everything is saved", stop.exit_code)
    except Terminated as stop:
        return _complain(f"{stop}; nothing is left half written", stop.exit_code)
    except KeyboardInterrupt:
        return _complain("stopped by SIGINT; nothing is left half written", 130)
    except BrokenPipeError:
        nobody_reads()
        return 1
    except SURROUNDINGS as error:
        if "--debug" in argv:
            raise
        return _complain(told(error), 2)


def _complain(message: str, code: int) -> int:
    from twofold.cli.messages import complain

    complain(message)
    return code


def _dispatch(argv: list[str]) -> int:
    from twofold.cli.menu import all_commands

    if not argv or argv[0] in ("-h", "--help", "help"):
        return _help(argv[1:])
    if argv[0] in ("--version", "-V"):
        from twofold import __version__

        print(f"twofold {__version__}")
        return 0
    if argv[0] == "complete":  # asked by the shell, not by a person
        from twofold.cli.completion import complete

        print("\n".join(complete(" ".join(argv[1:]))))
        return 0
    from twofold.cli.finding import find

    command, rest = find(argv, [one for group in all_commands().values() for one in group])
    words = rest[: rest.index("--")] if "--" in rest else rest
    if command is None or "--help" in words or "-h" in words:
        return _help(argv)
    from twofold.cli.running import run

    return run(command, rest)


def _help(argv: list[str]) -> int:
    """Of everything, or of the command that is named."""
    from twofold.cli import help
    from twofold.cli.finding import find
    from twofold.cli.menu import all_commands

    groups = all_commands()
    known = [one for group in groups.values() for one in group]
    words = [word for word in argv if not word.startswith("-")]
    if not words:
        print(help.overview(groups))
        return 0
    command, _ = find(words, known)
    if command is None:
        print(help.family(words[0], known))
    else:
        print(help.of(command, [one for one in known if one.name == command.name and one.when]))
    return 0
