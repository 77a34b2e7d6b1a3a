"""The kept numbers come out of the Torch engine too, and it is the device that adds them up.

Run it on a card once a kernel or a likelihood has changed: ``pytest tests/golden/test_card.py``.
Without a card the same is done by tensors on the processor.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

import selfselect as ss

from .test_golden import CASES, COVERED_BY_TWINS, KEPT, compare, numbers, table

torch = pytest.importorskip("torch", reason="torch is not installed")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", COVERED_BY_TWINS)
def test_the_device_gives_the_kept_numbers(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from selfselect.engines import _torch_tasks

    done: dict[str, int] = {"device": 0, "host": 0}
    find = _torch_tasks.twin_of

    def counted(task: Any, loaded: Any) -> Any:
        twin = find(task, loaded)
        if getattr(task, "func", None) in _torch_tasks.TWINS:
            done["host" if twin is None else "device"] += 1
        return twin

    monkeypatch.setattr(_torch_tasks, "twin_of", counted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.errors.SelfSelectWarning)
        fit = CASES[name](table(), engine=ss.engines.Torch(device))
    assert done["device"] > 0
    assert done["host"] == 0, "a task that has a twin was left to the processor"
    kept = json.loads(KEPT.read_text(encoding="utf-8"))[name]
    compare(numbers(fit), kept, climbed=True)
