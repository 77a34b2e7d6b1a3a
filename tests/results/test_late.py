"""Methods of a result are functions elsewhere, imported when they are used."""

from __future__ import annotations

import inspect
import pickle
import pydoc
import subprocess
import sys

import pytest

import selfselect as ss
from selfselect.effects import treatment_effects
from selfselect.results.late import LateFunction, LateModule


def methods_of(result):
    """Return the methods of a kind of result that are functions elsewhere, by name."""
    return {
        name: member
        for kind in result.__mro__
        for name, member in vars(kind).items()
        if isinstance(member, LateFunction)
    }


METHODS = methods_of(ss.FitResult)


@pytest.fixture(scope="module")
def fit():
    sample = ss.simulators.village(200, seed=1)
    return ss.fit(sample.formula, sample.data, chosen=sample.chosen)


def test_a_method_is_a_function_of_its_name_whose_first_argument_is_the_fit():
    assert len(METHODS) >= 40
    multinomial = methods_of(ss.MultinomialResult)
    assert {"save", "treatment_effects", "lincom"} <= set(multinomial)
    for name, method in (*METHODS.items(), *multinomial.items()):
        function = method.load()
        assert inspect.isfunction(function), name
        assert function.__name__ == name
        assert next(iter(inspect.signature(function).parameters)) == "fit", name
        assert inspect.getdoc(function), name


def test_a_method_has_signature_and_docstring_of_the_function_without_the_fit(fit):
    own = inspect.signature(treatment_effects).parameters
    method = fit.treatment_effects
    assert list(inspect.signature(method).parameters.items()) == list(own.items())[1:]
    assert method.__doc__ == treatment_effects.__doc__
    assert method.__name__ == "treatment_effects"
    assert method.__self__ is fit


def test_help_shows_methods_with_signature_and_text(fit):
    shown = pydoc.plain(pydoc.render_doc(fit.treatment_effects))
    assert "treatment_effects(to" in shown and "ATT over those who choose `to`" in shown
    whole = pydoc.plain(pydoc.render_doc(ss.FitResult))
    assert "treatment_effects(fit: " in whole and "Test the shape of the noise" in whole


def test_methods_are_completed(fit):
    assert set(METHODS) <= set(dir(fit)) & set(dir(ss.FitResult))
    assert {"counterfactual", "coefficients"} <= set(dir(fit.plot))


def test_a_bound_method_survives_pickling(fit):
    asked = pickle.loads(pickle.dumps(fit.treatment_effects))
    assert asked("hunting", "fishing").table.equals(
        fit.treatment_effects("hunting", "fishing").table
    )


def test_a_misspelt_option_is_named(fit):
    with pytest.raises(TypeError, match="'lvel'"):
        fit.treatment_effects("hunting", "fishing", lvel=0.9)


def test_a_method_of_another_name_than_its_function_is_refused():
    with pytest.raises((TypeError, RuntimeError)) as error:
        type("Fit", (), {"ask": LateModule("selfselect.effects").sorting})
    reason = error.value.__cause__ or error.value  # Python 3.11 wraps it
    assert "Fit.ask is not named as selfselect.effects.sorting" in str(reason)


def test_a_function_that_is_not_there_is_an_error_when_it_is_asked_for():
    absent = type("Fit", (), {"nothing": LateModule("selfselect.effects").nothing})
    with pytest.raises(AttributeError, match="nothing"):
        absent().nothing()
    with pytest.raises(AttributeError):
        _ = LateModule("selfselect.effects").__wrapped__


def test_a_fit_loads_nothing_that_is_asked_of_it():
    code = (
        "import sys, selfselect as ss\n"
        "sample = ss.simulators.village(200, seed=1)\n"
        "fit = ss.fit(sample.formula, sample.data, chosen=sample.chosen)\n"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('selfselect.')}\n"
        "sys.exit(', '.join(rooms & {'effects', 'plots', 'report', 'explore', 'verdict'}) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
