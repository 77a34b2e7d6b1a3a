"""Damaged and hostile saved fits: each is one clear error, and nothing in it is run."""

from __future__ import annotations

import copy
import importlib
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import ArchiveError
from selfselect.plain import CLASSES, from_plain, to_plain
from selfselect.problem.batch import Evaluation, Parts
from selfselect.results.archive import sealed

HUGE = 10**400
SURROGATE = "\ud800"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return the contents of a few saved fits."""
    folder = tmp_path_factory.mktemp("saved")
    table = ss.simulators.village(300, seed=5).data
    table = table.assign(clan=np.array(["bear", "elk", "owl"])[table.index % 3])
    fits = {
        "plain": ss.fit("income ~ height + weight", table, chosen="job"),
        "coded": ss.fit(
            "np.log(income) ~ clan + center(weight)", table, chosen="job", cost={"hunting": 0.1}
        ),
        "correlated": ss.fit("income ~ height", table, chosen="job", noise=ss.noises.Correlated()),
        "ranked": ss.fit("income ~ height", table, chosen="job", rule=ss.rules.Ranked(2)),
        "transforms": ss.fit(
            "income ~ height", table, chosen="job", rule=ss.rules.MonotoneArgmax({"hunting": 0.9})
        ),
    }
    tender = ss.simulators.tender(200, seed=1).data
    fits["long"] = ss.fit(
        "bid ~ distance", tender, case="tender", alternatives="firm", chosen="won", shared="all",
        rule="min",
    )  # fmt: skip
    contents = {}
    for name, fit in fits.items():
        fit.save(folder / f"{name}.json")
        contents[name] = json.loads((folder / f"{name}.json").read_text())
    return contents


def put(content: Any, path: str, value: Any) -> None:
    """Put a value at a path such as ``solution/free/array/0``."""
    *above, last = path.split("/")
    for step in above:
        content = content[int(step) if isinstance(content, list) else step]
    content[int(last) if isinstance(content, list) else last] = value


DROP = object()

AT: dict[str, tuple[str, str, Any]] = {
    # what is missing
    "no problem": ("plain", "problem", DROP),
    "no coding": ("plain", "coding", DROP),
    "no solution": ("plain", "solution", DROP),
    "no parameters": ("plain", "solution/free", DROP),
    "no covariance": ("plain", "covariance", DROP),
    "no facts": ("plain", "facts", DROP),
    "no rows in the facts": ("plain", "facts/n_rows", DROP),
    "no reason": ("plain", "solver_reason", DROP),
    "no tests": ("plain", "kept/noise", []),
    "no rule": ("plain", "problem/rule", None),
    "no coder": ("plain", "coding/coders", []),
    "no state of a coder": ("coded", "coding/coders/0/state", DROP),
    "no state of transforms": ("coded", "coding/coders/0/state/transforms", {}),
    "no categories": ("coded", "coding/coders/0/state/factors", {}),
    "no kinds of columns": ("coded", "coding/coders/0/state/kinds", {}),
    "a category twice": ("coded", "coding/coders/0/state/factors/clan", ["elk", "elk", "owl"]),
    "other kinds of columns": ("coded", "coding/coders/0/state/kinds/weight", "pickle"),
    "no coding of the outcome": ("coded", "coding/outcome", None),
    "no equations": ("plain", "problem/equations/each", []),
    # wrong kinds
    "problem a list": ("plain", "problem", [1, 2]),
    "problem a text": ("plain", "problem", "problem"),
    "parameters a text": ("plain", "solution/free", "1, 2, 3"),
    "parameters an object": ("plain", "solution/free", {"array": {"0": 1.0}}),
    "a parameter a text": ("plain", "solution/free/array/0", "1.0"),
    "a parameter true": ("plain", "solution/free/array/0", True),
    "a parameter a list": ("plain", "solution/free/array/0", [1.0]),
    "an ending a text": ("plain", "solution/ending", "Converged."),
    "details a text": ("plain", "solution/ending/details", "3 steps"),
    "details of another status": ("plain", "solution/ending/status/name", "AT_BOUNDARY"),
    "status a number": ("plain", "solution/ending/status/name", 3),
    "rows a fraction": ("plain", "facts/n_rows", 300.5),
    "rows a text": ("plain", "facts/n_rows", "300"),
    "counts a text": ("plain", "facts/counts", "188, 112"),
    "call a number": ("plain", "call", 1),
    "a label an array": ("plain", "problem/equations/each/0/alternative", {"array": [1.0]}),
    "a label nothing": ("plain", "problem/equations/each/0/alternative", None),
    "a label a class": (
        "plain", "problem/equations/each/0/alternative", {"is": "maximum/1", "cost": None},
    ),
    "index misspelt": ("plain", "problem/index", "knwon"),
    "a formula a number": ("plain", "coding/coders/0/text", 5),
    "shares a number": ("plain", "kept/shares", 0.5),
    # numbers that are none, or cannot be
    "a parameter null": ("plain", "solution/free/array/0", None),
    "a parameter infinite": ("plain", "solution/free/array/0", "inf"),
    "a parameter huge": ("plain", "solution/free/array/0", HUGE),
    "a negative scale": ("plain", "solution/free/array/3", -1.0),
    "a zero scale": ("plain", "solution/free/array/3", 0.0),
    "a unit zero": ("plain", "problem/units/unit/array/1", 0.0),
    "a unit negative": ("plain", "problem/units/outcome_unit", -2.0),
    "a unit infinite": ("plain", "problem/units/shift/array/1", "inf"),
    "a negative variance": ("plain", "covariance/matrix/array/0/0", -1.0),
    "an asymmetric covariance": ("plain", "covariance/matrix/array/0/1", 1e6),
    "negative rows": ("plain", "facts/n_rows", -1),
    "huge rows": ("plain", "facts/n_dropped", -HUGE),
    "a negative count": ("plain", "facts/counts/0", -5),
    "an infinite range": ("plain", "facts/outcome_range/1", {"float": "inf"}),
    "a turned range": ("plain", "facts/outcome_range", [9.0, 1.0]),
    "no weight": ("plain", "facts/weight_total", 0.0),
    "a p-value of two": ("plain", "kept/independence/p_value", 2.0),
    "negative degrees of freedom": ("plain", "kept/independence/df", -1),
    "a share of two": ("plain", "kept/shares/0", 2.0),
    "a correlation of two": ("correlated", "problem/noise/correlation", 2.0),
    "a scale of minus one": ("plain", "problem/noise/scale", -1.0),
    "a cost that is none": ("coded", "problem/rule/cost/map/0/1", {"float": "nan"}),
    "a rank of nine": ("ranked", "problem/rule/rank", 9),
    "a rank of zero": ("ranked", "problem/rule/rank", 0),
    "a factor of zero": ("transforms", "problem/rule/transforms/map/0/1", 0.0),
    # sizes that do not match
    "a parameter more": ("plain", "solution/free/array", [1.0] * 9),
    "a parameter less": ("plain", "solution/free/array", [1.0] * 7),
    "parameters in two rows": ("plain", "solution/free/array", [[1.0, 2.0], [3.0, 4.0]]),
    "a ragged matrix": ("plain", "solution/information/array/0", [1.0]),
    "a small covariance": ("plain", "covariance/matrix/array", [[1.0]]),
    "a flat covariance": ("plain", "covariance/matrix/array", [1.0] * 64),
    "a count more": ("plain", "facts/counts", [1, 2, 3]),
    "a formula more": ("plain", "facts/formulas", ["income ~ height + weight"] * 3),
    "a column beyond": ("plain", "problem/equations/each/0/columns", [0, 1, 99]),
    "a column below": ("plain", "problem/equations/each/0/columns", [0, 1, -1]),
    "a column less": ("plain", "problem/equations/each/0/columns", [0, 1]),
    "a unit more": ("plain", "problem/units/unit/array", [1.0] * 9),
    "a coder beyond": ("plain", "coding/coder_of", [0, 7]),
    "a coder below": ("plain", "coding/coder_of", [0, -1]),
    "a coder less": ("plain", "coding/coder_of", [0]),
    "a cost less": ("plain", "coding/known/costs", [None]),
    "a share less": ("plain", "kept/shares", [1.0]),
    "naive of one": ("plain", "kept/naive/coefficients", [{"array": [1.0]}]),
    "a member beyond": ("long", "problem/equations/shared/0/members/0", [9, 0]),
    "a member twice": ("long", "problem/equations/shared/0/members", [[0, 0], [0, 0]]),
    "a source beyond": ("long", "coding/sources/0/coder", 5),
    "a source of another": ("long", "coding/sources/0/alternative", 2),
    "a million alternatives": (
        "plain", "problem/equations/each",
        [{"is": "equation/1", "alternative": i, "terms": ["Intercept"], "columns": [0]}
         for i in range(2_000)],
    ),
    "a million points": ("correlated", "problem/noise/draws", 10**12),
    "a huge shape": ("plain", "solution/free", {"array": [], "shape": [10**9, 10**9]}),
    # names that do not match
    "a formula of other columns": ("plain", "coding/coders/0/text", "height + age"),
    "a formula in another order": ("plain", "coding/coders/0/text", "weight + height"),
    "swapped names of columns": (
        "plain", "coding/coders/0/names", ["Intercept", "weight", "height"],
    ),
    "swapped terms": (
        "plain", "problem/equations/each/0/terms", ["Intercept", "weight", "height"],
    ),
    "swapped covariates": ("plain", "problem/equations/covariates", ["weight", "height"]),
    "a covariate twice": ("plain", "problem/equations/covariates", ["height", "height"]),
    "a term twice": ("plain", "problem/equations/each/0/terms", ["Intercept", "height", "height"]),
    "a label twice": ("plain", "problem/equations/each/0/alternative", "hunting"),
    "another outcome": ("plain", "problem/equations/outcome", "np.log(income)"),
    "another formula in the facts": ("plain", "facts/formulas/0", "income ~ height"),
    "a cost of nobody": ("coded", "problem/rule/cost/map/0/0", "nobody"),
    "a cost that is a list": ("coded", "problem/rule/cost", [1.0, 2.0]),
    "a transform that is none": ("transforms", "problem/rule/transforms/map/0/1", "eval"),
    "a verdict that is none": ("plain", "kept/diagnosis/findings/0/verdict", "splendid"),
    # what is not known
    "an unknown class": ("plain", "problem/rule/is", "os:system"),
    "a module as a class": ("plain", "problem/rule/is", "selfselect.__main__:main"),
    "a class of a later version": ("plain", "problem/rule/is", "maximum/2"),
    "a class without a name": ("plain", "problem/rule/is", ["maximum/1"]),
    "a class of another kind": ("plain", "problem/rule", {"is": "independent/1", "scale": "each"}),
    "an unknown field": ("plain", "problem/rule/eval", "1"),
    "a private field": ("transforms", "problem/rule/cost", {"is": "parts/1", "parts": []}),
    "an entry of no kind": ("plain", "problem/noise/scale", {"pickle": "gASVAAAA"}),
    "an array of objects": ("plain", "solution/free/type", "|O"),
    "an array of text": ("plain", "solution/free/type", "<U8"),
    "another coding": ("plain", "coding/kind", "pickle"),
    "code in a formula": (
        "plain", "coding/coders/0/text", "height + I(__import__('os').system('true'))",
    ),
    "code in the outcome": ("plain", "problem/equations/outcome", "I(().__class__)"),
    # text and nesting
    "half a character in a label": ("plain", "problem/equations/each/0/alternative", SURROGATE),
    "half a character in a status": ("plain", "solution/ending/status/name", f"fine {SURROGATE}"),
    "deep nesting": ("plain", "problem/noise/scale", json.loads("[" * 200 + "]" * 200)),
    "a nan in a state": ("coded", "coding/coders/0/state/transforms/center(weight)/center",
                         float("nan")),
}  # fmt: skip


def changed(content: Any, path: str, value: Any) -> Any:
    content = copy.deepcopy(content)
    if value is DROP:
        *above, last = path.split("/")
        inner = content
        for step in above:
            inner = inner[int(step) if isinstance(inner, list) else step]
        del inner[last]
    else:
        put(content, path, value)
    return content


def resealed(content: Any) -> Any:
    """Return a file as a forger would leave it, with a checksum that is right."""
    return sealed(content) if isinstance(content, dict) else content


def written(content: Any) -> str:
    sys.set_int_max_str_digits(5_000)
    return json.dumps(content)


@pytest.mark.parametrize("name", AT)
def test_a_damaged_saved_fit_is_one_clear_error(name, saved, tmp_path):
    fit, at, value = AT[name]
    path = tmp_path / "fit.json"
    path.write_text(written(resealed(changed(saved[fit], at, value))))
    with pytest.raises(ArchiveError) as refused:
        ss.load(path)
    said = str(refused.value)
    assert str(path) in said and "Traceback" not in said
    assert "\n" not in said and len(said) < 1_000
    said.encode("utf-8")


def test_the_fits_that_are_damaged_here_load_as_they_were(saved, tmp_path):
    for name, content in saved.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(content))
        assert ss.load(path).converged


@pytest.mark.parametrize(
    ("fit", "at", "value"),
    [
        ("plain", "solution/free/array/1", 0.1),
        ("plain", "problem/units/outcome_unit", 22.0),
        ("plain", "problem/rule/is", "minimum/1"),
        ("plain", "covariance/kind", "robust"),
        ("plain", "facts/n_rows", 301),
        ("plain", "facts/counts", [100, 200]),
        ("plain", "solution/converged", False),
        ("plain", "problem/equations/each/0/alternative", "farming"),
        ("plain", "an unknown entry", 1),
        ("coded", "coding/coders/0/state/transforms/center(weight)/center", 700.0),
        ("plain", "checksum", 5),
        ("plain", "checksum", DROP),
    ],
)
def test_an_entry_that_could_be_right_but_is_not_what_was_saved_is_refused(
    fit, at, value, saved, tmp_path
):
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(changed(saved[fit], at, value)))
    with pytest.raises(ArchiveError, match="are not those of its checksum"):
        ss.load(path)


def test_numbers_that_changed_places_are_refused(saved, tmp_path):
    path, numbers = tmp_path / "fit.json", saved["plain"]["solution"]["free"]["array"]
    swapped = [numbers[0], numbers[2], numbers[1], *numbers[3:]]
    path.write_text(json.dumps(changed(saved["plain"], "solution/free/array", swapped)))
    with pytest.raises(ArchiveError, match="are not those of its checksum"):
        ss.load(path)


def test_the_order_and_layout_of_a_saved_fit_may_change(saved, tmp_path):
    """Other programs may write the same JSON in their own way."""
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(saved["coded"], sort_keys=True, indent=7, ensure_ascii=False))
    assert ss.load(path).converged


@pytest.mark.parametrize("name", [None, 0, "", "a\0b", b"fit.json"], ids=repr)
def test_what_is_no_name_of_a_file_is_refused(name, saved, tmp_path):
    (tmp_path / "fit.json").write_text(json.dumps(saved["plain"]))
    fit = ss.load(tmp_path / "fit.json")
    for ask in (ss.load, fit.save, fit.report):
        with pytest.raises(ss.errors.OptionError, match="is not the name of a file"):
            ask(name)


TEXTS: dict[str, Any] = {
    "empty": "",
    "blank": "  \n",
    "a number": "17",
    "null": "null",
    "a list": "[]",
    "other JSON": '{"type": "FeatureCollection", "features": []}',
    "another format": '{"format": "selfselect checkpoint", "version": 2}',
    "no version": '{"format": "selfselect fit"}',
    "version null": '{"format": "selfselect fit", "version": null}',
    "version true": '{"format": "selfselect fit", "version": true}',
    "version text": '{"format": "selfselect fit", "version": "4"}',
    "version list": '{"format": "selfselect fit", "version": [4]}',
    "version 4.0": '{"format": "selfselect fit", "version": 4.0}',
    "version 5": '{"format": "selfselect fit", "version": 5}',
    "version 0": '{"format": "selfselect fit", "version": 0}',
    "only a head": '{"format": "selfselect fit", "version": 4}',
    "only an old head": '{"format": "selfselect fit", "version": 1}',
    "nested beyond any stack": "[" * 200_000,
    "objects beyond any stack": '{"a":' * 100_000,
    "a number of 10,000 digits": '{"format": "selfselect fit", "version": ' + "9" * 10_000 + "}",
    "CSV": "a,b\n1,2\n",
    "bytes that are no text": b"\xff\xfe\x00{",
    "a pickle": b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00.",
    "zeros": b"\0" * 1_000,
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_that_is_no_saved_fit_is_one_clear_error(name, tmp_path):
    path, content = tmp_path / "fit.json", TEXTS[name]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ArchiveError, match=r"fit\.json") as refused:
        ss.load(path)
    assert len(str(refused.value)) < 500


def test_a_saved_fit_cut_off_anywhere_is_refused(saved, tmp_path):
    whole, path = json.dumps(saved["plain"], indent=1), tmp_path / "fit.json"
    for end in np.linspace(0, len(whole) - 2, 60).astype(int):
        path.write_text(whole[:end])
        with pytest.raises(ArchiveError, match="truncated"):
            ss.load(path)


def test_tokens_that_are_no_json_numbers_are_refused(saved, tmp_path):
    text, path = json.dumps(saved["plain"]), tmp_path / "fit.json"
    number = repr(saved["plain"]["solution"]["loglik"])
    for token in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999"):
        assert number in text
        path.write_text(text.replace(number, token))
        with pytest.raises(ArchiveError, match="holds the number"):
            ss.load(path)


def test_a_key_that_is_given_twice_is_refused(saved, tmp_path):
    text, path = json.dumps(saved["plain"]), tmp_path / "fit.json"
    path.write_text(text[:-1] + ', "version": 4}')
    with pytest.raises(ArchiveError, match="same key twice"):
        ss.load(path)


def test_a_file_of_unreasonable_size_is_refused_unread(tmp_path):
    path = tmp_path / "fit.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole: it takes no room
    with pytest.raises(ArchiveError, match=r"1,099,511,627,776 bytes, which no saved fit has"):
        ss.load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_or_a_device_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path):
        with pytest.raises(ArchiveError, match="cannot be read"):
            ss.load(path)


def test_damage_to_any_one_number_is_refused_or_harmless(saved, tmp_path):
    """Every leaf of a saved fit in turn becomes something else: no raw error ever comes out."""
    path, tried = tmp_path / "fit.json", 0

    def leaves(part, at=()):
        if isinstance(part, dict | list):
            for key, one in part.items() if isinstance(part, dict) else enumerate(part):
                yield from leaves(one, (*at, str(key)))
        else:
            yield "/".join(at)

    for name in ("coded", "long"):
        places = [at for at in leaves(saved[name]) if "/matrix/" not in at and "trace" not in at]
        for number, at in enumerate(places[::4]):
            value = (None, "text", -7, 1e300, [], {}, True)[number % 7]
            path.write_text(json.dumps(resealed(changed(saved[name], at, value))))
            tried += 1
            try:
                loaded = ss.load(path)
            except ArchiveError:
                continue
            assert np.isfinite(loaded.params).all()
            str(loaded.summary())
    assert tried > 60


# classes


def test_no_file_imports_or_calls_what_it_names():
    code = (
        "import sys\n"
        "from selfselect.plain import from_plain\n"
        "from selfselect.errors import ArchiveError\n"
        "for name in ('selfselect.__main__:x', 'selfselect.__main__', 'antigravity', 'this:x'):\n"
        "    before = set(sys.modules)\n"
        "    try:\n"
        "        from_plain({'is': name, 'fields': {}})\n"
        "    except ArchiveError:\n"
        "        assert set(sys.modules) == before\n"
        "    else:\n"
        "        raise SystemExit(1)\n"
        "import selfselect.__main__\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_file_knows_classes_by_short_names_only():
    importlib.import_module("selfselect.results.archive")
    for name, kind in CLASSES.items():
        assert kind.__module__.startswith("selfselect.")
        assert "selfselect" not in name and ":" not in name and "." not in name
    sum_ = Parts([Evaluation(np.float64(1.0), np.array([0.1]), np.array([[np.nan]]))])
    text = json.dumps(to_plain(sum_, exact=True))
    assert "selfselect" not in text and "0.1" in text
    back = from_plain(json.loads(text))
    assert isinstance(back, Parts) and back[0].score[0] == 0.1


def test_every_sum_that_an_engine_may_return_has_a_short_name():
    """A class that can be added but not kept would end a fit with a checkpoint halfway."""
    for name in ("inference.sandwich", "likelihoods.sampled"):
        importlib.import_module(f"selfselect.{name}")
    rooms = ("selfselect.problem.", "selfselect.inference.", "selfselect.solvers.")
    found = [
        member
        for name, module in list(sys.modules.items())
        if name.startswith(rooms)
        for member in vars(module).values()
        if isinstance(member, type) and member.__module__ == name and "__add__" in vars(member)
    ]
    assert len(found) >= 4
    assert [kind for kind in found if kind not in CLASSES.values()] == []
