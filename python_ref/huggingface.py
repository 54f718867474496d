"""Writes test/reference/huggingface: results of `transformers` models in float64, with our names and layouts.

    python python_ref/huggingface.py [--out test/reference/huggingface]

<preset>.json holds the tensors, the loss, and the options that make the same model of ours together with `--preset
NAME`. <preset>.params.npy is float32, .tokens.npy int32 (B,T+1), .logits.npy (B,T,V) and .grads.npy float64. A tensor's
scale is the norm of its gradient's uncancelled terms. packed/ has the same files for rows that hold several examples;
there .tokens.npy is (B,T), and .targets.npy and .begins.npy are next to it. pairs/ has them for models of sources and
targets; .sources.npy (B,S) is next to them, and .lengths.npy (B), how long each source is. The script needs
requirements-huggingface.txt and no network. It writes the same bytes each time.
"""

import argparse
import zlib
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func
from transformers.pytorch_utils import Conv1D

from config import Config
from files import write_array, write_json
from huggingface_models import MODELS, PAIRS, TWINS, pair
from layers import linear, model, moe
from layers.diagnostics import replaced
from layers.parameters import ENCODER, Parameters

torch.set_num_threads(1)  # a fixed order of summation
transformers.logging.set_verbosity_error()
B, T = 2, 9
# Of these, the first two rows.
UNREAD = "model.decoder.embed_positions.weight", "roberta.embeddings.position_embeddings.weight"

# ---- float64 throughout -------------------------------------------------------------------------------------


@contextmanager
def double():
    """Their norms, angles and softmaxes ask for torch.float32. Inside this context, that name means float64."""
    single = torch.get_default_dtype()
    with ExitStack() as stack:
        for name in "float", "float32":
            stack.enter_context(replaced(torch, name, lambda _: torch.double))
        stack.enter_context(replaced(torch.Tensor, "float", lambda _: torch.Tensor.double))
        torch.set_default_dtype(torch.double)
        stack.callback(torch.set_default_dtype, single)
        yield


class OnlyFloat64(TorchDispatchMode):
    """Checks that no operation, forward or backward, has a float32 result."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(x, torch.Tensor) and x.is_floating_point():
                assert x.dtype == torch.double, (function, x.dtype)
        return out


# ---- parameters, theirs to ours -----------------------------------------------------------------------------


def modules(case):
    """-> our module, theirs, permutation"""
    for ours, rule in case.rules.items():
        theirs, transform = pair(rule)
        count = case.options["encoder-layers" if ours.startswith(ENCODER) else "layers"]
        for layer in range(count) if "#" in ours else [0]:
            yield ours.replace("#", str(layer)), theirs.replace("#", str(layer)), transform


def positions(case, network):
    """{our tensor: the index of each of its elements in the concatenation of their parameters}"""
    where, found, at = {}, {}, 0
    for name, w in network.named_parameters():
        where[name] = np.arange(at, at + w.numel()).reshape(w.shape)
        at += w.numel()
    for ours, theirs, transform in modules(case):
        if theirs in where:  # the joined matrices of experts are no modules
            found[f"{ours}.weight"] = transform(where[theirs], case.options)
            continue
        for suffix in "weight", "bias":
            w = where.get(f"{theirs}.{suffix}")
            if w is None:
                continue
            if isinstance(network.get_submodule(theirs), Conv1D):
                w = w.T
            is_norm = suffix == "weight" and w.ndim == 1
            found[f"{ours}.{'gain' if is_norm else suffix}"] = transform(w, case.options)
    used = np.concatenate([w.ravel() for w in found.values()])
    unread = [i for name in UNREAD if name in where for i in where[name][:2].ravel()]
    assert np.array_equal(np.sort([*used, *unread]), np.arange(at)), "a parameter is used twice, or never"
    return found


def start(random, name, shape, unit_offset=False):
    """Random values, so that every term of every gradient counts."""
    part, kind = name.split(".")[-2:]
    z = random.standard_normal(shape)
    if kind == "gain":
        return (0 if unit_offset else 1) + 0.3 * z
    if kind == "bias":
        return 0.1 * z
    if name.startswith("embedding"):
        return 0.5 * z
    return (1.5 if part in "qk" else 1) * np.sqrt(2 / sum(shape)) * z  # attention far from uniform


# ---- gradients, and their terms before any cancels ----------------------------------------------------------


def linear_terms(module, x, y, dy):
    w, b, turned = module.weight, getattr(module, "bias", None), isinstance(module, Conv1D)
    _, dw, db = linear.uncancelled(x, w.detach().T if turned else w.detach(), dy)
    return [(w, dw.T if turned else dw), (b, db)]


def norm_terms(module, x, y, dy):
    if not list(module.parameters()):  # OLMo's norms
        return []
    w, b = module.weight, getattr(module, "bias", None)
    gain = w.detach() + (1 if "Gemma" in type(module).__name__ else 0)
    xhat = (y - (0 if b is None else b.detach())) / gain
    return [(w, (dy * xhat).abs().flatten(0, -2).sum(0)), (b, dy.abs().flatten(0, -2).sum(0))]


@contextmanager
def watched(network):
    """-> {parameter's id: sum of the absolute values of its gradient's terms}, filled by the backward pass"""
    terms = {id(w): torch.zeros_like(w) for w in network.parameters()}

    def watch(y, uncancelled):
        def hook(dy):
            for w, value in uncancelled(dy.detach()):
                if w is not None:
                    terms[id(w)] += value

        y.register_hook(hook)

    def module_watched(uncancelled):
        def hook(module, args, y):
            x, out = args[0].detach(), y.detach().clone()  # Falcon adds to y in place
            watch(y, lambda dy: uncancelled(module, x, out, dy))

        return hook

    def embedding_watched(original):
        def apply(indices, w, *rest):
            y = original(indices, w, *rest)
            rows = indices.expand(y.shape[:-1]).flatten()
            watch(y, lambda dy: [(w, torch.zeros_like(w).index_add_(0, rows, dy.abs().flatten(0, -2)))])
            return y

        return apply

    modules_weights = {id(m.weight) for m in network.modules() if isinstance(m, torch.nn.Linear)}

    def linear_watched(original):
        """Routers and experts call F.linear with a parameter, or with one matrix of it."""

        def apply(x, w, *rest):
            y = original(x, w, *rest)
            whole = w if w._base is None else w._base
            if id(whole) in modules_weights or id(whole) not in terms:
                return y
            at = slice((w.storage_offset() - whole.storage_offset()) // w.shape[-1], None)
            read, weight = x.detach(), w.detach()

            def uncancelled(dy):
                found = torch.zeros_like(whole)
                found.flatten(0, -2)[at][: len(weight)] = linear.uncancelled(read, weight, dy)[1]
                return [(whole, found)]

            watch(y, uncancelled)
            return y

        return apply

    kinds = {"Norm": norm_terms, "Linear": linear_terms, "Conv1D": linear_terms}
    hooks = [
        module.register_forward_hook(module_watched(uncancelled))
        for module in network.modules()
        for kind, uncancelled in kinds.items()
        if kind in type(module).__name__
    ]
    with replaced(F, "embedding", embedding_watched), replaced(F, "linear", linear_watched):
        yield terms
    for hook in hooks:
        hook.remove()


@dataclass
class Batch:
    """A batch, as arguments of their models."""

    inputs: dict
    targets: torch.Tensor  # (B,T), -1 for those that do not count


def whole_rows(tokens):
    """tokens (B,T+1): every row is one example."""
    tokens = torch.from_numpy(tokens).long()
    return Batch({"input_ids": tokens[:, :-1]}, tokens[:, 1:])


def packed_rows(tokens, targets, begins, window):
    """Rows of several examples: position ids that restart, and a mask of blocks on the diagonal (B,1,T,T)."""
    tokens, targets, begins = (torch.from_numpy(x).long() for x in (tokens, targets, begins))
    place = torch.arange(tokens.shape[1])
    distance = place[:, None] - place
    seen = (begins[:, :, None] == begins[:, None, :]) & (distance >= 0) & (distance < (window or len(place)))
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.get_default_dtype()).min)[:, None]
    return Batch({"input_ids": tokens, "position_ids": place - begins, "attention_mask": mask}, targets)


def pair_rows(tokens, targets, sources, lengths):
    """Rows of one pair each, whose sources have these lengths."""
    tokens, targets, sources, lengths = (torch.from_numpy(x).long() for x in (tokens, targets, sources, lengths))
    read = torch.arange(sources.shape[1]) < lengths[:, None]
    return Batch({"input_ids": sources, "attention_mask": read.long(), "decoder_input_ids": tokens}, targets)


def logits_and_loss(network, batch):
    no_cache = {"use_cache": False} if network.can_generate() else {}
    logits = network(**batch.inputs, **no_cache).logits
    return logits, F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=-1)


def along(network, w, direction, batch):
    """The derivative of the loss from two central differences, combined so that the error of order h² cancels."""
    losses, h, origin = {}, 1e-5, w.detach().clone()
    with torch.no_grad():
        for step in (-2, -1, 1, 2):
            w.copy_(origin + step * h * direction)
            losses[step] = logits_and_loss(network, batch)[1].item()
        w.copy_(origin)
    return (8 * (losses[1] - losses[-1]) - (losses[2] - losses[-2])) / (12 * h)


# ---- a case -------------------------------------------------------------------------------------------------


def flat(tensors):
    return np.concatenate([t.detach().numpy().ravel() for t in tensors])


def filled(case, where, values):
    network = case.build()
    whole = torch.zeros(sum(w.numel() for w in network.parameters()))
    for n, i in where.items():
        whole[i] = torch.from_numpy(values[n]).to(whole.dtype)
    torch.nn.utils.vector_to_parameters(whole, network.parameters())
    return network


def gradients(network, batch):
    logits, loss = logits_and_loss(network, batch)
    loss.backward()
    return logits, loss, flat([w.grad for w in network.parameters()])


def check_balance_loss(random):
    """Our loss is the loss of `transformers` for one layer, divided by k, because its shares add up to k."""
    c = Config(experts=5, experts_per_token=3, router_loss=1.0)
    logits = torch.from_numpy(random.standard_normal((7, 5)))
    theirs = load_balancing_loss_func((logits,), c.experts, c.experts_per_token).item()
    ours = moe.losses(c, logits, logits.topk(c.experts_per_token).indices).item()
    assert abs(ours * c.experts_per_token / theirs - 1) < 1e-6, (ours, theirs)


def drawn(case, name):
    """-> random numbers, where their parameters have ours, and our values"""
    random = np.random.default_rng(zlib.crc32(f"huggingface/{name}".encode()))
    where = positions(case, case.build())
    values = {n: start(random, n, i.shape, case.unit_offset).astype(np.float32) for n, i in where.items()}
    for n in values:
        if n.endswith(".q.weight"):
            values[n] *= np.float32(case.query_scale)
    return random, where, values


def compute(case, name, where, values, batch):
    network = filled(case, where, values)
    assert all(w.dtype == torch.double for w in (*network.parameters(), *network.buffers()) if w.is_floating_point())
    with OnlyFloat64(), watched(network) as terms:
        logits, loss, grads = gradients(network, batch)
    scales = flat([terms[id(w)] for w in network.parameters()])
    assert (np.abs(grads) <= scales * (1 + 1e-12) + 1e-300).all(), name
    worst = 0.0
    for n, w in network.named_parameters():
        size = w.grad.norm().item()
        if size > 1e-9:
            error = abs(along(network, w, w.grad / size, batch) / size - 1)
            assert error < 1e-7, (name, n, error)
            worst = max(worst, error)
    return (logits, loss, grads, scales), worst


def save(out, name, about, options, zero, where, values, arrays, logits, loss, grads, scales):
    rows = []
    for n, i in where.items():
        size, scale = np.linalg.norm(grads[i]), np.linalg.norm(scales[i])
        assert (size < 1e-13 * scale) if n in zero else size > 1e-3 * scale, (name, n, size / scale)
        rows.append({"name": n, "shape": list(i.shape), "scale": float(scale)})
    write_array(out / f"{name}.params.npy", np.concatenate([v.ravel() for v in values.values()]))
    write_array(out / f"{name}.grads.npy", np.concatenate([grads[i].ravel() for i in where.values()]))
    for array, value in arrays.items():
        write_array(out / f"{name}.{array}.npy", value)
    write_array(out / f"{name}.logits.npy", logits.detach().numpy())
    about = {"model": about, "options": options, "tensors": rows, "zero": zero, "loss": loss.item()}
    write_json(out / f"{name}.json", about)


def write(out, name, case, where, values, arrays, batch_of):
    """`arrays` are the batch as it is written; batch_of() makes it in the number type that is the default then."""
    with double():
        found, worst = compute(case, name, where, values, batch_of())
    loss, grads = found[1:3]
    zero = [n for n in where if n.endswith(".k.bias")] if case.zero_key_bias else []
    about = f"{case.model.__name__} of transformers {transformers.__version__}"
    save(out, name, about, case.options, zero, where, values, arrays, *found)
    in_float32 = gradients(filled(case, where, values), batch_of())[2]
    counted = [i for n, i in where.items() if n not in zero]
    errors = [np.linalg.norm(in_float32[i] - grads[i]) / np.linalg.norm(grads[i]) for i in counted]
    assert max(errors) < 5e-6, f"{name} is so badly conditioned that it says little of an implementation in float32"
    print(f"{name:13}{case.model.__name__:22}{loss.item():8.4f}{worst:14.0e}{max(errors):13.0e}", flush=True)


def write_case(out, name, case):
    with double():
        random, where, values = drawn(case, name)
    tokens = random.integers(case.first_token, case.options["vocab-size"], (B, T + 1)).astype(np.int32)
    write(out, name, case, where, values, {"tokens": tokens}, lambda: whole_rows(tokens))


# ---- rows that hold several examples ------------------------------------------------------------------------

PACKED = "gpt2", "llama3", "mistral"
EXAMPLES = [1, 4, 7], [12], [9, 3]  # their lengths in each row


def check_their_packing(case, where, values, batch):
    """Without a mask, `transformers` finds the examples in the position ids."""
    network = filled(case, where, values)
    own = {name: value for name, value in batch.inputs.items() if name != "attention_mask"}
    with torch.no_grad():
        error = (network(**own, use_cache=False).logits - network(**batch.inputs, use_cache=False).logits).abs().max()
    assert error < 1e-12, error


def write_packed(out, name, case):
    with double():
        random, where, values = drawn(case, name)
    begins = np.array([np.repeat(np.cumsum([0, *row[:-1]]), row) for row in EXAMPLES])
    tokens, targets = (random.integers(0, case.options["vocab-size"], begins.shape) for _ in range(2))
    for row, lengths in zip(targets, EXAMPLES):
        row[np.cumsum(lengths) - 1] = -1  # the last token of an example has no next one
    arrays = {n: x.astype(np.int32) for n, x in {"tokens": tokens, "targets": targets, "begins": begins}.items()}
    batch_of = lambda: packed_rows(*arrays.values(), case.options.get("window"))  # noqa: E731
    with double():
        check_their_packing(case, where, values, batch_of())
    write(out, name, case, where, values, arrays, batch_of)


# ---- rows of one pair each ----------------------------------------------------------------------------------

SOURCES, TARGETS = (9, 5, 1), (11, 4, 8)  # lengths of the examples, one in each row


def write_pairs(out, name, case):
    with double():
        random, where, values = drawn(case, name)
    V, B, T = case.options["vocab-size"], len(SOURCES), max(TARGETS)
    sources = random.integers(0, V, (B, max(SOURCES)))
    tokens, targets = (random.integers(0, V, (B, T)) for _ in range(2))
    targets[np.arange(T) >= np.array(TARGETS)[:, None]] = -1
    arrays = {"tokens": tokens, "targets": targets, "sources": sources, "lengths": np.array(SOURCES)}
    arrays = {n: x.astype(np.int32) for n, x in arrays.items()}
    write(out, name, case, where, values, arrays, lambda: pair_rows(*arrays.values()))


# ---- presets that transformers does not have use our twin --------------------------------------------------


def write_twin(out, name, sizes, wiring):
    random = np.random.default_rng(zlib.crc32(f"huggingface/{name}".encode()))
    c = Config.from_options(sizes | wiring)
    values = {n: start(random, n, shape).astype(np.float32) for n, shape in model.table(c)}
    tokens = random.integers(0, c.vocab_size, (B, T + 1)).astype(np.int32)
    p = Parameters({n: torch.from_numpy(v).double().requires_grad_() for n, v in values.items()})
    p.terms = {}
    batch = torch.from_numpy(tokens)
    loss = model.loss(p, c, batch[:, :-1], batch[:, 1:])
    loss.backward()
    logits, at, where = model.logits(p, c, batch[:, :-1]), 0, {}
    for n, v in values.items():
        where[n] = np.arange(at, at + v.size).reshape(v.shape)
        at += v.size
    grads, scales = flat([w.grad for w in p.values()]), flat([p.terms[n] for n in p])
    save(out, name, "python_ref's twin", sizes, [], where, values, {"tokens": tokens}, logits, loss, grads, scales)
    print(f"{name:13}{'our own twin':22}{loss.item():8.4f}")


def main():
    parser = argparse.ArgumentParser(description="Writes references from the models of transformers.")
    default = Path(__file__).parent.parent / "test" / "reference" / "huggingface"
    parser.add_argument("--out", type=Path, default=default)
    out = parser.parse_args().out
    for folder in "packed", "pairs":
        (out / folder).mkdir(parents=True, exist_ok=True)
    for old in out.rglob("*"):
        if old.suffix in (".npy", ".json"):
            old.unlink()
    print(f"{'':35}{'loss':>8}{'differences':>14}{'in float32':>13}   relative errors of the worst gradient")
    check_balance_loss(np.random.default_rng(1))
    for name, case in MODELS.items():
        write_case(out, name, case)
    for name, options in TWINS.items():
        write_twin(out, name, *options)
    print("rows of several examples:")
    for name in PACKED:
        write_packed(out / "packed", name, MODELS[name])
    print("pairs:")
    for name, case in PAIRS.items():
        write_pairs(out / "pairs", name, case)
    sizes = [file.stat().st_size for file in out.rglob("*.*")]
    print(f"{out}: {len(sizes)} files, {sum(sizes) / 1e6:.2f} MB; every self-check passed")


if __name__ == "__main__":
    main()
