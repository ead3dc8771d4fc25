"""Completion for bash and zsh: the shell asks `twofold complete LINE`, which answers from what commands declare."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from twofold.base.command import Asked, Command, Kind
from twofold.cli import menu

BASH = r"""_twofold() {
    local line="${COMP_LINE:0:COMP_POINT}"
    local word="${line##* }"
    local IFS=$'\n'
    COMPREPLY=($(twofold complete "$line" 2>/dev/null))
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace
    # bash takes the part behind = for a word of its own
    [[ $word == *=* && $COMP_WORDBREAKS == *=* ]] && COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}")
    return 0
}
complete -o default -F _twofold twofold"""
ZSH = r"""_twofold() {
    local -a found
    found=(${(f)"$(twofold complete "$LBUFFER" 2>/dev/null)"})
    if (( ${#found} )); then
        compadd -Q -S '' -- ${(M)found:#*[=/]}
        compadd -Q -- ${found:#*[=/]}
    else
        _files
    fi
}
compdef _twofold twofold"""


def completion(asked: menu.Completion) -> int:
    """The lines that a shell needs."""
    print({"bash": BASH, "zsh": ZSH}[asked.shell])
    return 0


def complete(line: str) -> list[str]:
    """What the last word of a command line may become; empty: the shell offers files."""
    words = line.split()
    last = "" if line.endswith(" ") or not words else words.pop()
    if not words:
        return []
    known = [one for group in menu.all_commands().values() for one in group]
    before = words[1:]
    named = [one for one in known if one.name.split(" ") == before[: one.name.count(" ") + 1]]
    found = _of_commands(named, last) if named else _names(known, before)
    return sorted({word for word in found if word.startswith(last)})


def _names(known: Iterable[Command], before: list[str]) -> list[str]:
    """The next word of commands that begin as typed."""
    depth = len(before)
    return [one.name.split(" ")[depth] for one in known if _begins(one.name.split(" "), before)]


def _begins(words: list[str], before: list[str]) -> bool:
    return len(words) > len(before) and words[: len(before)] == before


def _of_commands(named: Iterable[Command], last: str) -> list[str]:
    """Options, their values, places and the settings that matter, of commands of one name."""
    flag, equals, typed = last.partition("=")
    found: list[str] = []
    for command in named:
        for one in command.asked():
            if one.role == "option" and equals and one.flag == flag.replace("_", "-"):
                found += [f"{flag}={value}" for value in _values(one, typed)]
            elif one.role == "option" and not equals and one.meaning:
                found.append(one.flag if one.switch or one.bare else f"{one.flag}=")
            elif one.role == "place" and not equals and not last.startswith("-"):
                found += _values(one, last)
            elif one.role == "settings" and not equals:
                found += [f"{key.partition('=')[0]}=" for key, _ in command.matters if "=" in key]
    return found if last.startswith("-") else [word for word in found if not word.startswith("-")] or found


def _values(one: Asked, typed: str) -> list[str]:
    return list(one.choices) or _of_kind(one.kind, typed)


def _of_kind(kind: Kind, typed: str) -> list[str]:
    """Names of presets and policies, and folders that are runs; files are the shell's own business."""
    from twofold.settings.domains import domains

    if kind in ("config", "env-config"):
        folder = {"config": "algs", "env-config": "envs"}[kind]
        places = [domain.presets / folder for domain in domains().values() if domain.presets is not None]
        return [path.stem for place in places for path in place.glob("*.yaml")]
    if kind == "zoo":
        places = [domain.zoo for domain in domains().values() if domain.zoo is not None]
        return [path.stem for place in places for path in place.glob("*.safetensors")]
    return _folders(typed) if kind in ("run", "folder") else []


def _folders(typed: str) -> list[str]:
    """Folders that the typed path may become; those that are runs end without a slash."""
    above = typed.rpartition("/")[0]
    place = Path(above or ("/" if typed.startswith("/") else "."))
    prefix = f"{above}/" if "/" in typed else ""
    try:
        inside = [entry for entry in place.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
        return [f"{prefix}{entry.name}{'' if (entry / 'config.json').exists() else '/'}" for entry in inside]
    except OSError:
        return []
