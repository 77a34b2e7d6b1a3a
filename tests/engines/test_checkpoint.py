"""A fit that was killed goes on where it stopped, and ends with the same numbers."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import selfselect as ss
from selfselect.cli.main import main
from selfselect.engines import checkpoint, memory, parquet
from selfselect.engines.checkpoint import digest
from selfselect.errors import ArchiveError, SelfSelectWarning, UnsupportedError
from selfselect.inference import sandwich
from selfselect.inference.dependence import ClusterTotals
from selfselect.likelihoods import Evaluation
from selfselect.plain import from_plain, to_plain
from selfselect.problem.batch import Parts

FORMULA = "income ~ height + weight"


@pytest.fixture(scope="module")
def villagers():
    return ss.simulators.village(1_500, seed=4).data


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.ckpt.json"


class Stop(BaseException):
    """Ends a fit as abruptly as an exception can."""


@pytest.fixture
def passes(monkeypatch):
    """Count sums over rows that are really done; stop before the one numbered `stop_at`."""

    class Passes:
        done = 0
        stop_at = 10**9

    whole = memory.RowsInMemory.sum

    def counted(self, task):
        if Passes.done == Passes.stop_at:
            raise Stop
        Passes.done += 1
        return whole(self, task)

    monkeypatch.setattr(memory.RowsInMemory, "sum", counted)
    return Passes


def same_bits(result, other):
    np.testing.assert_array_equal(result.params, other.params)
    np.testing.assert_array_equal(result.cov_params(), other.cov_params())
    assert result.llf == other.llf and result.solution.ending == other.solution.ending
    assert result.solution.n_passes == other.solution.n_passes
    assert result.call == other.call


CASES = {
    "known": {"chosen": "job", "covariance": "robust"},
    "unknown": {"alternatives": 2, "solver": ss.solvers.MaximumLikelihood(starts=2)},
    "correlated": {"chosen": "job", "noise": ss.noises.Correlated()},
    "bootstrap": {"chosen": "job", "covariance": ss.inference.Bootstrap(8), "seed": 5},
}


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_changes_no_number_and_is_removed(villagers, path, case):
    options = CASES[case]
    plain = ss.fit(FORMULA, villagers, **options)
    same_bits(ss.fit(FORMULA, villagers, **options, checkpoint=path), plain)
    assert not path.exists()


@pytest.mark.parametrize("case", CASES)
def test_a_fit_goes_on_where_it_was_stopped(villagers, path, passes, case):
    options = CASES[case]
    plain = ss.fit(FORMULA, villagers, **options)
    n_whole, passes.done = passes.done, 0
    passes.stop_at = n_whole - 1
    with pytest.raises(Stop):
        ss.fit(FORMULA, villagers, **options, checkpoint=path)
    kept = path.read_text().count("\n") - 1
    assert kept >= 1
    passes.done, passes.stop_at = 0, 10**9
    same_bits(ss.fit(FORMULA, villagers, **options, checkpoint=path), plain)
    # Samples of a bootstrap are kept whole: each saves the passes of its fit.
    assert passes.done <= n_whole - kept
    assert not path.exists()


KILLED = """
    import os, signal, sys
    import selfselect as ss
    from selfselect.engines import parquet

    whole, passes = parquet.RowsInPieces.sum, []

    def deadly(self, task):
        passes.append(1)
        if len(passes) == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(self, task)

    parquet.RowsInPieces.sum = deadly
    result = ss.fit(
        "income ~ height + weight", sys.argv[1], chosen="job", covariance="robust",
        checkpoint=sys.argv[2],
    )
    print(len(passes))
    result.save(sys.argv[2] + ".result")
"""


def test_a_process_killed_in_the_middle_resumes_to_the_same_bits(villagers, tmp_path, monkeypatch):
    data, kept = str(tmp_path / "rows.parquet"), str(tmp_path / "fit.ckpt.json")
    villagers.to_parquet(data)
    run = [sys.executable, "-c", textwrap.dedent(KILLED), data, kept]
    killed = subprocess.run([*run, "3"], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert not os.path.exists(kept + ".result")
    with open(kept, "ab") as file:
        file.write(b'{"what": "pass 2", "asked": "torn in the mid')
    resumed = subprocess.run([*run, "1000"], check=True, capture_output=True, text=True)
    whole, n_passes = parquet.RowsInPieces.sum, []

    def counted(self, task):
        n_passes.append(1)
        return whole(self, task)

    monkeypatch.setattr(parquet.RowsInPieces, "sum", counted)
    plain = ss.fit(FORMULA, data, chosen="job", covariance="robust")
    assert int(resumed.stdout) == len(n_passes) - 2
    same_bits(ss.load(kept + ".result"), plain)
    assert not os.path.exists(kept)


def interrupt(*_):
    raise KeyboardInterrupt


def test_an_interrupt_leaves_a_checkpoint_and_no_result(villagers, path, tmp_path, monkeypatch):
    plain = ss.fit(FORMULA, villagers, chosen="job", covariance="robust")
    with monkeypatch.context() as patched:
        patched.setattr(sandwich, "_row_products", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ss.fit(FORMULA, villagers, chosen="job", covariance="robust", checkpoint=path).save(
                tmp_path / "fit.json"
            )
    assert sorted(tmp_path.iterdir()) == [path]
    resumed = ss.fit(FORMULA, villagers, chosen="job", covariance="robust", checkpoint=path)
    same_bits(resumed, plain)


def stopped(passes, *arguments, at=1, **options):
    passes.done, passes.stop_at = 0, at
    with pytest.raises(Stop):
        ss.fit(*arguments, **options)
    passes.stop_at = 10**9


def test_the_checkpoint_of_another_fit_is_refused_and_kept(villagers, path, passes):
    stopped(passes, FORMULA, villagers, at=2, chosen="job", checkpoint=path)
    before = path.read_bytes()
    other = villagers.assign(height=villagers.height.where(villagers.index != 700, 0.0))
    for data, options, differs in [
        (other, {}, "data"),
        (villagers, {"rule": "min"}, "model"),
        (villagers, {"seed": 1}, "options"),
        (villagers, {"covariance": "robust"}, "options"),
        (villagers, {"solver": ss.solvers.Newton(tol=1e-9)}, "options"),
    ]:
        with pytest.raises(ArchiveError, match=rf"another fit: it differs in .*{differs}.*Delete"):
            ss.fit(FORMULA, data, chosen="job", checkpoint=path, **options)
    assert path.read_bytes() == before
    assert ss.fit(FORMULA, villagers, chosen="job", checkpoint=path).converged


def test_other_files_are_neither_used_nor_harmed(villagers, path):
    for content in [b"a,b\n1,2\n", b'{"format": 7, "about": {}}\n', b"notes", b'{"a": 1}\n']:
        path.write_bytes(content)
        with pytest.raises(ArchiveError, match=r"another name|another fit"):
            ss.fit(FORMULA, villagers, chosen="job", checkpoint=path)
        assert path.read_bytes() == content


def test_a_file_damaged_in_the_middle_is_refused(villagers, path, passes):
    stopped(passes, FORMULA, villagers, at=3, chosen="job", checkpoint=path)
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1][:40]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(ArchiveError, match="damaged in line 2"):
        ss.fit(FORMULA, villagers, chosen="job", checkpoint=path)


def test_a_path_that_leaves_the_kept_one_is_said_and_goes_on_alone(villagers, path, passes):
    plain = ss.fit(FORMULA, villagers, chosen="job")
    stopped(passes, FORMULA, villagers, at=4, chosen="job", checkpoint=path)
    lines = path.read_text().splitlines()
    assert len(lines) > 3
    entry = json.loads(lines[2])
    lines[2] = json.dumps(entry | {"asked": "something else"})
    path.write_text("\n".join(lines) + "\n")
    with pytest.warns(SelfSelectWarning, match="differs from this fit at pass 1"):
        same_bits(ss.fit(FORMULA, villagers, chosen="job", checkpoint=path), plain)


def test_a_place_that_cannot_be_written_is_refused_before_any_pass(villagers, tmp_path, passes):
    for place in (tmp_path / "no" / "fit.ckpt.json", tmp_path):
        with pytest.raises(ArchiveError, match=r"cannot be written: .*Choose another place"):
            ss.fit(FORMULA, villagers, chosen="job", checkpoint=place)
    assert passes.done == 0


def test_a_full_disk_warns_once_and_the_fit_goes_on(villagers, path, monkeypatch):
    plain, sync, n_synced = ss.fit(FORMULA, villagers, chosen="job"), os.fsync, []

    def full(number):
        n_synced.append(number)
        if len(n_synced) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(number)

    monkeypatch.setattr(checkpoint.os, "fsync", full)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = ss.fit(FORMULA, villagers, chosen="job", checkpoint=path)
    assert [str(one.message) for one in said if "No space left" in str(one.message)]
    assert len(said) == 1
    same_bits(result, plain)


def test_two_fits_do_not_share_a_file(villagers, path, passes):
    stopped(passes, FORMULA, villagers, at=2, chosen="job", checkpoint=path)
    with path.open("a+b") as other:
        checkpoint._take_alone(other, path)
        with pytest.raises(ArchiveError, match="in use by another fit"):
            ss.fit(FORMULA, villagers, chosen="job", checkpoint=path)


def test_solvers_that_keep_more_than_sums_refuse_a_checkpoint(villagers, path):
    with pytest.raises(UnsupportedError, match="keeps Markov chains"):
        ss.fit(
            FORMULA, villagers, chosen="job", checkpoint=path, solver=ss.solvers.MonteCarloNewton()
        )
    assert not path.exists()


def test_the_command_line_resumes_too(villagers, path, tmp_path, passes):
    table = tmp_path / "rows.csv"
    villagers.to_csv(table, index=False)
    command = ["fit", str(table), FORMULA, "--chosen", "job", "--checkpoint", str(path)]
    passes.stop_at = 2
    with pytest.raises(Stop):
        main(command)
    assert path.exists()
    passes.done, passes.stop_at = 0, 10**9
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 0
    assert not path.exists()


def odd_sums():
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((3, 4))
    yield 0.1 + 0.2
    yield float("nan")
    yield -np.inf
    yield np.float64(1e-310)
    yield 7
    yield Parts((matrix, np.asfortranarray(matrix), matrix.T, 3.0, np.zeros((0, 2))))
    yield Evaluation(-1.5, np.array([np.nan, np.inf, -0.0]), matrix @ matrix.T)
    yield Parts([ClusterTotals(np.array([3, 9], dtype=np.intp), np.ones(2), matrix[:2])])
    yield (None, [np.bool_(True), "text"])
    many = rng.standard_normal((200, 90))
    yield Parts((many, np.asfortranarray(many), many[:, ::2].copy(), np.full(20_000, np.nan)))


@pytest.mark.parametrize("value", list(odd_sums()), ids=lambda value: type(value).__name__)
def test_sums_come_back_to_the_last_bit_and_in_the_same_layout(value):
    back = from_plain(json.loads(json.dumps(to_plain(value, exact=True), allow_nan=False)))
    alike(back, value)


def alike(back, value):
    assert type(back) is type(value)
    if isinstance(value, np.ndarray):
        assert back.dtype == value.dtype and back.shape == value.shape
        assert np.isfortran(back) == np.isfortran(value)
        assert back.tobytes() == value.tobytes()
    elif isinstance(value, tuple | list):
        assert len(back) == len(value)
        for one, other in zip(back, value, strict=True):
            alike(one, other)
    elif isinstance(value, Evaluation | ClusterTotals):
        for name, inside in vars(value).items():
            alike(getattr(back, name), inside)
    else:
        assert back == value or (np.isnan(back) and np.isnan(value))


def test_what_no_package_of_ours_made_is_not_built_from_a_file():
    for name in ("os:system", "selfselect._fit:fit", "selfselect.__main__:x", "evaluation/9", None):
        with pytest.raises(ArchiveError, match="does not know"):
            from_plain({"is": name, "fields": {}})


def test_hashes_know_what_matters_and_nothing_else(villagers):
    rows = ss.fit(FORMULA, villagers, chosen="job").rows
    assert digest(rows) == digest(replace(rows, covariates=rows.covariates.copy(order="F")))
    moved = rows.covariates.copy()
    moved[700, 1] = np.nextafter(moved[700, 1], np.inf)
    assert digest(rows) != digest(replace(rows, covariates=moved))
    assert digest(partial(max, 1)) != digest(partial(max, 2)) != digest(partial(min, 2))
    assert digest(lambda x: x + 1) != digest(lambda x: x + 2)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2, "b": 1})
    large = np.zeros((400_000, 3))
    one = large.copy()
    one[1, 1] = 1.0
    assert digest(large) != digest(one)
    large[5], one[5] = np.nan, np.nan
    assert digest(large) != digest(one)
