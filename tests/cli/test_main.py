"""The shell: happy paths, formats, exit codes, and errors of one line."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.cli.main import main


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


Shell = Callable[..., Said]


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run the command in this process, as the script would."""

    def run(*arguments: object) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Said(int(stop.value.code or 0), said.out, said.err)

    return run


@pytest.fixture(scope="module")
def villagers() -> pd.DataFrame:
    table = ss.simulators.village(300, seed=3).data
    rng = np.random.default_rng(3)
    return table.assign(
        rent=rng.uniform(0, 2, len(table)),
        near=((table["job"] == "fishing") | (rng.uniform(size=len(table)) < 0.7)).astype(int),
        w=rng.integers(1, 4, len(table)).astype(float),
        hut=rng.integers(30, size=len(table)),
    )


@pytest.fixture
def table(villagers: pd.DataFrame, tmp_path: Path) -> Path:
    villagers.to_csv(tmp_path / "villagers.csv", index=False)
    return tmp_path / "villagers.csv"


@pytest.fixture
def saved(villagers: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "fit.json"
    ss.fit("income ~ height + weight", villagers, chosen="job").save(path)
    return path


FORMULA = "income ~ height + weight"


def test_fit_prints_the_summary_and_saves(
    shell: Shell, table: Path, villagers: pd.DataFrame, tmp_path: Path
) -> None:
    said = shell("fit", table, FORMULA, "--chosen", "job", "--save", tmp_path / "f.json")
    expected = ss.fit(FORMULA, villagers, chosen="job")
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{expected.summary()}\n"
    assert ss.load(tmp_path / "f.json").llf == expected.llf


@pytest.mark.parametrize("option", ["--save", "--report"])
def test_a_target_that_cannot_be_written_is_refused_before_the_fit(
    option: str, shell: Shell, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the model was fitted")

    monkeypatch.setattr(ss, "fit", never)
    said = shell("fit", table, FORMULA, "--chosen", "job", option, tmp_path / "none" / "f")
    assert said.code == 2
    assert "there is no folder" in said.err
    assert "The fit" not in said.err


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt", "parquet", "csv.gz"])
def test_every_kind_of_file_is_read(
    ending: str, shell: Shell, villagers: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / f"villagers.{ending}"
    if ending == "parquet":
        villagers.to_parquet(path)
    else:
        villagers.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    said = shell("fit", path, FORMULA, "--chosen", "job", "--format", "json")
    assert (said.code, said.err) == (0, "")
    llf = ss.fit(FORMULA, villagers, chosen="job").llf
    assert json.loads(said.out)["fit"]["llf"] == pytest.approx(llf, rel=1e-9)


SPREADSHEETS = (
    {"sep": ";", "decimal": ",", "encoding": "utf-8-sig"},
    {"sep": ";", "decimal": ","},
    {"sep": ";"},
)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("written", SPREADSHEETS)
def test_columns_may_be_separated_by_semicolons(
    written: dict[str, str], villagers: pd.DataFrame, tmp_path: Path, shell: Shell
) -> None:
    table = villagers.round(2)
    table.loc[3, "height"] = np.nan
    names = {"income": "income (€)"}
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    table.rename(columns=names).to_csv(plain, index=False)
    table.rename(columns=names).to_csv(other, index=False, **written)
    asked = ("`income (€)` ~ height + weight", "--chosen", "job", "--format", "csv")
    commas, semicolons = (shell("fit", one, *asked) for one in (plain, other))
    assert (commas.code, semicolons.code) == (0, 0)
    assert semicolons.out == commas.out
    said = "read with semicolons between columns"
    said += ", and decimal commas." if "decimal" in written else "."
    assert said in semicolons.err and "semicolons" not in commas.err


def test_decimals_written_in_two_ways_are_refused(tmp_path: Path, shell: Shell) -> None:
    mixed = tmp_path / "mixed.csv"
    mixed.write_text("a;b;c\n1,5;2.5;x\n2,5;3.5;y\n", encoding="utf-8")
    said = shell("fit", mixed, "a ~ b", "--chosen", "c")
    assert said.code == 2
    assert "Decimals have commas in some columns and points in others, such as 'b'" in said.err


def test_json_holds_every_number_in_full(shell: Shell, tmp_path: Path) -> None:
    sample = ss.simulators.hostile("huge", 500, seed=1)
    sample.data.to_parquet(tmp_path / "huge.parquet")
    said = shell("fit", tmp_path / "huge.parquet", sample.formula, "--chosen", "chosen",
                 "--format", "json")  # fmt: skip
    content = json.loads(said.out, parse_constant=pytest.fail)
    tidy = ss.fit(sample.formula, sample.data, chosen="chosen").tidy()
    for entry, row in zip(content["coefficients"], tidy.itertuples(), strict=True):
        assert (entry["alternative"], entry["term"]) == (row.alternative, row.term)
        assert entry["estimate"] == row.estimate
        assert entry["p_value"] is None if row.term == "scale" else entry["p_value"] == row.p_value
    assert content["fit"]["converged"] is True
    assert content["counts"] == sample.data["chosen"].value_counts().to_dict()


def test_csv_is_the_tidy_table(shell: Shell, table: Path, villagers: pd.DataFrame) -> None:
    said = shell("fit", table, FORMULA, "--chosen", "job", "--format", "csv", "--level", "0.9")
    expected = ss.fit(FORMULA, villagers, chosen="job").tidy(0.9)
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(said.out)), expected)
    assert len(list(csv.reader(io.StringIO(said.out)))) == 9


@pytest.mark.parametrize(
    ("form", "mark"), [("latex", r"\begin{tabular}"), ("markdown", "### "), ("html", "<table>")]
)
def test_pages_come_in_other_formats(form: str, mark: str, shell: Shell, saved: Path) -> None:
    said = shell("show", saved, "--format", form)
    assert said.code == 0
    assert mark in said.out


def test_every_option_of_fit_reaches_the_fit(
    shell: Shell, table: Path, villagers: pd.DataFrame
) -> None:
    said = shell(
        "fit", table, "--chosen", "job", "--rule", "max", "--scale", "common",
        "--equation", "hunting=income ~ height", "--equation", "fishing=income ~ weight",
        "--cost", "fishing=rent", "--cost", "hunting=1.5", "--available", "fishing=near",
        "--weights", "w", "--cluster", "hut", "--format", "json",
    )  # fmt: skip
    expected = ss.fit(
        {"hunting": "income ~ height", "fishing": "income ~ weight"},
        villagers,
        chosen="job",
        rule=ss.rules.Maximum(cost={"fishing": "rent", "hunting": 1.5}),
        available={"fishing": "near"},
        noise=ss.noises.Independent("common"),
        weights="w",
        cluster="hut",
    )
    content = json.loads(said.out)
    assert said.code == 0
    np.testing.assert_allclose(
        [entry["estimate"] for entry in content["coefficients"]], expected.params, rtol=1e-9
    )
    np.testing.assert_allclose(
        [entry["std_error"] for entry in content["coefficients"]], expected.bse, rtol=1e-9
    )
    assert content["fit"]["covariance"] == "clustered"


def test_labels_that_are_numbers_can_be_named(
    shell: Shell, villagers: pd.DataFrame, tmp_path: Path
) -> None:
    coded = villagers.assign(job=(villagers["job"] == "hunting").astype(int))
    coded.to_csv(tmp_path / "coded.csv", index=False)
    said = shell("fit", tmp_path / "coded.csv", "--chosen", "job",
                 "--equation", "1=income ~ height", "--equation", "0=income ~ weight")  # fmt: skip
    assert said.code == 0
    assert "1 (chosen in" in said.out


def test_show_and_compare_and_diagnose(shell: Shell, saved: Path) -> None:
    fit = ss.load(saved)
    said = shell("show", saved, "--compare", "--diagnose")
    assert said.code == 0
    assert said.out.startswith(str(fit.summary()))
    assert "Naive least squares and corrected estimates" in said.out
    assert str(fit.diagnose()) in said.out


@pytest.mark.parametrize("kind", ["latent", "chance", "outcome", "given_seen"])
def test_predict_writes_a_table(
    kind: str, shell: Shell, saved: Path, table: Path, villagers: pd.DataFrame, tmp_path: Path
) -> None:
    expected = ss.load(saved).predict(villagers, kind=kind)
    said = shell("predict", saved, table, "--kind", kind)
    assert said.code == 0
    found = pd.read_csv(io.StringIO(said.out))
    np.testing.assert_allclose(found.to_numpy().squeeze(), expected.to_numpy(), rtol=1e-9)
    if kind == "given_seen":
        assert list(found.columns)[:2] == ["fishing:fishing", "fishing:hunting"]
    out = tmp_path / "out.parquet"
    assert shell("predict", saved, table, "--kind", kind, "--out", out).code == 0
    assert list(pd.read_parquet(out).columns) == list(found.columns)


def test_predictions_of_numbered_alternatives_can_be_written_as_parquet(
    shell: Shell, villagers: pd.DataFrame, table: Path, tmp_path: Path
) -> None:
    coded = villagers.assign(job=(villagers["job"] == "hunting").astype(int))
    ss.fit(FORMULA, coded, chosen="job").save(tmp_path / "f.json")
    out = tmp_path / "out.parquet"
    assert shell("predict", tmp_path / "f.json", table, "--out", out).code == 0
    assert list(pd.read_parquet(out).columns) == ["0", "1"]


@pytest.mark.parametrize("name", ["village", "gaussian", "hostile"])
def test_simulate_writes_data_and_tells_the_truth(name: str, shell: Shell, tmp_path: Path) -> None:
    said = shell("simulate", name, "--rows", "50", "--seed", "4")
    table = pd.read_csv(io.StringIO(said.out))
    assert said.code == 0
    assert len(table) == 50
    assert "formula: " in said.err
    assert "scale" in said.err
    out = tmp_path / "sample.csv"
    assert shell("simulate", name, "--rows", "50", "--seed", "4", "--out", out).out == ""
    pd.testing.assert_frame_equal(pd.read_csv(out), table)


def test_demo_tells_the_whole_story(shell: Shell, tmp_path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    said = shell("demo", "--rows", "500", "--folder", tmp_path / "story")
    assert said.code == 0
    assert {file.name for file in (tmp_path / "story").iterdir()} == {
        "villagers.csv", "fit.json", "fit.html", "lines.png",
    }  # fmt: skip
    truth, answer = said.out.index("the truth is known"), said.out.index("What the fit says")
    assert truth < answer < said.out.index("Noise: normal")
    assert said.out.endswith(f"Now open {tmp_path / 'story' / 'fit.html'}\n")
    assert ss.load(tmp_path / "story" / "fit.json").converged
    matplotlib.pyplot.close("all")


# exit codes and errors


@pytest.mark.filterwarnings("default::selfselect.errors.ConvergenceWarning")
def test_a_fit_that_did_not_converge_has_its_own_code(
    shell: Shell, tmp_path: Path, villagers: pd.DataFrame
) -> None:
    # A category that only fishers have has no finite estimate for hunters.
    fishers = villagers.assign(rod=np.where(villagers["job"] == "fishing", villagers["near"], 0))
    fishers["rod"] *= np.arange(len(fishers)) % 2
    fishers.to_csv(tmp_path / "rods.csv", index=False)
    save = tmp_path / "fit.json"
    said = shell("fit", tmp_path / "rods.csv", "income ~ height + rod", "--chosen", "job",
                 "--save", save)  # fmt: skip
    assert said.code == 3
    assert said.err.startswith("warning: Not converged.")
    assert "! NOT CONVERGED" in said.out
    assert shell("show", save).code == 3


@pytest.mark.filterwarnings("default::selfselect.errors.MissingRowsWarning")
def test_warnings_are_one_line_on_standard_error(
    shell: Shell, villagers: pd.DataFrame, tmp_path: Path
) -> None:
    holes = villagers.copy()
    holes.loc[3, "height"] = np.nan
    holes.to_csv(tmp_path / "holes.csv", index=False)
    said = shell("fit", tmp_path / "holes.csv", FORMULA, "--chosen", "job")
    assert said.code == 0
    assert said.err.splitlines() == [
        "warning: 1 of 300 rows have a missing covariate (height: 1) and were left out."
    ]


BAD = {
    "no file": ("fit", "none.csv", FORMULA, "--chosen", "job"),
    "a folder": ("fit", ".", FORMULA, "--chosen", "job"),
    "no such column": ("fit", "{table}", "income ~ hieght", "--chosen", "job"),
    "no formula": ("fit", "{table}", "--chosen", "job"),
    "formula and equations": ("fit", "{table}", FORMULA, "--equation", "a=b ~ c"),
    "nothing chosen": ("fit", "{table}", FORMULA),
    "no such rule": ("fit", "{table}", FORMULA, "--chosen", "job", "--rule", "best"),
    "no such scale": ("fit", "{table}", FORMULA, "--chosen", "job", "--scale", "some"),
    "cost of nothing": ("fit", "{table}", FORMULA, "--chosen", "job", "--cost", "fishing"),
    "cost that is no number": ("fit", "{table}", FORMULA, "--chosen", "job", "--cost",
                               "fishing=nan"),
    "cost twice": ("fit", "{table}", FORMULA, "--chosen", "job", "--cost", "fishing=1",
                   "--cost", "fishing=2"),
    "no level": ("fit", "{table}", FORMULA, "--chosen", "job", "--level", "95"),
    "code": ("fit", "{table}", "income ~ I(__import__('os').getpid())", "--chosen", "job"),
    "nowhere to save": ("fit", "{table}", FORMULA, "--chosen", "job", "--save", "no/such/f.json"),
    "no saved fit": ("show", "{table}"),
    "nothing to show": ("show", "none.json"),
    "no data to predict": ("predict", "{saved}", "none.csv"),
    "nowhere to predict to": ("predict", "{saved}", "{table}", "--out", "no/such/out.csv"),
    "no such kind": ("predict", "{saved}", "{table}", "--kind", "mean"),
    "no such simulation": ("simulate", "city"),
    "no such hostility": ("simulate", "hostile", "--kind", "friendly"),
    "no rows": ("simulate", "village", "--rows", "0"),
    "no such command": ("estimate",),
    "no such option": ("fit", "--what"),
    "no such column to predict": ("predict", "{saved}", "{narrow}"),
    "no folder": ("demo", "--folder", "{table}/inside"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_on_standard_error_and_code_2(
    case: str, shell: Shell, table: Path, saved: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"height": [170.0]}).to_csv("narrow.csv", index=False)
    files = {"table": table, "saved": saved, "narrow": "narrow.csv"}
    said = shell(*(part.format(**files) if "{" in part else part for part in BAD[case]))
    assert said.code == 2
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    assert said.out == "" or case == "nowhere to save"


@pytest.fixture
def folders_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a folder that is not there seem to have been there before the fit."""
    monkeypatch.setattr("selfselect.cli._tables.refuse_target", lambda _: None)


@pytest.mark.usefixtures("folders_vanish")
def test_a_fit_that_cannot_be_saved_is_printed_all_the_same(
    shell: Shell, table: Path, tmp_path: Path
) -> None:
    said = shell("fit", table, FORMULA, "--chosen", "job", "--save", tmp_path / "no" / "f.json")
    assert said.code == 2
    assert "Linear regression under self-selection" in said.out
    assert "could not be saved" in said.err


def test_an_internal_error_is_one_line_too(
    shell: Shell, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("ouch")

    monkeypatch.setattr("selfselect.results.archive.load", broken)
    monkeypatch.setattr(ss, "load", broken)
    said = shell("show", saved)
    assert said.code == 1
    assert said.err.startswith("internal error: ZeroDivisionError: ouch")
    assert said.err.count("\n") == 1


# help and weight


@pytest.mark.parametrize(
    "command", [(), ("fit",), ("predict",), ("show",), ("simulate",), ("demo",)]
)
def test_every_command_has_help(command: tuple[str, ...], shell: Shell) -> None:
    said = shell(*command, "--help")
    assert said.code == 0
    assert "Usage: selfselect" in said.out
    if command in ((), ("fit",)):
        assert "Examples:" in said.out
        assert "Exit codes: 0 the fit converged" in said.out


def test_without_a_command_help_is_shown(shell: Shell) -> None:
    said = shell()
    assert said.code == 2
    assert "Usage: selfselect" in said.out + said.err


def test_the_version_is_told(shell: Shell) -> None:
    assert ss.__version__ in shell("--version").out


@pytest.mark.parametrize("module", ["selfselect", "selfselect.cli.main"])
def test_importing_the_doors_loads_nothing_heavy(module: str) -> None:
    code = (
        f"import sys, {module}; "
        "heavy = {'numpy', 'pandas', 'scipy', 'formulaic', 'sklearn', 'matplotlib'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_script_runs_as_a_module(table: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "selfselect", "fit", str(table), FORMULA, "--chosen", "no"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: There is no column 'no'")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m selfselect simulate village --rows 20000 2>/dev/null | head -1",
        shell=True, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout == "height,weight,income,job\n"
    assert done.stderr == ""


# the chosen alternative was not recorded


@pytest.fixture(scope="module")
def market() -> pd.DataFrame:
    return ss.simulators.market(400, seed=1).data


@pytest.fixture
def market_file(market: pd.DataFrame, tmp_path: Path) -> Path:
    market.to_csv(tmp_path / "market.csv", index=False, float_format="%.17g")
    return tmp_path / "market.csv"


def test_alternatives_without_names_are_fitted(
    shell: Shell, table: Path, villagers: pd.DataFrame, tmp_path: Path
) -> None:
    saved = tmp_path / "f.json"
    said = shell("fit", table, FORMULA, "--alternatives", 2, "--seed", 1, "--save", saved)
    expected = ss.fit(FORMULA, villagers, alternatives=2, seed=1)
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{expected.summary()}\n"
    assert "unknown index" in said.out
    shown = shell("show", saved)
    assert (shown.code, shown.out) == (0, said.out)
    predicted = shell("predict", saved, table, "--kind", "chance")
    assert predicted.code == 0


def test_named_equations_need_no_chosen_column(
    shell: Shell, market_file: Path, market: pd.DataFrame
) -> None:
    equations = {"demand": "quantity ~ rate + stock", "supply": "quantity ~ rate + deposits"}
    options = [
        part for name, text in equations.items() for part in ("--equation", f"{name}={text}")
    ]
    said = shell("fit", market_file, *options, "--rule", "min", "--compare")
    assert said.code == 0
    assert str(ss.fit(equations, market, rule="min").summary()) in said.out
    assert "demand (expected share of rows" in said.out
    common = shell("fit", market_file, *options, "--rule", "min", "--scale", "each")
    assert "one scale per alternative" in " ".join(common.out.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((FORMULA,), "Neither --chosen nor --alternatives is given"),
        ((FORMULA, "--alternatives", 1), "least squares"),
        ((FORMULA, "--alternatives", 100), "100 alternatives have 300 coefficients"),
        (
            (FORMULA, "--alternatives", 2, "--chosen", "job"),
            "Both --chosen job",
        ),
        ((FORMULA, "--alternatives", "two"), "not a valid integer"),
        (("--equation", "a=income ~ height", "--equation", "b=income ~ height"), "same covariates"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    options: tuple[object, ...], words: str, shell: Shell, table: Path
) -> None:
    said = shell("fit", table, *options)
    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert said.err.count("\n") == 1


def test_choose_prints_the_table_and_the_reason(shell: Shell, tmp_path: Path) -> None:
    data = ss.simulators.gaussian(500, 2, 2, norm=2.5, seed=1).data
    data.to_csv(tmp_path / "d.csv", index=False, float_format="%.17g")
    said = shell("choose", tmp_path / "d.csv", "outcome ~ x1 + x2", "--range", "1:2", "--seed", 1)
    assert said.code == 0
    expected = ss.choose_alternatives("outcome ~ x1 + x2", data, [1, 2], seed=1)
    assert said.out == f"{expected}\n"
    assert "2 alternatives have the smallest BIC" in said.out


@pytest.mark.parametrize("span", ["1", "2:1", "a:b", "1:", ":3", "-1:2", "1:2:3"])
def test_choose_refuses_ranges_that_are_none(span: str, shell: Shell, table: Path) -> None:
    said = shell("choose", table, FORMULA, f"--range={span}")
    assert said.code == 2
    assert "--range takes LOW:HIGH" in said.err
    zero = shell("choose", table, FORMULA, "--range", "0:2")
    assert zero.code == 2
    assert "from 1 on" in zero.err


@pytest.mark.parametrize("name", ["market", "auction"])
def test_new_samples_can_be_written(name: str, shell: Shell) -> None:
    said = shell("simulate", name, "--rows", 20, "--seed", 3)
    assert said.code == 0
    assert len(said.out.splitlines()) == 21
    assert "formula:" in said.err


def test_a_report_shows_the_command_that_made_it(shell: Shell, table: Path, tmp_path: Path) -> None:
    target = tmp_path / "fit.html"
    words = ("fit", table, "income ~ height", "--chosen", "job", "--report", target)
    assert shell(*words).code == 0
    text = unescape(target.read_text(encoding="utf-8"))
    assert f"selfselect fit {table} 'income ~ height' --chosen job" in text


@pytest.mark.usefixtures("folders_vanish")
def test_a_report_that_cannot_be_written_leaves_the_fit(
    shell: Shell, table: Path, tmp_path: Path
) -> None:
    words = ("fit", table, "income ~ height", "--chosen", "job", "--save", tmp_path / "fit.json")
    said = shell(*words, "--report", tmp_path / "nowhere" / "fit.html")
    assert said.code == 2
    assert "Linear regression under self-selection" in said.out
    assert "The report could not be written" in said.err and said.err.count("\n") == 1
    said = shell("show", tmp_path / "fit.json", "--report", tmp_path / "fit.html")
    assert said.code == 0
    assert "which keeps no rows" in (tmp_path / "fit.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("noise", ["correlated", "shared-shock", "independent"])
def test_noise_has_a_name_and_a_scale(
    noise: str, shell: Shell, table: Path, villagers: pd.DataFrame
) -> None:
    said = shell("fit", table, FORMULA, "--chosen", "job", "--noise", noise, "--scale", "12")
    made = ss.noises.as_noise(noise)
    expected = ss.fit(FORMULA, villagers, chosen="job", noise=replace(made, scale=12.0))
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{expected.summary()}\n"


def test_types_and_panels_come_from_the_shell(
    shell: Shell, villagers: pd.DataFrame, tmp_path: Path
) -> None:
    rows = villagers.assign(person=np.arange(len(villagers)) // 4)
    rows["income"] += 30.0 * (rows["person"] % 2)
    rows.to_csv(tmp_path / "rows.csv", index=False, float_format="%.17g")
    words = ("fit", tmp_path / "rows.csv", FORMULA, "--chosen", "job", "--seed", "0")
    said = shell(*words, "--noise", "types", "--types", "2", "--panel", "person")
    noise = ss.noises.Types(2)
    expected = ss.fit(FORMULA, rows, chosen="job", noise=noise, panel="person", seed=0)
    assert said.out == f"{expected.summary()}\n"
    refused = shell(*words, "--types", "2")
    assert refused.code == 2
    assert "--types and --type-costs go with --noise types" in refused.err


def test_estimated_costs_and_rows_that_lack_something_come_from_the_shell(
    shell: Shell, villagers: pd.DataFrame, tmp_path: Path
) -> None:
    lacking = villagers.assign(cap=95.0, may=1)
    lacking.loc[lacking["income"] > 95.0, "income"] = np.nan
    lacking.loc[:9, "job"] = None
    lacking.to_csv(tmp_path / "lacking.csv", index=False, float_format="%.17g")
    said = shell(
        "fit", tmp_path / "lacking.csv", FORMULA, "--chosen", "job", "--cost", "fishing=~ rent - 1",
        "--cost", "hunting=0.5", "--outcome-between", "cap", "-", "--possible", "fishing=may",
    )  # fmt: skip
    expected = ss.fit(
        FORMULA, lacking, chosen="job", cost={"fishing": "~ rent - 1", "hunting": 0.5},
        outcome_between=("cap", None), possible={"fishing": "may"},
    )  # fmt: skip
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{expected.summary()}\n"
    assert "cost: rent" in said.out
    silent = shell("fit", tmp_path / "lacking.csv", FORMULA, "--chosen", "job",
                   "--possible", "fishing=may", "--missing-outcome", "silent")  # fmt: skip
    assert "rows have no recorded outcome; they contribute what is known about it" in " ".join(
        silent.out.split()
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--noise", "loud"), "'loud'"),
        (("--outcome-between", "nowhere", "-"), "no column 'nowhere'"),
        (("--outcome-between", "5", "4", "--missing-outcome", "drop"), "Give one of the two"),
        (("--possible", "fishing"), "--possible takes ALTERNATIVE="),
        (("--cost", "fishing=rent ~ w"), "must begin with '~'"),
        (("--noise", "correlated", "--scale", "-1"), "positive number"),
    ],
)
def test_joined_options_that_make_no_sense_are_one_line(
    options: tuple[object, ...], words: str, shell: Shell, table: Path
) -> None:
    said = shell("fit", table, FORMULA, "--chosen", "job", *options)
    assert (said.code, said.out) == (2, "")
    assert words in said.err and said.err.count("\n") == 1


def test_outcomes_are_mixed_before_the_largest_is_seen(shell: Shell, tmp_path: Path) -> None:
    rule = ss.rules.LinearArgmax({"b": {"a": 0.4}})
    sample = ss.simulators.gaussian(200, 1, 2, rule=rule, seed=1)
    sample.data.to_csv(tmp_path / "rows.csv", index=False)
    asked = ["fit", tmp_path / "rows.csv", "outcome ~ x1", "--chosen", "chosen", "--scale", "1"]
    said = shell(*map(str, asked), "--mix", "b=a:0.4", "--format", "json")
    assert said.code == 0
    options = {"chosen": "chosen", "rule": rule, "noise": ss.noises.Independent(1.0)}
    expected = ss.fit("outcome ~ x1", sample.data, **options)
    assert f"{expected.values[0]:.6f}"[:7] in said.out
    assert shell(*map(str, asked), "--mix", "b=a").code == 2
    assert shell(*map(str, asked), "--mix", "b=a:0.4", "--rule", "min").code == 2
