"""The careers data: what its documentation says of it."""

from __future__ import annotations

from importlib.resources import files

import selfselect as ss


def test_the_table_is_as_described() -> None:
    table = ss.datasets.careers()
    assert table.shape == (12_359, 5)
    assert list(table.columns) == ["id", "age", "schooling", "choice", "wage"]
    assert table["id"].nunique() == 1_373
    assert set(table["choice"]) == {"school", "home", "white collar", "blue collar", "military"}
    assert table[["id", "age", "schooling", "choice"]].notna().to_numpy().all()
    assert (table["wage"].dropna() > 0).all()


def test_wages_are_seen_only_in_working_choices() -> None:
    table = ss.datasets.careers()
    paid = table[table["wage"].notna()]
    assert set(paid["choice"]) == {"white collar", "blue collar", "military"}


def test_the_licence_travels_with_the_data() -> None:
    text = files("selfselect.datasets.careers").joinpath("LICENCE.md").read_text()
    assert "Permission is hereby granted" in " ".join(text.replace(">", " ").split())
    assert "Keane" in text


def test_a_model_of_wages_can_be_fitted() -> None:
    table = ss.datasets.careers().dropna(subset="wage")
    fit = ss.fit("np.log(wage) ~ schooling + age", table, chosen="choice")
    assert fit.converged
    assert fit.params["white collar", "schooling"] > 0
