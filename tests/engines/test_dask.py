"""Rows on the workers of a Dask cluster give the answer of rows in memory, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.engines import _cluster
from selfselect.engines import dask as dask_engine
from selfselect.errors import DataError, EngineError, OptionError, UnsupportedError
from selfselect.likelihoods import evaluate

dd = pytest.importorskip(
    "dask.dataframe", reason="Dask is not installed: pip install 'selfselect[dask]'"
)
dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'selfselect[dask]'")
distributed = pytest.importorskip(
    "distributed", reason="Dask is not installed: pip install 'selfselect[dask]'"
)

PARAMETERS, ERRORS = 1e-8, 1e-6
"""Agreement with rows in memory that every engine promises."""

FORMULA = "y ~ x1 + C(town)"


@pytest.fixture(scope="module")
def client():
    # A local cluster gives up on a worker that does not come back; a busy machine takes a while.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "120s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def small_groups(client, monkeypatch):
    """Make several groups of few rows; a cluster is there in every test."""
    assert client.status == "running"
    monkeypatch.setattr(dask_engine, "GROUP_ROWS", 300)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "x1": rng.standard_normal(2_000),
            "town": rng.choice(["aa", "bb", "cc"], 2_000),
            "w": rng.integers(1, 4, 2_000).astype(float),
            "group": rng.integers(60, size=2_000),
        }
    )
    latent = np.column_stack([0.5 + frame.x1, (frame.town == "bb") - 0.7 * frame.x1])
    latent += rng.standard_normal((2_000, 2))
    frame["y"], frame["job"] = latent.max(axis=1), np.array(["f", "h"])[latent.argmax(axis=1)]
    return frame


@pytest.fixture(scope="module")
def in_memory(table):
    return ss.fit(FORMULA, table, chosen="job", weights="w", cluster="group")


def partitioned(table, n=6):
    return dd.from_pandas(table, npartitions=n, sort=False)


def from_frames(frames):
    return dd.from_map(lambda i: frames[i], range(len(frames)), meta=frames[0].iloc[:0])


def errors_of(result):
    return np.sqrt(np.diag(result.cov_params()))


def agree(result, other):
    np.testing.assert_allclose(result.params, other.params, rtol=PARAMETERS, atol=PARAMETERS)
    np.testing.assert_allclose(errors_of(result), errors_of(other), rtol=ERRORS)


def same_bits(result, other):
    np.testing.assert_array_equal(result.params, other.params)
    np.testing.assert_array_equal(result.cov_params(), other.cov_params())
    assert result.llf == other.llf


def test_a_frame_is_fitted_as_in_memory(table, in_memory):
    result = ss.fit(FORMULA, partitioned(table), chosen="job", weights="w", cluster="group")
    agree(result, in_memory)
    assert len(result.engine.groups) == 6
    assert not result.has_rows
    with pytest.raises(UnsupportedError, match="on the workers of a cluster"):
        _ = result.rows


def test_files_are_fitted_as_in_memory(client, table, in_memory, tmp_path, monkeypatch):
    for i in range(3):
        part = table.iloc[i * 700 : (i + 1) * 700]
        part.to_parquet(tmp_path / f"{i}.parquet", row_group_size=250)
    engine = ss.engines.Dask(client)
    result = ss.fit(
        FORMULA, str(tmp_path / "*.parquet"), chosen="job", weights="w", cluster="group",
        engine=engine,
    )  # fmt: skip
    agree(result, in_memory)
    assert result.call == (
        "ss.fit(\n    'y ~ x1 + C(town)',\n    data,\n    chosen='job',\n    weights='w',\n"
        "    cluster='group',\n    engine=ss.engines.Dask(encoding=None),\n)"
    )
    # Workers may be in another folder than this process.
    monkeypatch.chdir(tmp_path)
    listed = [f"{i}.parquet" for i in range(3)]
    again = ss.fit(FORMULA, listed, chosen="job", weights="w", cluster="group", engine=engine)
    same_bits(again, result)


def test_it_does_not_matter_which_worker_has_what(client, table):
    frame = partitioned(table)
    dealt = ss.fit(FORMULA, frame, chosen="job", covariance="robust")
    first = sorted(client.nthreads())[0]
    kept = client.persist(frame, workers=[first])
    distributed.wait(kept)
    # Where the rows are; an idle worker may take over some of the coding.
    holders = {at[0] for at in client.who_has(distributed.futures_of(kept)).values()}
    assert holders == {first}
    on_one = ss.fit(FORMULA, kept, chosen="job", covariance="robust")
    same_bits(on_one, dealt)


def test_samples_of_a_bootstrap_are_summed_on_the_workers(table):
    options = {
        "chosen": "job", "covariance": ss.inference.Bootstrap(8), "cluster": "group", "seed": 3,
    }  # fmt: skip
    result = ss.fit("y ~ x1", partitioned(table, 3), **options)
    agree(result, ss.fit("y ~ x1", table, **options))


def test_the_unknown_index_is_searched_on_a_sample_and_polished_on_the_workers(table):
    options = {"alternatives": 2, "solver": ss.solvers.MaximumLikelihood(starts=2)}
    agree(ss.fit("y ~ x1", partitioned(table), **options), ss.fit("y ~ x1", table, **options))


def test_work_of_its_own_is_done_on_the_workers_in_order(table):
    fitted = ss.fit("y ~ x1", partitioned(table), chosen="job")
    offset = 10

    def where(number):
        return offset + number, os.getpid()

    found = list(fitted.engine.map(where, range(4)))
    assert [value for value, _ in found] == [10, 11, 12, 13]
    assert os.getpid() not in {process for _, process in found}


def test_rows_without_an_outcome_count_for_their_choice(table):
    silent = table.assign(y=table.y.where(np.arange(2_000) % 9 > 0))
    silent.loc[400:900, "y"] = np.nan
    options = {"chosen": "job", "missing_outcome": "silent"}
    result = ss.fit("y ~ x1", partitioned(silent), **options)
    agree(result, ss.fit("y ~ x1", silent, **options))
    assert result.engine.recorded().n_rows == silent.y.notna().sum()
    weight = result.engine.recorded().sum(lambda batch: float(len(batch)))
    assert weight == silent.y.notna().sum()


def test_a_checkpoint_spares_the_workers_what_is_known(table, tmp_path, monkeypatch):
    options = {"chosen": "job", "checkpoint": tmp_path / "fit.ckpt.json"}
    whole, passes, stop_at = dask_engine.RowsOnWorkers.sum, [], []

    def counted(engine, task):
        passes.append(1)
        if len(passes) in stop_at:
            raise KeyboardInterrupt
        return whole(engine, task)

    monkeypatch.setattr(dask_engine.RowsOnWorkers, "sum", counted)
    plain = ss.fit("y ~ x1", partitioned(table), **options)
    n_whole = len(passes)
    passes.clear()
    stop_at.append(3)
    with pytest.raises(KeyboardInterrupt):
        ss.fit("y ~ x1", partitioned(table), **options)
    other = table.assign(x1=table.x1.where(table.index != 77, 0.0))
    with pytest.raises(ss.errors.ArchiveError, match="differs in data"):
        ss.fit("y ~ x1", partitioned(other), **options)
    same_bits(ss.fit("y ~ x1", partitioned(table), **options), plain)
    assert len(passes) - 3 == n_whole - 2


def test_what_is_collected_keeps_the_order_of_the_rows(table):
    result = ss.fit("y ~ x1", partitioned(table), chosen="job")
    found = result.engine.collect(lambda batch: batch.rows.outcome)
    np.testing.assert_array_equal(found, table.y)
    factor = np.arange(2_000.0)
    weights = result.engine.reweighted(factor).collect(lambda batch: batch.rows.weights)
    np.testing.assert_array_equal(weights, factor)


def test_what_travels_does_not_grow_with_the_rows(table):
    small = ss.fit("y ~ x1", partitioned(table.iloc[:700], 2), chosen="job")
    large = ss.fit("y ~ x1", partitioned(table, 6), chosen="job")
    sent = []
    for result in (small, large):
        task = partial(
            evaluate, result.problem, result.problem.layout.natural(result.solution.free)
        )
        sent.append(len(result.engine.message(task)))
    assert abs(sent[1] - sent[0]) < 100
    assert sent[1] < 30_000


def test_empty_partitions_and_absent_alternatives_are_fine(table, in_memory):
    ordered = table.sort_values("job").reset_index(drop=True)
    frames = [ordered.iloc[:0], ordered.iloc[:500], ordered.iloc[500:500], ordered.iloc[500:]]
    result = ss.fit(FORMULA, from_frames(frames), chosen="job", weights="w", cluster="group")
    agree(result, in_memory)


def test_an_alternative_that_is_nowhere_is_an_error(table):
    only = table[table.job == "f"]
    with pytest.raises(DataError, match="Only one alternative occurs"):
        ss.fit("y ~ x1", partitioned(only, 2), chosen="job")
    with pytest.raises(DataError, match="There are no rows"):
        ss.fit("y ~ x1", from_frames([table.iloc[:0], table.iloc[:0]]), chosen="job")


def test_partitions_that_differ_are_named(table):
    lacking = [table.iloc[:500], table.iloc[500:].drop(columns="x1")]
    with pytest.raises(DataError, match=r"Partition 1 lacks a column that others have.*x1"):
        ss.fit("y ~ x1", from_frames(lacking), chosen="job")
    other_type = [table.iloc[:500], table.iloc[500:].assign(x1="tall")]
    with pytest.raises(DataError, match="'x1' holds text in partition 1 but numbers in the first"):
        ss.fit("y ~ x1", from_frames(other_type), chosen="job")


def test_a_partition_that_cannot_be_computed_is_named(table):
    def broken(i):
        if i == 2:
            raise OSError("the disk is gone")
        return table.iloc[i::3]

    frame = dd.from_map(broken, range(3), meta=table.iloc[:0])
    with pytest.raises(DataError, match=r"Partition 2 cannot be computed .*the disk is gone"):
        ss.fit("y ~ x1", frame, chosen="job")


def test_rows_that_cannot_be_used_are_named_with_their_partition(table):
    wrong = table.assign(y=table.y.where(np.arange(2_000) != 1_900))
    with pytest.raises(DataError, match=r"Partition 5: .*missing"):
        ss.fit("y ~ x1", partitioned(wrong), chosen="job")


@pytest.mark.parametrize("column", ["x1", "y", "town", "job"])
def test_a_frame_of_files_that_change_between_passes_is_refused(
    table, tmp_path, monkeypatch, column
):
    for i in range(3):
        table.iloc[i::3].to_parquet(tmp_path / f"{i}.parquet")
    frame, place = dd.read_parquet(tmp_path), dask_engine._place
    other = table.iloc[1::3].assign(**{column: table[column].iloc[1::3].to_numpy()[::-1]})
    other.loc[other.index[0], column] = {"town": "cc", "job": "h"}.get(column, 7.5)

    def meanwhile(problem, stream):
        other.to_parquet(tmp_path / "1.parquet")
        return place(problem, stream)

    monkeypatch.setattr(dask_engine, "_place", meanwhile)
    with pytest.raises(DataError, match=r"Partition \d: The rows are not those of the first pass"):
        ss.fit(FORMULA, frame, chosen="job")


def test_a_frame_that_is_drawn_anew_in_every_pass_is_refused(table):
    def drawn(i):
        noise = np.random.default_rng().standard_normal(500)
        return table.iloc[500 * i : 500 * (i + 1)].assign(x1=noise)

    frame = dd.from_map(drawn, range(4), meta=table.iloc[:0])
    with pytest.raises(DataError, match=r"has changed, or is random.*persist\(\) the frame first"):
        ss.fit("y ~ x1", frame, chosen="job")
    assert ss.fit("y ~ x1", frame.persist(), chosen="job").converged


def test_two_columns_of_one_name_are_refused(table):
    twice = partitioned(pd.concat([table, table[["x1"]]], axis=1))
    with pytest.raises(DataError, match="2 columns named 'x1'"):
        ss.fit("y ~ x1", twice, chosen="job")


def test_a_cluster_that_is_gone_is_said_to_be(table):
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    )
    client = distributed.Client(cluster, set_as_default=False)
    engine = ss.engines.Dask(client)
    result = ss.fit("y ~ x1", partitioned(table, 2), chosen="job", engine=engine)
    cluster.close()
    with pytest.raises(EngineError, match="The Dask cluster is gone"):
        result.engine.sum(lambda batch: float(len(batch)))
    client.close()
    with pytest.raises(EngineError, match="The Dask cluster is gone"):
        ss.fit("y ~ x1", partitioned(table, 2), chosen="job", engine=engine)


def test_a_cluster_without_workers_is_waited_for_only_so_long(table, monkeypatch):
    monkeypatch.setattr(_cluster, "PATIENCE_S", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.raises(EngineError, match="has had no worker"),
    ):
        ss.fit("y ~ x1", partitioned(table, 2), chosen="job", engine=ss.engines.Dask(client))


def test_without_a_cluster_the_error_says_how_to_start_one(table, monkeypatch):
    def none():
        raise ValueError("No global client found")

    monkeypatch.setattr(distributed, "get_client", none)
    with pytest.raises(EngineError, match=r"client = distributed.Client\(\)"):
        ss.fit("y ~ x1", partitioned(table), chosen="job")


def test_without_dask_the_error_has_the_install_line(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ss.errors.MissingDependencyError, match=r"pip install 'selfselect\[dask\]'"):
        ss.fit("y ~ x1", partitioned(table), chosen="job")


def test_other_tables_and_other_clients_are_refused(table):
    with pytest.raises(OptionError, match="not a DataFrame"):
        ss.fit("y ~ x1", table, chosen="job", engine=ss.engines.Dask())
    with pytest.raises(OptionError, match="client='here' is not possible"):
        ss.fit("y ~ x1", partitioned(table), chosen="job", engine=ss.engines.Dask("here"))


def test_other_data_does_not_import_dask():
    code = (
        "import sys, pandas as pd, selfselect as ss\n"
        "ss.engines.engine_for(pd.DataFrame()); ss.engines.engine_for('rows.parquet')\n"
        "sys.exit('dask' in sys.modules or 'distributed' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Watched:
    """A client whose scheduler says what workers are doing."""

    def __init__(self, *states, busy=False):
        self.states, self.busy, self.scheduler = states, busy, self

    def identity(self):
        return {"workers": {str(i): {"status": one} for i, one in enumerate(self.states)}}

    def sync(self, ask):
        return ask()

    def processing(self):
        return {"0": ("task",) if self.busy else ()}


def test_a_word_is_said_while_all_workers_are_paused_and_an_error_after_a_while(monkeypatch):
    watch = _cluster._Watch(Watched("paused", "paused"))
    with pytest.warns(ss.errors.ClusterWarning, match="All 2 workers of the cluster are paused"):
        watch.look()
    watch.look()  # once is enough
    monkeypatch.setattr(_cluster, "PATIENCE_S", 0.0)
    with pytest.raises(EngineError, match="All 2 workers of the cluster have been paused"):
        watch.look()
    watch.client = Watched("paused", "running", busy=True)
    watch.look()
    assert watch.trouble is None
    watch.client = Watched("closing")
    with pytest.raises(EngineError, match="The cluster has had no worker"):
        watch.look()
    monkeypatch.setattr(_cluster, "IDLE_S", 0.0)
    watch.client = Watched("running")
    with pytest.raises(_cluster.IdleError, match="none of its 1 workers has worked on anything"):
        watch.look()


def test_a_worker_that_stands_still_for_a_while_does_not_change_the_answer(table, monkeypatch):
    frame, passes, ask = partitioned(table), [], dask_engine.gather
    undisturbed = ss.fit(FORMULA, frame, chosen="job")

    def stop_in_the_second_pass(client, futures, done=None):
        passes.append(1)
        if len(passes) == 2:
            pid = sorted(client.run(os.getpid).items())[0][1]
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(0.5, os.kill, (pid, signal.SIGCONT)).start()
        return ask(client, futures, done)

    monkeypatch.setattr(dask_engine, "gather", stop_in_the_second_pass)
    same_bits(ss.fit(FORMULA, frame, chosen="job"), undisturbed)
    assert len(passes) > 3


# A worker that is started again takes seconds, so tests that kill one come last.


@pytest.fixture
def killing(monkeypatch):
    """Kill some workers in the second pass of the next fit; collect whom, and the passes."""
    passes, killed = [], []
    ask = dask_engine.gather

    def begin(n_workers=1):
        def kill_in_the_second_pass(client, futures, done=None):
            passes.append(1)
            if len(passes) == 2:
                for address, pid in sorted(client.run(os.getpid).items())[:n_workers]:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(address)
            return ask(client, futures, done)

        monkeypatch.setattr(dask_engine, "gather", kill_in_the_second_pass)
        return passes, killed

    return begin


def test_a_worker_that_is_killed_does_not_change_the_answer(client, table, killing):
    frame = partitioned(table)
    undisturbed = ss.fit(FORMULA, frame, chosen="job", covariance="robust")
    passes, killed = killing()
    disturbed = ss.fit(FORMULA, frame, chosen="job", covariance="robust")
    assert len(killed) == 1 and len(passes) > 3
    assert killed[0] not in client.nthreads()
    same_bits(disturbed, undisturbed)


def test_losing_all_workers_at_once_does_not_change_the_answer(client, table, killing, monkeypatch):
    monkeypatch.setattr(_cluster, "IDLE_S", 4.0)
    client.wait_for_workers(2)
    frame = partitioned(table)
    undisturbed = ss.fit(FORMULA, frame, chosen="job", covariance="robust")
    _, killed = killing(2)
    disturbed = ss.fit(FORMULA, frame, chosen="job", covariance="robust")
    assert len(killed) == 2 and not set(killed) & set(client.nthreads())
    same_bits(disturbed, undisturbed)


def test_rows_that_no_worker_may_have_are_given_up_on(client, table, monkeypatch):
    monkeypatch.setattr(_cluster, "IDLE_S", 1.0)
    frame = partitioned(table, 2)
    nowhere = client.persist(frame, workers=["tcp://127.0.0.1:1"])
    with pytest.raises(EngineError, match=r"none of its \d workers .* worked on anything"):
        ss.fit("y ~ x1", nowhere, chosen="job")


def test_rows_that_cannot_be_made_again_are_said_to_be_lost(client, table, killing):
    client.wait_for_workers(2)
    victim = sorted(client.nthreads())[0]
    scattered = client.scatter([table.iloc[i::4] for i in range(4)], workers=[victim])
    frame = dd.from_delayed(scattered, meta=table.iloc[:0])
    _, killed = killing()
    with pytest.raises(EngineError, match="Rows were lost with a worker"):
        ss.fit("y ~ x1", frame, chosen="job")
    assert killed == [victim]


def test_scales_that_move_are_fitted_as_in_memory(table):
    noise = ss.noises.Independent(scale="~ center(x1) + C(town)")
    whole = ss.fit("y ~ x1", table, chosen="job", noise=noise)
    agree(ss.fit("y ~ x1", partitioned(table), chosen="job", noise=noise), whole)


def test_people_of_one_partition_each_give_the_answer_of_memory(table):
    person = np.arange(len(table)) // 4
    data = table.assign(person=person, y=table["y"] + 2.0 * (person % 2))
    few, noise = ss.solvers.TypeSearch(starts=1), ss.noises.Types(2, "talent")
    told = {"chosen": "job", "panel": "person", "noise": noise, "solver": few}
    # Two partitions of whole people, then two whose border is within one.
    whole, apart = partitioned(data.iloc[:400], 2), partitioned(data.iloc[:404], 2)
    held, found = (ss.fit("y ~ x1", one, **told) for one in (data.iloc[:400], whole))
    assert found.llf == pytest.approx(held.llf, abs=1e-6)
    np.testing.assert_allclose(found.params, held.params, atol=1e-6)
    with pytest.raises(UnsupportedError, match=r"frame\.shuffle\('person'\)"):
        ss.fit("y ~ x1", apart, **told)
