"""Kernels in CUDA C++, compiled for the card at hand by the compiler that comes with PyTorch.

The folder card/ holds the sources. Sizes are fixed when they are compiled, so every kind of problem
has a kernel of its own; it takes half a second and is done once per process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from selfselect.kernels import _erfcx

__all__ = ["Card", "Kernel", "card", "compiled", "source"]

SOURCES: Final = Path(__file__).with_name("card")

DYNAMIC_SHARED_BYTES: Final = 8
"""Number of the attribute that says how much shared memory a kernel may ask for."""

MULTIPROCESSORS: Final = 16
SHARED_BYTES: Final = 81
"""Numbers of a card's attributes: how many multiprocessors it has, and each one's shared memory."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel on one card: the driver, the card's context, and the function."""

    driver: Any
    context: ctypes.c_void_p
    function: ctypes.c_void_p
    shared_bytes: int

    def __call__(
        self, blocks: tuple[int, int], threads: int, arguments: Sequence[Tensor | int | None]
    ) -> None:
        """Start it on the stream that PyTorch works on; integers are passed as 64 bits."""
        n_arguments = len(arguments)
        values = (ctypes.c_int64 * n_arguments)(
            *(one if isinstance(one, int) else 0 if one is None else one.data_ptr()
              for one in arguments)
        )  # fmt: skip
        first = ctypes.addressof(values)
        pointers = (ctypes.c_void_p * n_arguments)(*range(first, first + 8 * n_arguments, 8))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        # Climbs from several starts run in threads of their own, which have no context at first.
        _check(self.driver, self.driver.cuCtxSetCurrent(self.context))
        _check(
            self.driver,
            self.driver.cuLaunchKernel(
                self.function, *blocks, 1, threads, 1, 1, self.shared_bytes, stream, pointers, None
            ),
        )


@dataclass(frozen=True)
class Card:
    """How many multiprocessors a card has, and each one's shared memory in bytes."""

    multiprocessors: int
    shared_bytes: int


@cache
def card(device: int) -> Card:
    """Return what there is of a card."""
    driver, ordinal = _driver(), ctypes.c_int()
    _check(driver, driver.cuDeviceGet(ctypes.byref(ordinal), device))
    found = []
    for attribute in (MULTIPROCESSORS, SHARED_BYTES):
        value = ctypes.c_int()
        _check(driver, driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, ordinal))
        found.append(value.value)
    return Card(*found)


@cache
def compiled(file: str, name: str, device: int, shared_bytes: int, **sizes: int) -> Kernel:
    """Return a kernel for sizes, compiled for a card and loaded there."""
    driver = _driver()
    image = _compile(source(file, **sizes), torch.cuda.get_device_capability(device))
    ordinal, context = ctypes.c_int(), ctypes.c_void_p()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    for done in (
        driver.cuDeviceGet(ctypes.byref(ordinal), device),
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal),
        driver.cuCtxSetCurrent(context),
        driver.cuModuleLoadData(ctypes.byref(module), image),
        driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()),
        driver.cuFuncSetAttribute(function, DYNAMIC_SHARED_BYTES, shared_bytes),
    ):
        _check(driver, done)
    return Kernel(driver, context, function, shared_bytes)


def _check(driver: Any, result: int) -> None:
    if result != 0:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(result, ctypes.byref(text))
        raise RuntimeError(f"CUDA: {(text.value or b'unknown error').decode()}")


@cache
def _driver() -> Any:
    driver = _library("libcuda.so.1", "nvcuda.dll")
    _check(driver, driver.cuInit(0))
    return driver


def _library(*names: str) -> Any:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError(f"There is no library {' or '.join(names)}.")


def _compiler() -> Any:
    """Return the library with CUDA's run-time compiler: PyTorch's own depends on it."""
    own = Path(torch.__file__).parent / "lib"
    major = str(torch.version.cuda).split(".")[0]
    return _library(
        str(own / "libcaffe2_nvrtc.so"), f"libnvrtc.so.{major}", f"nvrtc64_{major}0_0.dll"
    )


def source(file: str, **sizes: int) -> str:
    """Return the source of a file, with sizes, polynomials and what a row says before it."""
    lines = [f"#define {name} {value}" for name, value in sizes.items()]
    lines.append(f"constexpr double CENTRE = {_erfcx.CENTRE!r};")
    for name in ("GAP", "EXP", "LOG"):
        values = getattr(_erfcx, name)
        numbers = ", ".join(map(repr, values))
        lines.append(f"__constant__ double {name}[{len(values)}] = {{{numbers}}};")
    lines += [(SOURCES / one).read_text(encoding="utf-8") for one in ("rows.cuh", file)]
    return "\n".join(lines)


def _compile(text: str, capability: tuple[int, int]) -> bytes:
    compiler, program = _compiler(), ctypes.c_void_p()
    compiler.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"card.cu", 0, None, None)
    options = [f"--gpu-architecture=sm_{capability[0]}{capability[1]}".encode(), b"-std=c++17"]
    failed = compiler.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    wanted, size = "ProgramLog" if failed else "CUBIN", ctypes.c_size_t()
    getattr(compiler, f"nvrtcGet{wanted}Size")(program, ctypes.byref(size))
    found = ctypes.create_string_buffer(size.value)
    getattr(compiler, f"nvrtcGet{wanted}")(program, found)
    compiler.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise RuntimeError(found.value.decode(errors="replace"))
    return found.raw
