"""Sets of layers as text: "all", "none", "5 of 6" (the first five of every six), "last 1 of 2", or "0,4,8"."""


def has_layer(layers, layer):
    if layers in ("all", "none"):
        return layers == "all"
    if " of " in layers:
        count, period = (int(word) for word in layers.removeprefix("last ").split(" of "))
        return layer % period >= period - count if layers.startswith("last ") else layer % period < count
    return str(layer) in layers.split(",")
