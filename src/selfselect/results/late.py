"""What stands around a fit, such as effects and pages: modules that are imported when used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import MethodType
from typing import Any


class LateModule:
    """A module that is imported when one of its functions is called, or looked up on a result.

    A function of it in the body of a class is a method, of which the function's first argument is
    the instance. To a type checker the module is the module itself, so signatures, docstrings and
    errors are those of the function::

        if TYPE_CHECKING:
            from selfselect import effects
        else:
            effects = LateModule("selfselect.effects")

        class FitResult:
            sorting = effects.sorting
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> LateFunction:
        if name.startswith("_"):
            raise AttributeError(name)
        return LateFunction(self._name, name)


class LateFunction:
    """A function of a `LateModule`: a method where it is in a class, else called as it is."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __set_name__(self, owner: type, name: str) -> None:
        # Bound methods are pickled by the name of their function.
        if name != self.name:
            raise TypeError(f"{owner.__name__}.{name} is not named as {self.module}.{self.name}")

    def load(self) -> Callable[..., Any]:
        """Import the function."""
        return getattr(import_module(self.module), self.name)

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        function = self.load()
        return function if instance is None else MethodType(function, instance)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.load()(*arguments, **options)
