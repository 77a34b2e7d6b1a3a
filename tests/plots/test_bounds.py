"""The picture of bounds: bands, what a fit says, and the numbers behind them."""

from __future__ import annotations

import pytest

import selfselect as ss
from selfselect.errors import OptionError


def test_bands_have_a_panel_per_outcome_and_say_that_inside_confirms_nothing(known):
    picture = known.bounds().plot()
    assert len(picture.axes) == 2
    assert "a fit inside them is not confirmed" in picture.axes[0].figure.get_supxlabel()
    assert (picture.data["lower"] <= picture.data["upper"]).all()
    assert {"fit", "conf_low"} <= set(picture.data)
    assert len(picture.marks[0].texts) == len(picture.marks[0].x)


def test_differences_are_drawn_where_they_are_asked_for(known):
    found = known.bounds(points=[-10.0, 0.0, 10.0])
    picture = ss.plots.bounds(found, ["fishing - hunting"])
    assert set(picture.data["of"]) == {"fishing - hunting"}
    with pytest.raises(OptionError, match="no bounds of 'farming'; there are fishing, hunting"):
        ss.plots.bounds(found, ["farming"])
