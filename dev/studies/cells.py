"""A study that compares the same cells on several texts and with several optimizers.

A part is one text with one optimizer: a comparison in which each cell tunes its rate and its warm-up together on a
separate seed, and then trains on other seeds. Cells that come close to the baseline may train on further seeds, at the
rate and the warm-up that the part found: a comparison named PART-more. The tables are made of what is stored, and the
picture of the parts.
"""

from dataclasses import dataclass
from pathlib import Path

import pandas
from common import interval, not_trained, outcome, plt, signed, stats, table, tuned_to
from words import holm

TUNED = {"adamw": ("AdamW", "1e-3,3e-3,9e-3"), "muon": ("Muon", "3e-3,9e-3,2.7e-2")}  # where the search begins
LOOKS = {"adamw": (-0.15, "white", "C0"), "muon": (0.15, None, "C1")}  # shift, face, color
TUNE_RUNS, SEEDS = 10, 5
MEASURES = "--eval-every 200 --eval-batches 20 --save-every 0"
CLOSE = 0.015  # nats: smaller differences to the baseline need twice as many seeds


@dataclass
class Cells:
    folder: Path  # of the study
    cells: dict  # name: keys of --grid
    baseline: str  # a name
    texts: dict  # label: title

    def parts(self):
        """{label: (text, optimizer)} in the order of training."""
        return {f"{text}-{optimizer}": (text, optimizer) for optimizer in TUNED for text in self.texts}

    def stored(self):
        return [part for part in self.parts() if (self.folder / f"{part}-runs.csv").exists()]

    def options(self, part, shared, more=lambda name: ""):
        """Options of the comparison of a part; `more` adds keys to a cell."""
        _, optimizer = self.parts()[part]
        seeds = f"seed={','.join(str(seed + 1) for seed in range(SEEDS))}"
        grid = " + ".join(f"{keys} {more(name)} {seeds}" for name, keys in self.cells.items())
        return f"""{shared} --optimizer {optimizer} {MEASURES}
            --grid {grid} --tune lr={TUNED[optimizer][1]} warmup=5%,20% --tune-runs {TUNE_RUNS}"""

    def close(self, part):
        """The names of a stored part's cells that differ from the baseline by less than CLOSE."""
        return [name for name, values in self.differences(part).items() if abs(values.mean()) < CLOSE]

    def more_options(self, part, shared, more=lambda name: ""):
        """Options of the comparison of close cells on further seeds; "" if none is close."""
        if not self.close(part):
            return ""
        _, optimizer = self.parts()[part]
        summary, _ = self.tables(part)
        tuned = {cell.name: f"lr={cell.peak_lr:g} warmup={cell.warmup}" for cell in summary.itertuples()}
        seeds = f"seed={','.join(str(seed + 1) for seed in range(SEEDS, 2 * SEEDS))}"
        grid = " + ".join(f"{self.cells[name]} {more(name)} {tuned[name]} {seeds}"
                          for name in [self.baseline, *self.close(part)])
        return f"{shared} --optimizer {optimizer} {MEASURES} --grid {grid}"

    def title(self, part):
        text, optimizer = self.parts()[part]
        return f"{self.texts[text]} with {TUNED[optimizer][0]}"

    def name_of(self, cell):
        """The name of a cell, which is the keys of --grid: "placement=pre,steps=800"."""
        fitting = [name for name, keys in self.cells.items() if f"{cell},".startswith(keys.replace(" ", ",") + ",")]
        return max(fitting, key=lambda name: len(self.cells[name]))

    def tables(self, part):
        """(summary, final runs) of a stored comparison, with the names of its cells."""
        summary, runs = (pandas.read_csv(self.folder / f"{part}-{name}.csv") for name in ("summary", "runs"))
        names = {cell: self.name_of(cell) for cell in summary.cell}
        final = runs[runs.stage == "final"]
        return summary.assign(name=summary.cell.map(names)), final.assign(name=final.cell.map(names))

    def losses(self, part):
        """Final losses: a row per seed, a column per cell whose runs all finished."""
        summary, runs = self.tables(part)
        good = runs.groupby("name").state.apply(lambda states: (states == "finished").all())
        wide = runs.pivot(index="seed", columns="name", values="final_val")
        return wide[[name for name in summary.name if good[name]]]

    def differences(self, part):
        """{name: differences to the losses of the baseline, seed by seed}."""
        final = self.losses(part)
        known = self.baseline in final
        return {name: final[name] - final[self.baseline] for name in final if known and name != self.baseline}

    def corrected(self, differences):
        """{name: p} of a part's differences, after Holm's correction."""
        tests = [stats.ttest_1samp(values, 0).pvalue for values in differences.values()]
        # A cell without a result stays one of the comparisons: it must not make the others significant.
        return dict(zip(differences, holm(tests, len(self.cells) - 1), strict=True))

    def more_table(self, part):
        """The close cells of a part on further seeds, and on all. The correction counts the other cells, too."""
        summary, runs = self.tables(f"{part}-more")
        before, now = self.differences(part), self.differences(f"{part}-more")
        whole = {name: pandas.concat([before[name], now[name]]) for name in now}
        p = self.corrected(before | whole)
        rows = [[name, outcome(runs[runs.name == name]),
                 *((signed(now[name]), signed(whole[name]), f"{p[name]:.2g}") if name in whole else ("", "", ""))]
                for name in summary.name]
        return table(rows, [f"{self.title(part)}, {SEEDS} more seeds", "final loss", f"minus {self.baseline}",
                            f"with {2 * SEEDS} seeds", "p (Holm)"])

    def table(self, part):
        summary, runs = self.tables(part)
        found = self.differences(part)
        p = self.corrected(found)
        own = [key for key in ("steps", "planned_steps") if key in summary]  # old and new name of a key of the grid
        rows = []
        for cell in summary.itertuples():
            row = [cell.name, *(getattr(cell, key) for key in own), ", ".join(tuned_to(cell)),
                   outcome(runs[runs.name == cell.name])]
            beside = (signed(found[cell.name]), f"{p[cell.name]:.2g}") if cell.name in found else ("", "")
            rows.append([*row, *beside])
        return table(rows, [self.title(part), *own, "rate, warm-up", "final loss", f"minus {self.baseline}",
                            "p (Holm)"])

    def published(self, caption, *more):
        """Text for README.md: the picture, the tables `more`, and a table for each stored part."""
        done = self.stored()
        lines = not_trained([self.title(part) for part in self.parts() if part not in done])
        if done:
            lines += [f"![{caption}]({self.folder.name}/picture.png)\n", *more]
        again = [part for part in done if (self.folder / f"{part}-more-runs.csv").exists()]
        return "\n".join([*lines, *map(self.table, done), *map(self.more_table, again)])

    def draw(self, axis, text):
        """Differences to the baseline on a text, with each optimizer."""
        names = [name for name in self.cells if name != self.baseline]
        for part in self.stored():
            own, optimizer = self.parts()[part]
            if own != text:
                continue
            shift, face, color = LOOKS[optimizer]
            for name, values in self.differences(part).items():
                mean, half = interval(values)
                axis.errorbar(mean, names.index(name) + shift, xerr=half, fmt="o", color=color, mfc=face, capsize=2)
            axis.plot([], [], "o", color=color, mfc=face, label=TUNED[optimizer][0])
        axis.axvline(0, color="0.5", linewidth=1)
        axis.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5), title=self.texts[text],
                 xlabel=f"final loss minus that of {self.baseline}")
        axis.locator_params(axis="x", nbins=6)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=8)

    def picture(self):
        """A panel for each text; None without a stored part."""
        if not self.stored():
            return None
        figure, axes = plt.subplots(1, len(self.texts), figsize=(3.2 * len(self.texts) + 3, 0.25 * len(self.cells) + 1),
                                    sharey=True)
        for axis, text in zip(axes, self.texts):
            self.draw(axis, text)
        return figure
