"""Writes test/pytorch with torch.save, for test/data/formats/test_pytorch.cpp.

    python python_ref/pytorch_fixtures.py

- llama-bf16-1.bin and -2.bin: the weights of test/huggingface/llama in two files, and llama-bf16.json, which lists them
- gpt2-f16.bin: those of test/huggingface/gpt2, with constants and a tied head, as transformers 4 saved them
- views.bin: tensors with strides and shared storages, NAME, and copies without, NAME.want
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

TESTS = Path(__file__).parent.parent / "test"
OUT = TESTS / "pytorch"


def weights(name):
    return load_file(TESTS / "huggingface" / name / "model.safetensors")


def views():
    x = torch.arange(60.0) ** 1.5
    parts = {
        "whole": x, "part": x[7:19], "every third": x[1:50:3], "matrix": x.view(6, 10), "transposed": x.view(6, 10).T,
        "block": x.view(6, 10)[1:4, 2:9:2], "turned": x.view(3, 4, 5).permute(2, 0, 1), "one": x[5], "none": x[:0],
        "row": x[:4].view(1, 4).expand(1, 4), "parameter": torch.nn.Parameter(x[2:4]), "half": x.half().view(10, 6).T,
        "bfloat": x.bfloat16()[3:8],
    }  # fmt: skip
    return parts | {f"{name}.want": part.detach().float().contiguous().clone() for name, part in parts.items()}


def main():
    OUT.mkdir(exist_ok=True)
    llama = weights("llama")
    names, index = sorted(llama), {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"llama-bf16-{number}.bin"
        torch.save({name: llama[name].bfloat16() for name in part}, OUT / file)
        index |= dict.fromkeys(part, file)
    (OUT / "llama-bf16.json").write_text(json.dumps({"metadata": {}, "weight_map": index}, indent=1) + "\n")
    gpt2 = torch.nn.Module().state_dict()  # an OrderedDict with attributes
    gpt2 |= {name: tensor.half() for name, tensor in weights("gpt2").items()}
    gpt2["transformer.h.0.attn.bias"] = torch.ones(2, 2, dtype=torch.bool)
    gpt2["transformer.h.0.attn.masked_bias"] = torch.tensor(-1e4)
    gpt2["lm_head.weight"] = gpt2["transformer.wte.weight"]
    torch.save(gpt2, OUT / "gpt2-f16.bin")
    torch.save(views(), OUT / "views.bin")


if __name__ == "__main__":
    main()
