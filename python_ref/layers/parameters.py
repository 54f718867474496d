"""The parameters of a model: a dict from the table's names to tensors.

If `terms` is a dict, every layer also computes the "uncancelled" gradient of its parameters: the same sum with the
absolute value of every term. Its norm is the scale for errors of gradients that are small because large terms cancel.
"""


class Parameters(dict):
    terms = None
    losses = []  # the routers' losses in one pass
    training = True
    begins = None  # (B,T) where in its row the example of each token begins; None: every row is one example

    @staticmethod
    def trains(name):
        """Whether the optimizer changes it. It does not change the running statistics of BatchNorm."""
        return not name.endswith((".running_mean", ".running_var"))

    def trained(self):
        return {name: tensor for name, tensor in self.items() if self.trains(name)}

    def watch(self, y, uncancelled):
        """Calls uncancelled(dy) -> [(name, Σ|terms|), ...] in the backward pass."""
        if self.terms is None:
            return

        def hook(dy):
            for name, value in uncancelled(dy.detach()):
                self.terms[name] = self.terms.get(name, 0) + value

        y.register_hook(hook)
