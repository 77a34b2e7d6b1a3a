"""Compiled kernels are tested with every instruction set that the machine has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from selfselect.kernels.compiled import extension

SETS = [] if extension() is None else extension().instructions()


@pytest.fixture(params=SETS or ["none"])
def instructions(request: pytest.FixtureRequest) -> Iterator[str]:
    """Use one instruction set after the other; skip where there are no compiled kernels."""
    if not SETS:
        pytest.skip("there are no compiled kernels")
    extension().use(request.param)
    yield request.param
    extension().use(os.environ.get("SELFSELECT_INSTRUCTIONS") or SETS[0])


@pytest.fixture(params=[*SETS, "numpy"])
def every_kernel(
    request: pytest.FixtureRequest, without_compiled_kernels: Callable[[], None]
) -> Iterator[str]:
    """Use every instruction set, and no compiled kernel at all."""
    if request.param == "numpy":
        without_compiled_kernels()
        yield request.param
        return
    extension().use(request.param)
    yield request.param
    extension().use(os.environ.get("SELFSELECT_INSTRUCTIONS") or SETS[0])
