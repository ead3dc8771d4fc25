"""Put the best policy of a finished run into the zoo: `python benchmarks/zoo.py NAME RUN`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from keep import typed

from twofold.control import DOMAIN
from twofold.store import files
from twofold.store.policy_file import seal, unseal


def main(name: str, run: Path) -> int:
    arrays, about = unseal(run / "best.safetensors")
    origin = json.loads((run / "provenance.json").read_text())
    made = {"command": typed(origin["command"]), "packages": origin["packages"], "commit": origin["commit"]}
    about["score"] |= made | {"test": json.loads((run / "test.json").read_text())}
    assert DOMAIN.zoo is not None
    files.replace_bytes(DOMAIN.zoo / f"{name}.safetensors", seal(arrays, about))
    print(DOMAIN.zoo / f"{name}.safetensors")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], Path(sys.argv[2])))
