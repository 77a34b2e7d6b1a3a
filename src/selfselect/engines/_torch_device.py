"""Devices of PyTorch: which are there, and what is free on them."""

from __future__ import annotations

from typing import Any

from selfselect.errors import MissingDependencyError, OptionError

__all__ = ["as_device", "free_bytes", "out_of_memory"]


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            "The Torch engine needs PyTorch: pip install 'selfselect[torch]'"
        ) from error
    return torch


def as_device(given: Any) -> str:
    """Return the name of a device that is there."""
    torch = _torch()
    there = torch.cuda.is_available()
    if given is None:
        return "cuda" if there else "cpu"
    try:
        device = torch.device(given)
    except (RuntimeError, TypeError) as error:
        raise OptionError(
            f"device={given!r} is not a device of PyTorch. Use 'cuda', 'cuda:1' or 'cpu', or None "
            "for the card if there is one."
        ) from error
    if device.type not in ("cuda", "cpu"):
        raise OptionError(
            f"device={given!r} is not possible: the Torch engine sums in double precision on "
            "'cuda' or 'cpu'."
        )
    if device.type == "cuda" and not there:
        raise OptionError(
            f"device={given!r} is not possible: PyTorch finds no CUDA card here. Install a build "
            "of PyTorch for CUDA and a driver, or use device='cpu'."
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise OptionError(
            f"device={given!r} is not possible: there are {torch.cuda.device_count()} cards, "
            "counted from 0."
        )
    return str(device)


def free_bytes(device: str) -> int | None:
    """Return how many bytes are free on a card; None where that is the host's own memory."""
    if device == "cpu":
        return None
    torch = _torch()
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + unused)


def out_of_memory() -> type[Exception]:
    """Return the error PyTorch raises where a device has no memory left."""
    kind: type[Exception] = _torch().OutOfMemoryError
    return kind
