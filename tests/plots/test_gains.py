"""The picture of who gains."""

from __future__ import annotations

import numpy as np

import selfselect as ss


def test_bins_are_shares_of_everyone_and_groups_add_up(known: ss.FitResult) -> None:
    found = known.gains("hunting", "fishing", draws=20_000)
    picture = ss.plots.gains(found)
    data = picture.data
    gain = found.draws["gain"].to_numpy()
    inside = (gain >= data["low"].iloc[0]) & (gain <= data["high"].iloc[-1])
    np.testing.assert_allclose(data["everyone"].sum(), inside.mean())
    assert inside.mean() > 0.99
    np.testing.assert_allclose(
        data["hunting chosen"] + data["fishing chosen"], data["everyone"], atol=1e-12
    )


def test_nobody_is_seen_where_they_would_lose(known: ss.FitResult) -> None:
    data = ss.plots.gains(known.gains("hunting", "fishing", draws=20_000)).data
    assert (data.loc[data["high"] <= 1e-9, "hunting chosen"] == 0).all()
    assert (data.loc[data["low"] >= -1e-9, "fishing chosen"] == 0).all()
    assert data["hunting chosen"].sum() > 0.2


def test_the_legend_gives_the_means(known: ss.FitResult) -> None:
    found = known.gains("hunting", "fishing", draws=20_000)
    labels = ss.plots.gains(found).axes[0].get_legend_handles_labels()[1]
    table = found.table
    for label, (_, row) in zip(labels, table[table["quantity"] == "mean"].iterrows(), strict=True):
        assert label == f"{row['group']}: mean {row['estimate']:.4g}"
