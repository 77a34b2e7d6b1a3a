"""Progress bars appear after seconds, and leave nothing behind."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import selfselect as ss
from selfselect import progress
from selfselect.data.tables import read_csv
from selfselect.progress import progress_bar


def test_what_is_done_at_once_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(True, what="Steps") as bar:
        for step in range(5):
            bar.set_postfix_str(f"step {step}")
            bar.update(1)
    assert not capsys.readouterr().err


def test_a_fit_that_takes_milliseconds_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    sample = ss.simulators.village(200, seed=1)
    ss.fit(sample.formula, sample.data, chosen="job", progress=True)
    assert not capsys.readouterr().err


def test_what_takes_longer_shows_its_text_and_is_wiped_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.05)
    with progress_bar(True, what="Steps", total=3) as bar:
        for step in range(3):
            time.sleep(0.15)  # longer than the patience, and than tqdm waits between two drawings
            bar.update(1)
            bar.set_postfix_str(f"step {step}")
    shown = capsys.readouterr().err
    assert "Steps" in shown and "step 2" in shown
    assert not shown.rsplit("\r", 2)[1].strip()


def test_there_is_no_bar_where_standard_error_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    with progress_bar(None, what="Steps", total=1) as bar:
        bar.set_postfix_str("now")
        bar.update(1)
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("ask", "bar"),
    [
        (lambda fit: fit.marginal_effects(), "Averages:"),
        (lambda fit: fit.counterfactual(close=["fishing"]), "Averages:"),
        (lambda fit: fit.gains("hunting", "fishing", draws=5_000), "Simulations:"),
    ],
    ids=["marginal effects", "a closure", "gains"],
)
def test_effects_over_many_rows_show_how_far_they_are(
    ask: Any, bar: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    sample = ss.simulators.village(20_000, seed=1)
    fit = ss.fit(sample.formula, sample.data, chosen="job")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE_S", 1e6)
    ask(fit)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    ask(fit)
    assert bar in terminal.getvalue()
    assert not terminal.getvalue().rsplit("\r", 2)[1].strip()


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_reading_a_csv_file_shows_how_far_it_is(
    packed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    table = ss.simulators.village(30_000, seed=1).data
    path = tmp_path / f"villagers.csv{packed}"
    table.to_csv(path, index=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE_S", 1e6)
    read_csv(path, None, [])
    assert terminal.getvalue() == ""
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    pd.testing.assert_frame_equal(read_csv(path, None, []), table)
    assert f"Reading villagers.csv{packed}:" in terminal.getvalue()
    assert not terminal.getvalue().rsplit("\r", 2)[1].strip()
