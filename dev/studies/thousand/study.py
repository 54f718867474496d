#!/usr/bin/env python3
"""A thousand layers (Wang et al. 2022, DeepNet, arXiv 2203.00555): do they learn with DeepNorm, and only with it?

64 channels, 128 in the feed-forward layer, 2 heads. DeepNorm, and Post-LN and Pre-LN as controls: the same steps, rate
and warm-up, each placement's own initialization, two seeds. DeepNet's optimizer: Adam (0.9, 0.98), no clipping, no
weight decay. The rate was not tuned.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, plt, table, unigram_line  # noqa: E402

study = Study(__doc__)
steps = 4000 if study.long else 600
tables = study.compare("thousand", f"""--layers 1000 --channels 64 --hidden 128 --heads 2 --context 128 --batch 2
    --steps {steps} --warmup {steps // 5} --lr 1e-4 --schedule constant --clip 0 --weight-decay 0 --beta2 0.98
    --eval-every {steps // 10} --eval-batches 20 --val-fraction 0.02 --save-every 0
    --grid placement=deepnorm,post,pre seed=1,2""")
figure, axis = plt.subplots(figsize=(6, 4))
for (placement, seed), curve in tables.curves.groupby(["placement", "seed"], sort=False):
    smooth = curve.train_loss.rolling(10, min_periods=1).mean()
    axis.plot(curve.step, smooth, "--" if seed > 1 else "-", color=COLOR[placement], label=f"{placement}, seed {seed}")
unigram_line(axis, tables.runs, name_at=4)
axis.set(xlabel="step", ylabel="training loss, mean of 10 steps", title="1000 layers")
axis.legend(fontsize=8)
rows = [[run.placement, run.seed, f"{run.initial_loss:.3f}", f"{run.final_val:.3f}", f"{run.unigram:.3f}", run.state]
        for run in tables.runs.itertuples()]
study.publish(figure, table(rows, ["placement", "seed", "initial loss", "final loss", "unigram entropy", "outcome"]))
