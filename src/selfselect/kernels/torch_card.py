"""A graphics card: its kernels, and how they are compiled and started."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from selfselect.kernels import known_index as status_codes
from selfselect.kernels import tails, torch_known, torch_rows
from selfselect.kernels.torch_known import KnownTerms, UnknownTerms
from selfselect.kernels.torch_rows import MOST_PACKED, WIDEST_GRAMS, WIDEST_TERMS, TensorRows

# Kernels in CUDA C++, compiled for the card at hand by the compiler that comes with PyTorch.
#
# The folder card/ holds the sources. Sizes are fixed when they are compiled, so every kind of
# problem has a kernel of its own; it takes half a second and is done once per process.


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
    lines.append(f"constexpr double CENTRE = {tails.CENTRE!r};")
    for name in ("GAP", "EXP", "LOG"):
        values = getattr(tails, name)
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


# Sums over rows on a card, by the kernels in card/: what they are asked for, and where.
#
# A pass is done by a fixed number of blocks. Each takes its share of the rows and leaves its sums
# behind; they are added in the order of the blocks, so that a sum does not depend on which was
# done first.


KINDS: Final = {"known": 0, "unknown": 1, "exact": 2, "given": 3}

MOST_TILES: Final = 24
MOST_TILES_IN_TEAMS: Final = 18
"""Tiles of Gram matrices, 8 by 8, that a warp keeps in registers: alone, and one of several."""

MOST_WARPS: Final = 12
"""Warps per multiprocessor: with more they would have too few registers."""

RESERVED_BYTES: Final = 1024
"""Shared memory that every block takes for itself."""

STAGES: Final = 2
"""Steps whose rows are in shared memory at a time: those that are worked on and the next."""

THREADS: Final = 128
"""Threads per block where rows are evaluated one by one."""


@dataclass(frozen=True)
class PassShape:
    """How a pass is cut.

    Attributes
    ----------
    team : warps per block; each evaluates 32 rows per step.
    each : Gram matrices per warp.
    blocks : blocks per multiprocessor.
    shared_bytes : shared memory of a block.
    """

    team: int
    each: int
    blocks: int
    shared_bytes: int

    @classmethod
    def of(cls, width: int, k: int, sizes: Sizes, room: int) -> PassShape | None:
        """Return the shape of a pass over tables of this width; None where it has no room.

        `room` is the shared memory of a multiprocessor.
        """
        grams = sizes.grams
        columns = -(-width // 8) * 8
        pairs = (columns // 8) * (columns // 8 + 1) // 2
        # Where one warp cannot hold all of them, more warps with fewer each wait less.
        most = MOST_TILES if grams * pairs <= MOST_TILES else MOST_TILES_IN_TEAMS
        team = max(1, -(-grams // max(1, most // pairs)))
        doubles = STAGES * columns + grams + sizes.sides
        parameters = k * (columns + 1) + team * (sizes.sums + 1)
        shared = 32 * team * (8 * doubles + 4 * STAGES) + 8 * parameters
        shared = -(-shared // 16) * 16
        blocks = min(MOST_WARPS // team, room // (shared + RESERVED_BYTES))
        if blocks < 1:
            return None
        return cls(team, -(-grams // team), blocks, shared)


@dataclass(frozen=True)
class Sizes:
    """What is added up at a place: plain sums, sums of s z and of c z z'."""

    grams: int = 0
    sides: int = 0
    sums: int = 0

    @classmethod
    @cache
    def of(cls, k: int, *, known: bool, curvature: str) -> Sizes:
        """Return what a likelihood of so many alternatives adds up."""
        if curvature == "exact" and not known:
            return cls(k * (k + 1) // 2, 2 * k + k * k, 1 + k + k * k)
        return cls(0 if curvature == "none" else k, k, 1 + k)


@cache
def fits(width: int, k: int, *, known: bool, curvature: str, room: int) -> bool:
    """Say whether one kernel does a pass, where a multiprocessor has that much shared memory."""
    if k > MOST_PACKED or width > _widest(curvature):
        return False
    return PassShape.of(width, k, Sizes.of(k, known=known, curvature=curvature), room) is not None


def _widest(curvature: str) -> int:
    """Return the most rows of a table that one kernel takes."""
    return WIDEST_TERMS if curvature == "none" else WIDEST_GRAMS


@cache
def planned(
    kind: str, width: int, k: int, sizes: Sizes, *, weighted: bool, turn: float, device: int
) -> tuple[Kernel, PassShape] | None:
    """Return the kernel of a pass and how it is cut; None where there is no room for it."""
    shape = PassShape.of(width, k, sizes, card(device).shared_bytes)
    if shape is None:
        return None
    kernel = compiled(
        "sums.cu", "sum_rows", device, shape.shared_bytes,
        KIND=KINDS[kind], WIDTH=width, K=k, WEIGHTED=int(weighted), TURN=int(turn),
        GRAMS=sizes.grams, SIDES=sizes.sides, SUMS=sizes.sums, TEAM=shape.team, EACH=shape.each,
        STAGES=STAGES, BLOCKS=shape.blocks, SHARED=shape.shared_bytes,
    )  # fmt: skip
    return kernel, shape


def _sum(
    kind: str,
    rows: TensorRows,
    parameters: Tensor | None,
    sizes: Sizes,
    *,
    turn: float = 1.0,
    given: Tensor | None = None,
) -> Tensor | None:
    """Return what is added up at every place (s, ...); None where there is no room for it.

    `parameters` are (s, k, D + 2); `given` are the Gram factors themselves.
    """
    table, (width, n_rows) = rows.table, rows.table.shape
    places, k = (1, 1) if parameters is None else parameters.shape[:2]
    device = table.device.index or 0
    plan = planned(
        kind, width, k, sizes, weighted=rows.weights is not None, turn=turn, device=device
    )
    if plan is None:
        return None
    kernel, shape = plan
    threads = 32 * shape.team
    blocks = max(1, min(shape.blocks * card(device).multiprocessors, -(-n_rows // threads)))
    numbers = sizes.sums + sizes.sides * width + sizes.grams * width**2
    out = torch.empty((places, blocks, numbers), dtype=table.dtype, device=table.device)
    aligned = table.data_ptr() % 16 == 0 and table.stride(0) % 2 == 0
    with torch.cuda.device(device):
        kernel(
            (blocks, places), threads,
            (
                table, rows.codes, rows.weights, parameters, given, out, n_rows, table.stride(0),
                0 if given is None else given.stride(0), int(aligned),
            ),
        )  # fmt: skip
    return out.sum(dim=1)


def _fused(
    rows: TensorRows, parameters: Tensor, *, known: bool, curvature: str, turn: float = 1.0
) -> Tensor | None:
    """Return what a likelihood adds up at every place (s, k, D + 2) if one kernel does it."""
    k, width = parameters.shape[1:]
    if rows.codes is None or rows.limits is not None or width > _widest(curvature):
        return None
    kind = "known" if known else "exact" if curvature == "exact" else "unknown"
    sizes = Sizes.of(k, known=known, curvature=curvature)
    return _sum(kind, rows, parameters, sizes, turn=turn)


def sum_known_rows(rows: TensorRows, parameters: Tensor, *, curved: bool) -> Tensor:
    """Do what `torch_known.sum_known_rows` does."""
    curvature = "exact" if curved else "none"
    found = _fused(rows, parameters[None], known=True, curvature=curvature)
    if found is not None:
        return found[0]
    return torch_known.sum_known_rows(
        rows, parameters, curved=curved, terms_of=known_terms, grams_of=weighted_grams
    )


def sum_unknown_rows(
    rows: TensorRows, parameters: Tensor, *, side: float, curvature: str
) -> Tensor:
    """Do what `torch_unknown.sum_unknown_rows` does."""
    found = _fused(rows, parameters[None], known=False, curvature=curvature, turn=side)
    if found is not None:
        return found[0] if curvature != "exact" else _in_order(found[0], parameters, side)
    return torch_known.sum_unknown_rows(
        rows,
        parameters,
        side=side,
        curvature=curvature,
        terms_of=unknown_terms if len(parameters) <= MOST_PACKED else torch_known.unknown_terms,
        grams_of=weighted_grams,
    )


def sum_unknown_places(rows: TensorRows, parameters: Tensor, *, side: float) -> Tensor:
    """Do what `torch_unknown.sum_unknown_places` does, in one kernel for all places."""
    found = _fused(rows, parameters, known=False, curvature="none", turn=side)
    if found is not None:
        return found
    return torch_known.sum_unknown_places(rows, parameters, side=side, sum_of=sum_unknown_rows)


def _in_order(found: Tensor, parameters: Tensor, side: float) -> Tensor:
    """Put the sums of the exact Hessian in the order of `torch_unknown.sum_unknown_rows`."""
    k, width = parameters.shape
    sizes = [1 + k, k * k, k * width, k * k * width, k * width, k * width**2]
    plain, products, score, mixed, missing, own, cross = found.split(
        [*sizes, len(found) - sum(sizes)]
    )
    # The kernel adds up the products of chances above the diagonal alone.
    chances = products.reshape(k, k)
    chances = chances + chances.triu(1).T
    along = missing.reshape(k, width) * (side / parameters[:, -1])[:, None]
    grams = own.reshape(k, width, width).clone()
    grams[:, -1, :] -= along
    grams[:, :, -1] -= along
    return torch.cat([plain, score, grams.reshape(-1), chances.reshape(-1), mixed, cross])


def weighted_grams(table: Tensor, factors: Tensor) -> Tensor:
    """Do what `torch_rows.weighted_grams` does, reading the table once for all factors."""
    width, n_factors = len(table), len(factors)
    if width <= WIDEST_GRAMS:
        factors = factors.contiguous()
        found = _sum("given", TensorRows(table, table), None, Sizes(n_factors), given=factors)
        if found is not None:
            return found.reshape(n_factors, width, width)
    return torch_rows.weighted_grams(table, factors)


def _by_rows(
    name: str, a: Tensor, status: Tensor, weights: Tensor | None, *others: Tensor,
    k: int, side: float,
) -> None:  # fmt: skip
    """Run a kernel that evaluates rows one by one."""
    n_rows = a.shape[1]
    kernel = compiled(
        "terms.cu", name, a.device.index or 0, 0, K=k, WEIGHTED=int(weights is not None),
        TURN=int(side),
    )  # fmt: skip
    if n_rows:
        sizes = (n_rows, a.stride(0), status.stride(0))
        with torch.cuda.device(a.device):
            kernel(
                (-(-n_rows // THREADS), len(a) // k), THREADS,
                (a, status, weights, *others, *sizes),
            )  # fmt: skip


def known_terms(a: Tensor, status: Tensor, weights: Tensor | None) -> KnownTerms:
    """Do what `torch_known.known_terms` does, in one kernel."""
    residual, curvature, values = torch.empty((3, *a.shape), dtype=a.dtype, device=a.device)
    _by_rows("known_terms", a, status, weights, residual, curvature, values, k=1, side=1.0)
    observed = (status == status_codes.OBSERVED).to(a.dtype)
    observed = observed.sum(dim=1) if weights is None else torch.matmul(observed, weights)
    return KnownTerms(residual, curvature, values.sum(), observed)


def unknown_terms(
    a: Tensor, inverse_scale: Tensor, status: Tensor, weights: Tensor | None, *, side: float
) -> UnknownTerms:
    """Do what `torch_unknown.unknown_terms` does, in one kernel."""
    k, n_rows = a.shape
    logliks = torch.empty(n_rows, dtype=a.dtype, device=a.device)
    kept = torch.empty((7, k, n_rows), dtype=a.dtype, device=a.device)
    scales = inverse_scale.contiguous()
    _by_rows("unknown_terms", a, status, weights, scales, logliks, kept, k=k, side=side)
    return UnknownTerms(logliks, *kept)
