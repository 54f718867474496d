"""The parameters of a model: a dict from the table's names to tensors.

With `terms` switched on (a dict instead of None), every layer also measures the gradient of each of its
parameters "uncancelled": the same sum with the absolute value of every term. Its norm is the yardstick for
gradients that are nearly or exactly zero because large terms cancel.
"""


class Parameters(dict):
    terms = None
    training = True

    @staticmethod
    def trains(name):
        """Whether the optimizer changes it: not the running statistics of BatchNorm."""
        return not name.endswith((".running_mean", ".running_var"))

    def trained(self):
        return {name: tensor for name, tensor in self.items() if self.trains(name)}

    def watch(self, y, uncancelled):
        """When dy arrives in backward: uncancelled(dy) -> [(name, Σ|terms|), ...]"""
        if self.terms is None:
            return

        def hook(dy):
            for name, value in uncancelled(dy.detach()):
                self.terms[name] = self.terms.get(name, 0) + value

        y.register_hook(hook)
