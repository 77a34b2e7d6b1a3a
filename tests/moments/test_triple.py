"""Three jointly normal outcomes in closed form, against identities, other forms and draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.moments.choose import moments_of
from selfselect.moments.joint import JointMoments
from selfselect.noises import Correlated


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, 400))
    latent = np.column_stack([0.5 + x, 1.0 - 0.6 * x, 0.3 * z]) + rng.normal(size=(400, 3))
    available = np.column_stack([np.ones(400, bool), rng.random((400, 2)) < 0.8])
    chosen = np.where(available, latent, -np.inf).argmax(axis=1)
    frame = pd.DataFrame({"x": x, "z": z, "toll": rng.uniform(0.0, 0.3, 400)})
    frame["open"], frame["wide"] = available[:, 1], available[:, 2]
    return frame.assign(y=latent[np.arange(400), chosen], j=np.array(list("abc"))[chosen])


def test_scales_that_move_have_no_closed_form_for_three(table):
    noise = ss.noises.Independent(scale="~ x")
    result = ss.fit("y ~ x + z", table, chosen="j", noise=noise)
    moving = replace(result.problem, noise=Correlated("~ x", correlation=0.3))
    assert type(moments_of(moving)) is JointMoments
