"""`selfselect demo`: the whole story in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult
    from selfselect.simulators.sample import Sample

STORY = """\
In a village everyone hunts or fishes, whichever earns more. We see what each villager earned and
at which job, never what the other job would have paid. Least squares on the hunters alone is
biased: those who hunt are those who happened to be good at it.
"""


@click.command("demo")
@click.option("--rows", default=2_000, show_default=True, type=click.IntRange(min=100))
@click.option("--seed", default=1, show_default=True)
@click.option("--folder", default="demo", show_default=True, help="Where files are written.")
def command(rows: int, seed: int, folder: str) -> int:
    """Simulate hunters and fishers, fit them, and print, save and draw what comes out."""
    import selfselect as ss
    from selfselect.cli._streams import on_terminal
    from selfselect.cli._tables import write_table
    from selfselect.cli.main import NOT_CONVERGED
    from selfselect.errors import DataError, MissingDependencyError
    from selfselect.report.page import fold, paragraph
    from selfselect.results.streaming import whole_file

    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"The folder {folder!r} cannot be made: {error.strerror}.") from error
    with on_terminal():
        click.echo(f"{paragraph(STORY)}\n")
        sample = ss.simulators.village(rows, seed=seed)
        result = ss.fit(sample.formula, sample.data, chosen=sample.chosen)
        click.echo(f"{fold(_truth(sample, result))}\n")
        click.echo(f"{result.explain()}\n")
        click.echo(f"{result.summary()}\n")
    write_table(sample.data, str(target / "villagers.csv"), index=False)
    result.save(target / "fit.json")
    result.report(target / "fit.html")
    written = ["villagers.csv", "fit.json", "fit.html"]
    try:
        picture = ss.plots.selection_lines(result, "height", latent=sample.latent)
        with whole_file(target / "lines.png") as file:
            picture.axes[0].figure.savefig(file, format="png", dpi=150)
        written.append("lines.png")
    except MissingDependencyError as error:
        click.echo(f"No picture: {error}", err=True)
    click.echo(f"Written to {target}/: {', '.join(written)}. Now open {target / 'fit.html'}")
    return 0 if result.converged else NOT_CONVERGED


def _truth(sample: Sample, result: FitResult) -> str:
    """Tabulate the estimates of the slopes beside the truth, which a simulation knows."""
    shown = f"{'':16}{'truth':>8}{'least squares':>15}{'selfselect':>12}{'std err':>9}"
    table = sample.params.to_frame("truth").join(result.compare().table)
    for (job, term), truth, naive, _, fitted, error, _ in table.itertuples():
        if term not in ("Intercept", "scale"):
            shown += f"\n{job}, {term:10}{truth:5.2f}{naive:15.2f}{fitted:12.2f}{error:9.2f}"
    return f"This village is simulated, so the truth is known. Slopes of income:\n{shown}"
