"""`selfselect demo`: the whole story in one command."""

from __future__ import annotations

from pathlib import Path

import click

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
    """Simulate hunters and fishers, fit them naively and corrected, print, save and draw both."""
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
        click.echo(f"{result.summary()}\n")
        click.echo(f"{result.compare()}\n")
        click.echo(fold(_truth(sample, result)))
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
    click.echo(f"Written to {target}/: {', '.join(written)}")
    return 0 if result.converged else NOT_CONVERGED


def _truth(sample: object, result: object) -> str:
    """Say how far each estimate of the slopes is from the truth, which a simulation knows."""
    lines = ["Since the village is simulated, the truth is known:"]
    table = result.compare().table  # type: ignore[attr-defined]
    for label, value in sample.params.items():  # type: ignore[attr-defined]
        if label[1] in ("Intercept", "scale"):
            continue
        naive, corrected = table.loc[label, "naive"], table.loc[label, "corrected"]
        lines.append(
            f"  {label[0]:>8}, {label[1]}: truth {value:6.2f}, least squares {naive:6.2f}, "
            f"corrected {corrected:6.2f} (std err {table.loc[label, 'corrected_se']:.2f})"
        )
    return "\n".join(lines) + "\n"
