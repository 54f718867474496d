#!/usr/bin/env python3
"""A thousand layers with DeepNorm (Wang et al. 2022, DeepNet, arXiv 2203.00555): they learn.

64 channels, 128 in the feed-forward layer, 2 heads; one seed. DeepNet's optimizer: Adam (0.9, 0.98), no clipping, no
weight decay.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import COLOR, Study, plt, table, unigram_line  # noqa: E402

study = Study(__doc__)
steps = 4000 if study.long else 1200
tables = study.compare("thousand", f"""--layers 1000 --channels 64 --hidden 128 --heads 2 --context 128 --batch 2
    --steps {steps} --warmup {steps // 10} --lr 1e-4 --schedule constant --clip 0 --weight-decay 0 --beta2 0.98
    --eval-every {steps // 10} --eval-batches 5 --val-fraction 0.005 --save-every 0
    --grid placement=deepnorm seed=1""", jobs=1)
run = tables.runs.iloc[0]
figure, axis = plt.subplots(figsize=(6, 4))
step, loss = tables.curves.step, tables.curves.train_loss
axis.plot(step, loss, color=COLOR["deepnorm"], alpha=0.4, linewidth=0.8)
axis.plot(step, loss.rolling(10, min_periods=1).mean(), color=COLOR["deepnorm"], label="mean of 10 steps")
unigram_line(axis, tables.runs, name_at=-11)
axis.set(xlabel="step", ylabel="training loss", title="DeepNorm, 1000 layers, one seed")
axis.legend()
losses = [f"{nats:.3f}" for nats in (run.initial_loss, run.final_val, run.unigram)]
study.publish(figure, table([[f"{run.parameters:,}", *losses, run.state]],
                            ["parameters", "initial loss", "final loss", "unigram entropy", "outcome"]))
