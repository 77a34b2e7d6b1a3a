"""A Dask cluster that already runs: found, asked, and given up on with a sentence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from typing import Any

from selfselect.errors import (
    ClusterWarning,
    EngineError,
    MissingDependencyError,
    OptionError,
    warn_user,
)

LOOK_S = 0.5
"""Seconds between two looks at what is done."""

PATIENCE_S = 60.0
"""Seconds that a cluster may be without a worker, or all of them paused for lack of memory: one
that died is often started again."""

IDLE_S = 15.0
"""Seconds that workers may be idle while something is asked of them."""


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


def compute(client: Any, graphs: list[Any]) -> list[Any]:
    """Ask for what graphs describe; return futures."""
    with _still_there(client):
        futures: list[Any] = client.compute(graphs)
    return futures


def submit(client: Any, task: Callable[..., Any], *arguments: Any, home: str | None) -> Any:
    """Ask for a task, on a worker of choice while it lives."""
    with _still_there(client):
        return client.submit(task, *arguments, **tie(home), pure=False)


def cancel(client: Any, futures: Sequence[Any]) -> None:
    """Give up on futures, so that they can be asked for anew."""
    with _still_there(client):
        client.cancel(list(futures), force=True)


def tie(home: str | None) -> dict[str, Any]:
    """Return the options that tie a task to a worker while it lives; none for no worker."""
    return {} if home is None else {"workers": [home], "allow_other_workers": True}


def gather(client: Any, futures: list[Any], done: Callable[[int], None] | None = None) -> list[Any]:
    """Wait for futures and return what they hold; give up where the cluster is gone.

    Dask starts again what was lost with a worker. It waits forever where there is no worker, and
    for what was tied to one where all were lost at once: such futures are `IdleError`.

    Parameters
    ----------
    client : of the cluster.
    futures : what was asked.
    done : called now and then with how many of them are done.
    """
    from distributed.scheduler import KilledWorker

    watch = _Watch(client)
    with _still_there(client):
        fetching = asyncio.run_coroutine_threadsafe(
            client.gather(futures, asynchronous=True), client.loop.asyncio_loop
        )
        try:
            while not fetching.done():
                wait([fetching], timeout=LOOK_S)
                n_done = sum(future.done() for future in futures)
                if done is not None:
                    done(n_done)
                # What is done travels, which may take a while.
                if n_done < len(futures):
                    watch.look()
            found: list[Any] = fetching.result()
        except KilledWorker as error:
            raise EngineError(
                "Workers died one after the other over the same rows, most likely for lack of "
                "memory. Give them more, or smaller partitions."
            ) from error
    return found


class IdleError(EngineError):
    """Workers are there, and none of them works on anything although something was asked."""


class _Watch:
    """Looks now and then at what keeps a cluster from working, and for how long it has."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.trouble: str | None = None
        self.since = time.monotonic()

    def look(self) -> None:
        """Raise an error where a trouble has lasted too long; warn where workers are paused."""
        trouble, n_workers = self._find()
        if trouble != self.trouble:
            self.trouble, self.since = trouble, time.monotonic()
            if trouble == "paused":
                warn_user(
                    f"All {n_workers} workers of the cluster are paused: their memory is nearly "
                    f"full. The fit waits {PATIENCE_S:.0f} seconds for them.",
                    ClusterWarning,
                )
        lasted = time.monotonic() - self.since
        if trouble == "alone" and lasted > PATIENCE_S:
            raise EngineError(
                f"The cluster has had no worker for {PATIENCE_S:.0f} seconds, so nothing is "
                "summed. Add workers and fit again."
            )
        if trouble == "paused" and lasted > PATIENCE_S:
            raise EngineError(
                f"All {n_workers} workers of the cluster have been paused for {PATIENCE_S:.0f} "
                "seconds: their memory is nearly full. Give them more, or add workers."
            )
        if trouble == "idle" and lasted > IDLE_S:
            raise IdleError(
                f"A task is pending on the cluster, but none of its {n_workers} workers has "
                f"worked on anything for {IDLE_S:.0f} seconds: the task may be tied to workers "
                "that are gone. Create the frame again, without workers=, and fit again."
            )

    def _find(self) -> tuple[str | None, int]:
        workers = self.client.sync(self.client.scheduler.identity)["workers"]
        states = [worker["status"] for worker in workers.values()]
        if "running" not in states:
            # A worker that has just begun is not one yet.
            return "paused" if "paused" in states else "alone", len(workers)
        busy = any(self.client.processing().values())
        return None if busy else "idle", len(workers)


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
