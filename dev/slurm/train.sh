#!/usr/bin/env bash
# A training run on several nodes, which continues in a new job when its time is over:
#
#   sbatch --nodes 4 dev/slurm/train.sh my.txt --preset gpt2 --size 124M --accumulate 8 --steps 100000 --out runs/long
#
# Build with `make MPI=1` first, on a node of the same kind. The words after the script's name are passed to `train_gpt
# train`. They must include --out, with a folder that the first node sees.
#SBATCH --job-name=train_gpt
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
set -u

out=
for ((i = 1; i < $#; ++i)); do
  [ "${!i}" = --out ] && { next=$((i + 1)) out=${!next}; }
done
[ -n "$out" ] || { echo "train.sh: name the run: --out FOLDER" >&2; exit 2; }

resume=()
[ -e "$out/config.toml" ] && [ ! -e "$out/outcome.json" ] && resume=(--resume)
srun --kill-on-bad-exit=1 ${TRAIN_GPT:-build/train_gpt} train "$@" ${resume[@]+"${resume[@]}"}
status=$?

# Three minutes before the end of the job, SLURM sends SIGUSR1. The run saves itself and ends with 128 + 10.
if [ $status = 138 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $status
