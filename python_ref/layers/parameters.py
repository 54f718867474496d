"""The parameters of a model: a dict from the table's names to tensors.

An encoder has a view of them, in which its tensors have the names that they would have in a model of one stack.

If `terms` is a dict, every layer also computes the "uncancelled" gradient of its parameters: the same sum with the
absolute value of every term. Its norm is the scale for errors of gradients that are small because large terms cancel.
"""

from dataclasses import dataclass

import torch

ENCODER = "encoder."


def shared(name):
    """Both stacks have the same embedding of tokens."""
    return name.startswith(("embedding.token.", "embedding.project."))


@dataclass
class Source:
    """What the encoder reads for a batch. B rows hold the sources of the examples in the batch's rows."""

    tokens: torch.Tensor  # (B,S)
    begins: torch.Tensor  # (B,S), as Parameters.begins; padding is an example of its own
    first: torch.Tensor  # (B,T) the first place of each target token's source
    end: torch.Tensor  # (B,T) the place after its last one


class Parameters(dict):
    terms = None
    losses = []  # the routers' losses in one pass
    training = True
    begins = None  # (B,T) where in its row the example of each token begins; None: every row is one example
    source = None  # a Source
    lora_alpha = 1.0
    whole = {}  # in an encoder's view, a tensor's name in the table

    @staticmethod
    def trains(name):
        """Whether the optimizer changes it, and not the forward pass of BatchNorm or the number of steps."""
        return not name.endswith((".running_mean", ".running_var", ".branch_warmup"))

    def trained(self):
        return {name: tensor for name, tensor in self.items() if tensor.requires_grad}

    def encoder(self):
        names = {n.removeprefix(ENCODER): n for n in self if n.startswith(ENCODER) or shared(n)}
        view = Parameters({short: self[name] for short, name in names.items()})
        view.terms, view.losses, view.training, view.whole = self.terms, self.losses, self.training, names
        view.begins, view.lora_alpha = self.source.begins, self.lora_alpha
        return view

    def watch(self, y, uncancelled):
        """Calls uncancelled(dy) -> [(name, Σ|terms|), ...] in the backward pass."""
        if self.terms is None or not y.requires_grad:
            return

        def hook(dy):
            for name, value in uncancelled(dy.detach()):
                name = self.whole.get(name, name)
                self.terms[name] = self.terms.get(name, 0) + value

        y.register_hook(hook)
