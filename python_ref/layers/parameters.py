"""The parameters of a model: a dict from the table's names to tensors.

With `terms` switched on (a dict instead of None), every layer also measures the gradient of each of its
parameters "uncancelled": the same sum with the absolute value of every term. Its norm is the yardstick for
gradients that are nearly or exactly zero because large terms cancel.
"""


class Parameters(dict):
    terms = None

    def watch(self, y, uncancelled):
        """When dy arrives in backward: uncancelled(dy) -> [(name, Σ|terms|), ...]"""
        if self.terms is None:
            return

        def hook(dy):
            for name, value in uncancelled(dy.detach()):
                self.terms[name] = self.terms.get(name, 0) + value

        y.register_hook(hook)
