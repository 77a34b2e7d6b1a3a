"""Builds the compiled kernels; everything else is in `pyproject.toml`.

One source is compiled once per instruction set, and the module chooses among them when it is
loaded. Where nothing can be compiled, the installation is pure Python.
"""

import os
import platform
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "src"))

from selfselect.kernels.compiled import SOURCES, source_digest  # noqa: E402

FLAGS = [
    "-std=c++17", "-O3", "-g0", "-fvisibility=hidden", "-ffp-contract=fast",
    # Neither errno nor floating-point exceptions are read; NaN and infinity keep their meaning.
    "-fno-math-errno", "-fno-trapping-math",
]  # fmt: skip

INSTRUCTION_SETS = {"baseline": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    INSTRUCTION_SETS |= {
        "avx2": ["-mavx2", "-mfma"],
        "avx512": [
            "-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma",
            "-mprefer-vector-width=512",
        ],
    }  # fmt: skip


class BuildKernels(build_ext):
    """Compile the kernels once per instruction set, and the module around them."""

    def run(self):
        # An editable installation; while it builds, setuptools says otherwise.
        self.beside_sources = bool(self.inplace)
        super().run()

    def build_extension(self, ext):
        target = Path(self.get_ext_fullpath(ext.name))
        digest = source_digest(SOURCES)
        built = SOURCES.parent / target.name
        if is_current(built, digest) and not self.force:
            target.parent.mkdir(parents=True, exist_ok=True)
            if not (target.exists() and target.samefile(built)):
                shutil.copy2(built, target)
            return
        # If anything fails from here on, a stale module must not stay behind.
        target.unlink(missing_ok=True)
        if self.beside_sources:
            built.unlink(missing_ok=True)
        jobs = {"module": (["-DHAVE_X86"] if "avx2" in INSTRUCTION_SETS else [])}
        jobs |= {
            name: [f"-DKERNELS=kernels_{name}", *INSTRUCTION_SETS[name]]
            for name in INSTRUCTION_SETS
        }

        def compile_one(name):
            source = "module.cpp" if name == "module" else "kernels.cpp"
            return self.compiler.compile(
                [str(SOURCES / source)],
                output_dir=str(Path(self.build_temp) / name),
                macros=[("SOURCE_DIGEST", f'"{digest}"')],
                include_dirs=self.include_dirs,
                extra_postargs=[*FLAGS, *jobs[name]],
            )

        with ThreadPoolExecutor() as pool:
            objects = [made for found in pool.map(compile_one, jobs) for made in found]
        self.compiler.link_shared_object(objects, str(target), target_lang="c++")


def sources(pattern):
    """List sources, relative to this file as setuptools wants them."""
    return [str(path.relative_to(HERE.resolve())) for path in sorted(SOURCES.glob(pattern))]


def is_current(built, digest):
    """Say whether a module was built from these sources, by this file, without extra flags."""
    if {"CFLAGS", "CXXFLAGS"} & set(os.environ) or not built.is_file():
        return False
    newer = built.stat().st_mtime > (HERE / "setup.py").stat().st_mtime
    return newer and f"digest of the sources: {digest}".encode() in built.read_bytes()


setup(
    ext_modules=[
        Extension(
            "selfselect.kernels._native",
            sources("*.cpp"),
            depends=sources("*.hpp"),
            py_limited_api=True,
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildKernels},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
