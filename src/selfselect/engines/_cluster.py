"""A Dask cluster that already runs: found, asked, and given up on with a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from selfselect.errors import EngineError, MissingDependencyError, OptionError

__all__ = ["compute", "find_client", "gather", "home_of", "submit", "workers_of"]

LOOK_S = 0.5
"""Seconds between two looks at what is done."""

PATIENCE_S = 60.0
"""Seconds that a cluster may be without a worker: one that died is often started again."""


def find_client(client: Any) -> Any:
    """Return the client that was given, or the current one."""
    try:
        import distributed
    except ImportError as error:
        raise MissingDependencyError(
            "Rows on a Dask cluster need dask: pip install 'selfselect[dask]'"
        ) from error
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError as error:
            raise EngineError(
                "There is no Dask cluster to sum on. Start or join one first, as in "
                "client = distributed.Client(), which takes the cores of this machine, or "
                "distributed.Client('tcp://scheduler:8786'); or read the rows into memory: "
                "fit(..., data.compute())."
            ) from error
    if not isinstance(client, distributed.Client):
        raise OptionError(
            f"client={client!r} is not possible. Give a distributed.Client, or None for the "
            "current one."
        )
    if client.asynchronous:
        raise OptionError(
            "The client is asynchronous, and a fit waits for its sums. Give one made with "
            "distributed.Client(address)."
        )
    if client.status != "running":
        raise _gone(client)
    return client


def workers_of(client: Any) -> dict[str, int]:
    """Return the workers' addresses, and how many threads each has."""
    with _still_there(client):
        found: dict[str, int] = client.nthreads()
    return found


def home_of(client: Any, futures: Sequence[Any]) -> dict[Any, str]:
    """Return the address of a worker that holds each future, by its key; others are left out."""
    with _still_there(client):
        where = client.who_has(list(futures))
    return {key: min(holders) for key, holders in where.items() if holders}


def compute(client: Any, graphs: list[Any], *, home: str | None = None) -> list[Any]:
    """Ask for what graphs describe, on a worker of choice while it lives; return futures."""
    with _still_there(client):
        futures: list[Any] = client.compute(graphs, **_at(home))
    return futures


def submit(client: Any, task: Callable[..., Any], *arguments: Any, home: str | None) -> Any:
    """Ask for a task, on a worker of choice while it lives."""
    with _still_there(client):
        return client.submit(task, *arguments, **_at(home), pure=False)


def _at(home: str | None) -> dict[str, Any]:
    return {} if home is None else {"workers": [home], "allow_other_workers": True}


def gather(client: Any, futures: list[Any], done: Callable[[int], None] | None = None) -> list[Any]:
    """Wait for futures and return what they hold; give up where the cluster is gone.

    Dask starts again what was lost with a worker. It waits forever for a worker where there is
    none.

    Parameters
    ----------
    client : of the cluster.
    futures : what was asked.
    done : called now and then with how many of them are done.
    """
    from distributed import wait
    from distributed.scheduler import KilledWorker

    alone_since: float | None = None
    with _still_there(client):
        while True:
            try:
                wait(futures, timeout=LOOK_S)
                break
            except TimeoutError:
                if done is not None:
                    done(sum(future.done() for future in futures))
            if workers_of(client):
                alone_since = None
            elif alone_since is None:
                alone_since = time.monotonic()
            elif time.monotonic() - alone_since > PATIENCE_S:
                raise EngineError(
                    f"The cluster has had no worker for {PATIENCE_S:.0f} seconds, so nothing is "
                    "summed. Add workers and fit again."
                )
        try:
            found: list[Any] = client.gather(futures)
        except KilledWorker as error:
            raise EngineError(
                "Workers died one after the other over the same rows, most likely for lack of "
                "memory. Give them more, or smaller partitions."
            ) from error
    return found


@contextmanager
def _still_there(client: Any) -> Iterator[None]:
    """Say that the cluster is gone where that is why Dask fails."""
    from concurrent.futures import CancelledError

    try:
        yield
    except CancelledError as error:
        raise (_lost() if client.status == "running" else _gone(client)) from error
    except Exception as error:
        if client.status == "running" or isinstance(error, EngineError):
            raise
        raise _gone(client) from error


def _gone(client: Any) -> EngineError:
    return EngineError(
        f"The Dask cluster is gone (its client is {client.status}), and the rows on its workers "
        "with it. Start one and fit again; with checkpoint= a fit goes on where it stopped."
    )


def _lost() -> EngineError:
    return EngineError(
        "Rows were lost with a worker, and Dask does not know how to make them again: they were "
        "sent to the cluster (Client.scatter) or computations were cancelled. Make the frame of "
        "files or functions, as dask.dataframe.read_parquet does, and fit again."
    )
