"""What all pictures share: styles that need no colour, and labels shown as they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

import selfselect as ss
from selfselect.errors import OptionError
from selfselect.plots.base import CORRECTED, NAIVE, given_axes, new_axes, plain, style_of

N_STYLES = 7
LIGHTNESS_APART = 0.04
HOSTILE = ("<script>alert(1)</script>", r"$\frac{1", "_hidden", "bell\x07", '50% & "more"')


def lightness(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2)."""
    parts = np.array(to_rgb(colour))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_alternatives_differ_without_colour() -> None:
    styles = [style_of(j) for j in range(N_STYLES)]
    assert len({str(style.line) for style in styles}) == N_STYLES
    assert len({style.marker for style in styles}) == N_STYLES
    assert len({style.colour for style in styles}) == N_STYLES
    assert style_of(N_STYLES) == style_of(0)


def test_least_squares_and_corrected_differ_in_grey() -> None:
    assert abs(lightness(NAIVE) - lightness(CORRECTED)) > LIGHTNESS_APART


@pytest.mark.parametrize("text", HOSTILE)
def test_labels_are_shown_as_they_are(text: str) -> None:
    (axis,) = new_axes(1)
    axis.plot([0, 1], [0, 1], label=plain(text))
    legend = axis.legend()
    axis.figure.canvas.draw()
    assert len(legend.get_texts()) == 1
    shown, is_math = legend.get_texts()[0]._preprocess_math(legend.get_texts()[0].get_text())
    assert not is_math
    assert shown.strip() == text.replace("\x07", r"\x07")


def test_every_picture_of_hostile_names_can_be_drawn() -> None:
    rng = np.random.default_rng([1, 1])
    first, second = HOSTILE[:2]
    x = pd.DataFrame({r"$a_{": rng.normal(size=300), "seen": rng.normal(size=300)})
    latent = x.to_numpy() + rng.normal(size=(300, 2))
    table = x.assign(y=latent.max(axis=1), who=np.where(latent[:, 0] > latent[:, 1], first, second))
    fit = ss.fit(r"y ~ `$a_{` + seen", table, chosen="who")
    for picture in (
        ss.plots.selection_lines(fit, r"$a_{"),
        ss.plots.selection_lines(fit, "seen"),
        ss.plots.coefficients(fit),
        ss.plots.choice_probabilities(fit, r"$a_{"),
        ss.plots.residuals(fit, r"$a_{"),
        ss.plots.qq(fit),
    ):
        canvas = picture.axes[0].figure.canvas
        canvas.draw()
        assert np.ptp(np.asarray(canvas.buffer_rgba())) > 200, "something dark on light is drawn"


def test_a_covariate_may_bear_the_name_of_a_column_of_the_picture() -> None:
    rng = np.random.default_rng([2, 1])
    x = rng.normal(size=(300, 2))
    latent = x + rng.normal(size=(300, 2))
    table = {"seen": x[:, 0], "naive": x[:, 1], "y": latent.max(axis=1),
             "who": latent.argmax(axis=1)}  # fmt: skip
    fit = ss.fit("y ~ seen + naive", table, chosen="who")
    points = ss.plots.selection_lines(fit, "seen").points
    np.testing.assert_allclose(np.sort(points["seen (covariate)"]), np.sort(x[:, 0]))
    assert points["seen"].all()


def test_axes_are_wrapped_and_counted() -> None:
    assert len(new_axes(5)) == 5
    assert given_axes(new_axes(4), 4, "panels")
    with pytest.raises(OptionError, match="4 axes are given for 3 panels"):
        given_axes(new_axes(4), 3, "panels")


@pytest.mark.parametrize("name", [one for one in ss.plots.__all__ if one.islower()])
def test_pictures_say_what_they_are_of_where_another_object_is_given(name: str) -> None:
    along = (
        ("x",) if name in ("choice_probabilities", "potential_outcomes", "selection_lines") else ()
    )
    for given in (3, None, "fit.json", pd.DataFrame({"x": [1.0]})):
        with pytest.raises(OptionError, match=rf"This picture is of .* {type(given).__name__}\. "):
            getattr(ss.plots, name)(given, *along)
