"""What keeps rows from being independent draws: clusters, and weights that say how."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Dependence"]


@dataclass(frozen=True)
class Dependence:
    """What keeps rows from being independent draws of the model.

    Attributes
    ----------
    clusters : how many clusters there are, one number per way of clustering.
    cluster_name : the name of the cluster column.
    weights_kind : frequency or probability; None where it was not said.
    by_person : whether clusters are the people whose rows the model takes together.
    """

    clusters: tuple[int, ...] = ()
    cluster_name: str | None = None
    weights_kind: str | None = None
    by_person: bool = False

    @property
    def repeated(self) -> bool:
        """Whether every row stands for as many as its weight says."""
        return self.weights_kind == "frequency"

    @property
    def reason(self) -> str | None:
        """Say what it is; None where the model knows how sums over rows vary."""
        if self.clusters and not self.by_person:
            return f"rows are clustered by {self.cluster_name}"
        return "rows have probability weights" if self.weights_kind == "probability" else None
