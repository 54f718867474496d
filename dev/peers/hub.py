"""Tries 40 small models of the Hugging Face hub: in, through three steps of training, and back out.

    python dev/peers/hub.py [--program build/train_gpt] [--page] [NAME...]

hub.json has their published config.json. Here each is shrunk: few layers and channels, 256 tokens, a short context. All
other keys are the published ones. `transformers` makes random weights in the published number type. Then

- the logits of `train_gpt eval` must be those of `transformers` in float64;
- after `train --init-from` and `export`, all files but the weights must have the same bytes, `transformers` must load
  the folder without a missing tensor, and its loss must be that of `eval`;
- exported without training, the tensors must have the same values and types;
- exported as GGUF, llama.cpp must find the loss of `transformers`, and so must `eval` of that file. NOT_GGUF lists the
  classes and models that llama.cpp does not compute.

Prints "N passed, N failed"; --page also writes the table into data/formats/huggingface/README.md. Needs
requirements-huggingface.txt, requirements-gguf.txt and no network.
"""

import argparse
import json
import math
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers as hf
from safetensors.torch import load_file, save_file

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "python_ref"))
from check_gguf import LlamaCpp  # noqa: E402
from checks import Checks  # noqa: E402

PAGE = HERE.parent.parent / "data" / "formats" / "huggingface" / "README.md"
BEGIN, END = "<!-- dev/peers/hub.py writes this table -->\n", "<!-- end -->\n"
T = 80
TEXT = ("One day the fox met a crow. The crow had cheese, and the fox had a plan.\n" * 80).encode()[: 40 * T + 1]

# llama.cpp has no OPT and no GPT-Neo, GELU in its tanh form only, and no window of Phi-3.
NOT_GGUF = {
    "OPTForCausalLM": "--", "GPTNeoForCausalLM": "--", "GPTNeoXForCausalLM": '--activation "gelu"',
    "microsoft/Phi-3-mini-4k-instruct": "has no --window",
}  # fmt: skip
GGUF_BOUND = 3e-4  # of the loss; 6e-5
# What a folder has beside config.json and the weights.
OTHER_FILES = {
    "generation_config.json": '{"do_sample": true, "temperature": 0.7, "eos_token_id": [3, 5]}',
    "tokenizer_config.json": '{"chat_template": "{{ messages }}", "model_max_length": 8192}',
    "special_tokens_map.json": '{"eos_token": "<|im_end|>"}',
    "chat_template.jinja": "{% for message in messages %}{{ message.content }}{% endfor %}\n",
}
# Sizes that a shrunk model has, by their names in config.json.
SIZES = {
    "hidden_size n_embd n_embed": 32, "num_attention_heads n_head num_heads": 4, "intermediate_size ffn_dim": 48,
    "head_dim query_pre_attn_scalar": 8, "vocab_size": 256, "sliding_window window_size": 5,
    "max_position_embeddings n_positions n_ctx seq_length": T,
}  # fmt: skip


def layers_of(config):
    """As few as show every kind of layer."""
    kinds = {"gemma3_text": 6, "smollm3": 4}
    return kinds.get(config["model_type"], 2)


def shrunk(config):
    small, layers = dict(config), layers_of(config)
    whole_pairs = {"hidden_size": 40} if config.get("partial_rotary_factor") == 0.4 else {}
    for names, size in SIZES.items():
        small |= {name: size for name in names.split() if config.get(name) is not None}
    small |= whole_pairs
    if (config.get("sliding_window") or 0) >= config.get("max_position_embeddings", math.inf):
        small["sliding_window"] = T  # it hides nothing
    small |= {name: layers for name in ("num_hidden_layers", "n_layer", "num_layers") if name in config}
    small |= {name: config[name][:layers] for name in ("layer_types", "no_rope_layers", "attention_layers")
              if name in config}
    if "attention_types" in config:
        small["attention_types"] = [[["global", "local"], layers // 2]]
    if config.get("num_key_value_heads"):
        kv, heads = config["num_key_value_heads"], config["num_attention_heads"]
        small["num_key_value_heads"] = 4 if kv == heads else min(kv, 2)
    if "word_embed_proj_dim" in config:
        small["word_embed_proj_dim"] = 32 if config["word_embed_proj_dim"] == config["hidden_size"] else 16
    scaling = config.get("rope_scaling")
    if scaling and "original_max_position_embeddings" in scaling:
        small["rope_scaling"] = scaling | {"original_max_position_embeddings": 20}
    if scaling and "long_factor" in scaling:
        pairs = int(8 * config["partial_rotary_factor"]) // 2  # of the shrunk heads
        few = {name: scaling[name][:pairs] for name in ("long_factor", "short_factor")}
        small |= {"rope_scaling": scaling | few, "original_max_position_embeddings": 20}
    return small


def loaded(folder, **how):
    """The model in float64. A token number beyond the shrunk vocabulary cannot be that of padding."""
    config = hf.AutoConfig.from_pretrained(folder)
    config.pad_token_id = None
    return hf.AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=torch.float64, attn_implementation="eager", **how)


class Hub(Checks):
    def __init__(self, program, folder, name):
        super().__init__(program, folder)
        self.name, self.worst = name, 0  # the error of the loss in llama.cpp
        (folder / "text.txt").write_bytes(TEXT)

    def check(self, what, ok, detail=""):
        super().check(f"{self.name}: {what}", ok, detail)

    def publish(self, config):
        """Writes the folder as the hub has it."""
        folder = self.folder / "hub"
        folder.mkdir()
        for name, text in OTHER_FILES.items():
            (folder / name).write_text(text)
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        read = hf.AutoConfig.from_pretrained(folder)
        read.pad_token_id = None
        torch.manual_seed(17)
        model = hf.AutoModelForCausalLM.from_config(read, dtype=torch.float32)
        with torch.no_grad():
            for w in model.parameters():
                w.copy_(torch.randn_like(w) * 0.3 if w.ndim > 1 else w + torch.randn_like(w) * 0.2)
        stored = self.folder / "stored"
        model.to(getattr(torch, config.get("torch_dtype", "float32"))).save_pretrained(stored)
        save_file(load_file(stored / "model.safetensors"), folder / "model.safetensors", {"format": "pt"})

    def loss_of_eval(self, folder):
        done = self.must(f"eval {folder} --data text.txt --batch 4 --logits logits.npy --force")
        return float(re.search(r"loss ([0-9.]+) nats", done.stdout.decode())[1])

    def comes_in(self):
        self.loss_of_eval("hub")
        ours = torch.from_numpy(np.load(self.folder / "logits.npy")).double()
        tokens = torch.tensor(list(TEXT))[: ours.shape[0] * T].view(-1, T)
        with torch.no_grad():
            theirs = loaded(self.folder / "hub")(input_ids=tokens).logits
        error = ((ours - theirs).abs().max() / theirs.abs().max()).item()
        self.check("logits", error < 1e-5, f"differ by {error:.1e}")
        return error

    def goes_back(self, folder):
        names = ["config.json", *OTHER_FILES]
        same = [name for name in names if (self.folder / "hub" / name).read_bytes() ==
                (self.folder / folder / name).read_bytes()]
        self.check(f"the files in {folder}", same == names, f"others: {set(names) - set(same)}")

    def is_trained(self):
        self.must("train text.txt --init-from hub --steps 3 --warmup 1 --lr 1e-3 --batch 4 --quiet --out run")
        self.must("export run --to hf --dtype f32 --out exact")
        self.must("export run --to hf --out back")
        self.goes_back("back")
        model, info = loaded(self.folder / "exact", output_loading_info=True)
        lost = {k: v for k, v in info.items() if v}
        self.check("tensors", not lost, lost)
        ids = torch.tensor(list(TEXT))
        with torch.no_grad():
            logits = model(input_ids=ids[:-1].view(-1, T)).logits
        theirs, ours = F.cross_entropy(logits.flatten(0, 1), ids[1:]).item(), self.loss_of_eval("exact")
        self.check("loss after training", abs(theirs - ours) < 1e-4, f"{theirs:.6f}, and {ours:.6f} by eval")

    def is_handed_on(self):
        self.must("export hub --to hf --out same")
        self.goes_back("same")
        first, second = (load_file(self.folder / where / "model.safetensors") for where in ("hub", "same"))
        for key in first:
            if key.endswith("decoder.embed_positions.weight"):  # OPT never reads the first two rows
                first[key], second[key] = first[key][2:], second[key][2:]
        equal = all(key in second and torch.equal(w, second[key]) and w.dtype == second[key].dtype
                    for key, w in first.items())
        self.check("the tensors", equal and first.keys() == second.keys(), f"{first.keys() ^ second.keys()}")

    def in_llama_cpp(self, kind):
        """The architecture of the GGUF file, or "no". Token n is the character n."""
        config = json.loads((self.folder / "hub" / "config.json").read_text())
        config["train_gpt_tokenizer"] = {"kind": "char", "codepoints": list(range(256))}
        (self.folder / "hub" / "config.json").write_text(json.dumps(config))
        done = self.run("export hub --to gguf --dtype f32 --out m.gguf")
        line = done.stderr.decode().strip()
        if why := NOT_GGUF.get(kind, NOT_GGUF.get(self.name)):
            self.check("not in llama.cpp", done.returncode != 0 and why in line and "\n" not in line, line)
            return "no"
        self.check("export to GGUF", done.returncode == 0, line)
        if done.returncode != 0:
            return "no"
        tokens = list(TEXT[:T])
        with torch.no_grad():
            logits = loaded(self.folder / "hub")(input_ids=torch.tensor([tokens])).logits[0]
        want = F.cross_entropy(logits[:-1], torch.tensor(tokens[1:])).item()
        (self.folder / "row.txt").write_bytes(TEXT[:T])
        got = LlamaCpp(self.folder / "m.gguf", T).loss(tokens)
        self.check("loss in llama.cpp", abs(got - want) < GGUF_BOUND, f"{got:.6f}, and {want:.6f} by transformers")
        ours = float(re.search(r"loss ([0-9.]+) nats", self.must("eval m.gguf --data row.txt").stdout.decode())[1])
        self.check("loss of the GGUF file", abs(ours - want) < GGUF_BOUND, f"{ours:.6f}, and {want:.6f}")
        self.worst = abs(got - want)
        return re.search(r"architecture (\S+)", done.stdout.decode())[1]

    def try_model(self, config):
        """A row of the table: the class, and what happened."""
        small = shrunk(config)
        kind = small["architectures"][0]
        self.publish(small)
        error = self.comes_in()
        self.is_trained()
        self.is_handed_on()
        return kind, f"in, trained, back; logits {error:.0e}", self.in_llama_cpp(kind)


def write_page(rows):
    table = "| model | class | in and back | GGUF |\n|---|---|---|---|\n" + "".join(
        f"| {name} | {kind} | {'yes' if what.startswith('in') else what} | {gguf} |\n"
        for name, kind, what, gguf in rows)
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(before + BEGIN + table + END + rest.split(END)[1])


def main():
    parser = argparse.ArgumentParser(description="Tries 40 small models of the Hugging Face hub.")
    parser.add_argument("--program", type=Path, default=HERE.parent.parent / "build" / "train_gpt")
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    parser.add_argument("names", nargs="*", help="models (default: all)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    models, rows, passed, failed = json.loads((HERE / "hub.json").read_text()), [], 0, 0
    for name in given.names or models:
        with tempfile.TemporaryDirectory() as folder:
            checks, row = Hub(given.program.resolve(), Path(folder), name), ("", "failed", "")
            try:
                row = checks.try_model(models[name])
            except Exception as error:
                checks.check("all", False, repr(error)[:600])
            rows.append((name, *row))
            found = f"{row[1]}; GGUF {row[2]}, loss {checks.worst:.0e}" if not checks.failed else "FAILED"
            print(f"{name:38}{row[0]:24}{found}", flush=True)
            passed, failed = passed + checks.passed, failed + checks.failed
    if given.page:
        write_page(rows)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
