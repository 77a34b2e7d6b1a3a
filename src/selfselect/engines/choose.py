"""Which engine suits the data, where the user does not say."""

from __future__ import annotations

from typing import Any

from selfselect.data.files import are_files
from selfselect.engines.base import EngineChoice
from selfselect.engines.memory import Memory
from selfselect.errors import OptionError


def is_dask_frame(data: Any) -> bool:
    """Say whether data is a `dask.dataframe`, without importing Dask."""
    return type(data).__module__.startswith("dask.") and hasattr(data, "npartitions")


def engine_for(data: Any, engine: Any = None) -> EngineChoice:
    """Return the given engine, or the one that suits the type of `data`.

    Parameters
    ----------
    data : a table is held in memory; files (a path, a pattern, a list, an Arrow dataset) are read
        piece by piece; a `dask.dataframe` is summed over by the workers of the current cluster.
    engine : None, or an object of `selfselect.engines`.
    """
    if engine is not None:
        if not hasattr(engine, "load") or isinstance(engine, type):
            raise OptionError(
                f"engine={engine!r} is not possible: it is not an engine. Give an object of "
                "selfselect.engines, such as engines.Torch('cuda'), or leave it out."
            )
        chosen: EngineChoice = engine
        return chosen
    if is_dask_frame(data):
        from selfselect.engines.dask import Dask

        return Dask()
    if are_files(data):
        from selfselect.engines.parquet import Parquet

        return Parquet()
    return Memory()
