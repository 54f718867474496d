#!/usr/bin/env bash
# A comparison as a job array, each job with its part of the runs:
#
#   sbatch --array=1-16 dev/slurm/compare.sh --grid placement=post,pre seed=1,2,3,4 --data my.txt --out runs/grid
#
# The job that ends last writes the tables. If you submit the array again, it trains the runs that killed jobs left.
#SBATCH --job-name=compare
#SBATCH --ntasks=1
#SBATCH --time=04:00:00
#SBATCH --open-mode=append
exec ${TRAIN_GPT:-build/train_gpt} compare "$@" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
