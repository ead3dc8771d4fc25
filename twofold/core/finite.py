"""Non-finite values: name the first bad tensor, keep the offending batch, stop before anything is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as encode

from twofold.core import tree
from twofold.core.errors import NonFiniteError
from twofold.store import files


def first_bad(**trees: Any) -> str | None:
    """The path of the first array that holds a NaN or an infinity, such as 'obs' or 'next_obs.position'."""
    for name, branch in trees.items():
        if isinstance(branch, np.ndarray):  # the common case, without walking
            if branch.dtype.kind == "f" and not np.isfinite(branch).all():
                return name
            continue
        for path, leaf in tree.items(branch, name):
            if leaf.dtype.kind == "f" and not np.isfinite(leaf).all():
                return path
    return None


def stop(name: str, *, at: str, evidence: dict[str, Any], folder: Path) -> None:
    """Write the evidence into the run directory and raise an error that names tensor, place and file."""
    path = folder / "bad_batch.safetensors"
    arrays = {key: np.asarray(leaf, order="C") for key, leaf in tree.items(evidence)}
    try:
        files.replace_bytes(path, encode(arrays))
        where = f"the arrays are in {path}"
    except OSError as error:
        where = f"the arrays could not be written ({error.strerror})"
    raise NonFiniteError(
        f"{name} is not finite (NaN or infinity) {at}; {where}. Nothing bad was saved: "
        "mend the world or lower the learning rate, then run the same command to go on from the last checkpoint."
    )
