"""A log of records as columns: arrays for numpy and matplotlib, a data frame where pandas is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twofold.base.errors import MissingPackage
from twofold.base.values import Json
from twofold.core.experience import Array

if TYPE_CHECKING:
    import pandas


def numbers(record: Mapping[str, Json]) -> dict[str, float]:
    """The numbers of a record by name."""
    return {name: value for name, value in record.items() if isinstance(value, (int, float))}


class Columns(dict[str, Array]):
    """Arrays of equal length by name; NaN where a record has no such value."""

    @classmethod
    def of(cls, records: Sequence[Mapping[str, float]]) -> Columns:
        """The records' values by name, in the order of the records."""
        names = dict.fromkeys(name for record in records for name in record)
        found = cls()
        for name in names:
            values = np.array([record.get(name, np.nan) for record in records])
            found[name] = values.astype(np.int64) if name == "step" else values
        return found

    def frame(self) -> pandas.DataFrame:
        """The same as a pandas data frame."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise MissingPackage("pandas", "notebook", "a data frame") from None
        return pandas.DataFrame(dict(self))
