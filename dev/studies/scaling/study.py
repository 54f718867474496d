#!/usr/bin/env python3
"""Does the exponent of a scaling law depend on the placement and the optimizer, or its coefficient only?

Six placements with AdamW and with Muon, in five widths that differ 16-fold in the parameters of their blocks, on 20
tokens a parameter of a lexicon, whose entropy E is known. Each tunes its rate and its warm-up at the middle width, and
mup hands them on. A part is one placement with one optimizer, and its tables are stored when it ends. --keep trains
only parts that are not stored yet, --only those that it names, --stored none. Build with `make MARCH=x86-64-v3`: the
runs then have the same bits on every processor with AVX2.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy  # noqa: E402
import pandas  # noqa: E402
from cells import TUNED as OPTIMIZERS  # noqa: E402
from common import (ROOT, Study, interval, look_of, not_trained, note_of, part_options, plt, shown,  # noqa: E402
                    table, tuned_to)
import scaling  # noqa: E402
import series  # noqa: E402
import style  # noqa: E402

HERE = Path(__file__).parent
LEXICON = ROOT / "build" / "lexicon-16M.txt"  # 80 channels read 7 million tokens
PLACEMENTS = ["pre", "post", "sandwich", "deepnorm", "reordered", "none"]
WIDTHS = [20, 28, 40, 56, 80]  # channels
TUNED, CHECKED = 40, 20  # where a cell tunes, and where it tunes again to check that this transfers
SEEDS = 3
BASELINE = "pre"


def parts():
    """(placement, optimizer) in the order of training."""
    return [(placement, optimizer) for optimizer in OPTIMIZERS for placement in PLACEMENTS]


def label_of(part, *more):
    return "-".join([*part, *more])


def stored_parts():
    """Those whose widths were all trained, at the values that were found."""
    return [part for part in parts()
            if is_tuned(part) and all(note_of(HERE, *named) for named in comparisons(part).items())]


def final_runs(part, what):
    """The runs of a comparison of a part that no search made."""
    runs = pandas.read_csv(HERE / f"{label_of(part, what)}-runs.csv")
    return runs[runs.stage == "final"]


def runs_of(part):
    """The runs of all widths at the rate and the warm-up that were found."""
    return pandas.concat([final_runs(part, "tune" if width == TUNED else str(width)).assign(channels=width)
                          for width in WIDTHS], ignore_index=True)


def is_tuned(part):
    return (HERE / f"{label_of(part, 'tune')}-summary.csv").exists()


def found_at(part, what):
    """The row of the summary of what was tuned: "tune", or "check"."""
    return next(pandas.read_csv(HERE / f"{label_of(part, what)}-summary.csv").itertuples())


# ---- training --------------------------------------------------------------------------------------------


def options_of(part, width):
    placement, optimizer = part
    return f"""--placement {placement} --optimizer {optimizer} --layers 4 --channels {width} --heads 2
        --parametrization mup --base-channels {TUNED} --base-heads 2 --context 152 --batch 4 --tokens-per-parameter 20
        --min-lr 0 --eval-every 1000 --eval-batches 20 --val-fraction 0.02 --save-every 0
        --grid seed={",".join(map(str, range(1, SEEDS + 1)))}"""


def searches(part):
    """{label: options}: the comparison that tunes a part, and the one that checks whether what it found transfers."""
    tune = f" --tune lr={OPTIMIZERS[part[1]][1]} warmup=5%,20% --tune-runs 10"
    widths = {"tune": TUNED, "check": CHECKED}
    return {label_of(part, what): options_of(part, width) + tune for what, width in widths.items()}


def other_widths(part):
    """{label: options}: the widths that a part did not tune, at the values that it found."""
    found = found_at(part, "tune")
    values = f" --lr {found.peak_lr:g} --warmup {found.warmup}"
    return {label_of(part, str(width)): options_of(part, width) + values for width in WIDTHS if width != TUNED}


def comparisons(part):
    """{label: options} of a part; without the widths that are not tuned until the search has ended."""
    return {**searches(part), **(other_widths(part) if is_tuned(part) else {})}


def lexicon(study):
    """Words that train on a lexicon. Each of its lines fits into the context, or no model could reach its entropy."""
    if not LEXICON.exists():
        study.run("corpus", "--grammar", "lexicon", "--bytes", "16M", "--seed", "1", "--out", str(LEXICON))
    return ["--data", str(LEXICON)]


# ---- laws ------------------------------------------------------------------------------------------------


def group_of(part):
    """The widths of a part whose seeds all finished."""
    rows = [{"size": width, "parameters": some.parameters.mean(), "flops": series.flops_of(some).mean(),
             "mean": some.final_val.mean(), "losses": dict(zip(some.seed, some.final_val))}
            for width, some in runs_of(part).groupby("channels") if (some.state == "finished").all()]
    points = pandas.DataFrame(rows).sort_values("parameters", ignore_index=True) if rows else pandas.DataFrame(rows)
    looks = style.styles([{"placement": part[0]}])[0]
    return scaling.Group(part[0], looks, list(points.index), part[0] == BASELINE, points)


def groups():
    """{part: its group, with laws}. The bootstrap draws the same seeds for all parts of an optimizer."""
    found = {}
    for optimizer in OPTIMIZERS:
        own = {part: group_of(part) for part in stored_parts() if part[1] == optimizer}
        if own:
            floor = runs_of(next(iter(own))).floor.iloc[0]
            scaling.add_laws(list(own.values()), floor)
        found |= own
    return found


def law_of(group, x="parameters"):
    """The law of a group with E known, or None if there is none or its means are far off it."""
    law = group.laws.get((x, True))
    return law if law and law.miss <= scaling.FAR else None


def exponent_difference(ours, baseline):
    """Exponent minus that of the baseline, with the middle 95 % of the bootstrap; "" without both laws."""
    laws = [law_of(group) if group else None for group in (ours, baseline)]
    if ours is baseline or None in laws or not all(law.resampled for law in laws):
        return ""
    each = [a.alpha - b.alpha for a, b in zip(laws[0].resampled, laws[1].resampled, strict=True)]
    low, high = scaling.interval(each)
    return f"{laws[0].law.alpha - laws[1].law.alpha:+.3f} ({low:+.3f} to {high:+.3f})"


# ---- tables and picture ----------------------------------------------------------------------------------


def rates_of(part):
    """What was found at the width that was tuned, and at the one that checks it, with the loss there."""
    found, checked = (", ".join(tuned_to(found_at(part, what))) for what in ("tune", "check"))
    return found, f"{checked}: {shown(final_runs(part, 'check').final_val)}"


def loss_table(found):
    rows = []
    for part, group in found.items():
        losses = dict(zip(group.points["size"], group.points.losses)) if len(group.points) else {}
        rows.append([part[0], OPTIMIZERS[part[1]][0], *rates_of(part),
                     *(shown(losses[width].values()) if width in losses else "not all finished" for width in WIDTHS)])
    return table(rows, ["placement", "optimizer", f"rate, warm-up, tuned at {TUNED} channels", f"at {CHECKED}",
                        f"final loss, {WIDTHS[0]} channels", *map(str, WIDTHS[1:])])


def law_row(part, group, baseline):
    fixed, fitted = (group.laws.get(("parameters", kind)) for kind in (True, False))
    if not law_of(group):
        return [part[0], OPTIMIZERS[part[1]][0], "no law", "", f"{100 * fixed.miss:.0f} %" if fixed else ""] + [""] * 3

    def text(found, name, form):
        return form(getattr(found.law, name)) + scaling.range_text(found.intervals.get(name), form) if found else ""

    return [part[0], OPTIMIZERS[part[1]][0], text(fixed, "alpha", "{:.3f}".format), text(fixed, "A", "{:.3g}".format),
            f"{100 * fixed.miss:.0f} %", exponent_difference(group, baseline), text(fitted, "E", "{:.3f}".format),
            scaling.saving_text(group.saving) if group.saving else ""]


def published():
    """The tables in README.md, from the parts that are stored."""
    found = groups()
    rows = [law_row(part, group, found.get((BASELINE, part[1]))) for part, group in found.items()]
    laws = table(rows, ["placement", "optimizer", "α, E known", "A", "off the law", f"α minus α of {BASELINE}",
                        "E, if fitted", "at equal loss"])
    missing = [f"{part[0]} with {OPTIMIZERS[part[1]][0]}" for part in parts() if part not in found]
    lines = not_trained(missing)
    if found:
        picture_link = "![Loss above the entropy against FLOPs, and exponents](scaling/picture.png)\n"
        lines += [picture_link, loss_table(found), laws]
    return "\n".join(lines)


def draw_laws(axis, found, optimizer):
    """Loss above the floor against FLOPs, with the laws."""
    own = {placement: group for (placement, by), group in found.items() if by == optimizer and len(group.points)}
    if not own:
        axis.set_axis_off()
        return
    for placement, group in own.items():
        floor, look = runs_of((placement, optimizer)).floor.iloc[0], look_of(placement)
        means, halves = zip(*(interval(losses.values()) for losses in group.points.losses))
        above = numpy.array(means) - floor
        axis.errorbar(group.points.flops, above, yerr=halves, label=placement, capsize=2, **{**look, "linestyle": ""})
        if law := law_of(group, "flops"):
            x = group.points.flops
            axis.plot(x, law.law.at(x) - floor, look["linestyle"], color=look["color"])
    axis.set(xscale="log", yscale="log", xlabel="FLOPs of a run", ylabel="final loss minus the text's entropy",
             title=OPTIMIZERS[optimizer][0])
    axis.legend(fontsize=8)


def draw_exponents(axis, found):
    for optimizer, shift, face in ("adamw", -0.12, "white"), ("muon", 0.12, None):
        for (placement, by), group in found.items():
            fit = law_of(group)
            if by == optimizer and fit and fit.intervals:
                low, high = fit.intervals["alpha"]
                axis.plot([low, high], [PLACEMENTS.index(placement) + shift] * 2, color=look_of(placement)["color"])
                axis.plot(fit.law.alpha, PLACEMENTS.index(placement) + shift, "o", mfc=face,
                          color=look_of(placement)["color"])
        axis.plot([], [], "o", color="0.4", mfc=face, label=OPTIMIZERS[optimizer][0])
    axis.set(yticks=range(len(PLACEMENTS)), yticklabels=PLACEMENTS, ylim=(len(PLACEMENTS) - 0.5, -0.5),
             xlabel="exponent α of the parameters", title="exponents, with E known")
    axis.legend(fontsize=8)


def picture():
    found = groups()
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6))
    for axis, optimizer in zip(axes, OPTIMIZERS):
        draw_laws(axis, found, optimizer)
    draw_exponents(axes[2], found)
    return figure


def publish(study):
    study.publish(picture() if stored_parts() else None, published())


def main():
    study = Study(__doc__, part_options([label_of(part) for part in parts()]))
    for name in study.parts_to_train({label_of(part): comparisons(part) for part in parts()}):
        part = tuple(name.split("-"))
        for label, options in searches(part).items():
            study.compare(label, options, text=lexicon(study))
        for label, options in other_widths(part).items():
            study.compare(label, options, text=lexicon(study))
        publish(study)
    publish(study)


if __name__ == "__main__":
    main()
