#!/usr/bin/env bash
# Compares with the programs that our exported files are for.
#
#   dev/peers.sh LLMC_CHECKOUT [LLAMA2C_CHECKOUT]
#
# llm.c (karpathy/llm.c) reads an exported GPT-2 of three layers. Compares its loss, logits and every gradient for one
# batch, and its losses for ten steps of AdamW, with ours. llama2.c (karpathy/llama2.c) reads an exported Llama and
# writes greedy text, which must equal ours. Compiles both into build/peers and leaves their checkouts unchanged.
set -eu
die() { printf 'peers: %s\n' "$*" >&2; exit 2; }
[ $# -ge 1 ] && [ -e "$1/train_gpt2.c" ] || die "say where llm.c is: dev/peers.sh LLMC_CHECKOUT [LLAMA2C_CHECKOUT]"
llmc=$(cd "$1" && pwd)
llama2c=${2:+$(cd "$2" && pwd)}
[ -z "$llama2c" ] || [ -e "$llama2c/run.c" ] || die "$2 has no run.c"
cd "$(dirname "$0")/.."
unset MAKEFLAGS MFLAGS MAKELEVEL

out=$(make -pn build/train_gpt 2>/dev/null | sed -n 's/^OUT := //p' | tail -n 1)
make build/train_gpt "$out/dev/peers/peers" >/dev/null
ours=$PWD/$out/dev/peers/peers program=$PWD/build/train_gpt work=build/peers
rm -rf "$work" && mkdir -p "$work" && cd "$work"
sizes='--layers 3 --heads 4 --channels 64 --context 64 --batch 8 --warmup 1 --lr 3e-3 --eval-every 0 --quiet'
"$program" corpus --grammar tales --bytes 300k --seed 1 --out tales.txt >/dev/null
compiler=${CC:-cc}

echo "llm.c"
"$program" train tales.txt --preset gpt2 --tokenizer bpe:300 $sizes --steps 60 --out gpt2 >/dev/null
"$program" export gpt2 --to llmc --out llmc >/dev/null
# -Ofast, which llm.c's Makefile has, would lose the NaN that softmax and tests look for.
$compiler -O3 -w -I"$llmc" -o llmc-peer ../../dev/peers/llmc.c -lm
"$ours" batch llmc llmc/model_debug_state.bin
./llmc-peer llmc/model.bin llmc/model_debug_state.bin theirs.bin >losses.txt
"$ours" compare llmc theirs.bin losses.txt

[ -n "$llama2c" ] || exit 0
echo "llama2.c"
$compiler -O3 -w -o llama2c-run "$llama2c/run.c" -lm
failed=0
for options in '--kv-heads 2' '--tied'; do
  "$program" train tales.txt --preset llama2 --tokenizer ../../test/reference/pieces/llama2.model $options $sizes \
    --steps 200 --out llama --force >/dev/null
  "$program" export llama --to llama2c --out llama2c --force >/dev/null
  for prompt in '' 'One day' 'The cat, 3 "hats" and Zoë'; do
    theirs=$(./llama2c-run llama2c/model.bin -t 0 -n 60 -i "$prompt" -z llama2c/tokenizer.bin 2>/dev/null)
    mine=$("$ours" generate llama2c "$prompt" 60)
    if [ "$mine" = "$theirs" ]; then
      printf '%-12s %-28s same %d bytes\n' "$options" "'$prompt'" ${#theirs}
    else
      printf '%s %s differs\n  ours:   %s\n  theirs: %s\n' "$options" "'$prompt'" "$mine" "$theirs"
      failed=1
    fi
  done
done
exit "$failed"
