"""PyTorch's AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101) and SGD, clipping by the global norm, and in float64:
Lion (arXiv 2302.06675), Adafactor (arXiv 1804.04235), Muon (Jordan et al. 2024) and NorMuon (arXiv 2510.05491) with
cautious decay (arXiv 2510.12402)."""

import parametrization
import torch
from layers import ngpt, norm


def adamw(tensors, lr, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1):
    """Tensors of two and more dimensions decay, vectors do not."""
    tensors = list(tensors)
    groups = [
        {"params": [t for t in tensors if t.dim() >= 2], "weight_decay": weight_decay},
        {"params": [t for t in tensors if t.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=lr, betas=(beta1, beta2), eps=eps)


def decay_of(name, dims, weight_decay, norm_decay, output_norm_decay):
    if dims >= 2:
        return weight_decay
    if not norm.is_gain(name):
        return 0.0
    return output_norm_decay if norm.is_output(name.rpartition(".")[0]) else norm_decay


def adamw_of(p, c, lr, beta1, beta2, eps, *decays):
    """The same for a model's parameters by name, each with the factors of its parametrization. `decays`: of matrices,
    of gains, and of gains of output norms."""
    groups = [
        {
            "params": [t], "rate": parametrization.learning_rate(c, name, t.dim()),
            "eps": eps * parametrization.epsilon(c, name, t.dim()),
            "weight_decay": decay_of(name, t.dim(), *decays) * parametrization.weight_decay(c, name, t.dim())
            * (not ngpt.is_normed(c, name)),
        }
        for name, t in p.trained().items()
    ]  # fmt: skip
    adamw = torch.optim.AdamW(groups, lr=lr, betas=(beta1, beta2))
    set_lr(adamw, lr)
    return adamw


def sgd(tensors, lr, momentum, nesterov, weight_decay):
    """Tensors of two and more dimensions decay, vectors do not."""
    groups = [{"params": [t], "weight_decay": weight_decay if t.dim() >= 2 else 0.0} for t in tensors]
    return torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=nesterov)


def adafactor(tensors, lr, weight_decay):
    """The first epsilon is a floor of √v and of the mean of v; by default it is too large for small gradients."""
    groups = [{"params": [t], "weight_decay": weight_decay if t.dim() >= 2 else 0.0} for t in tensors]
    return torch.optim.Adafactor(groups, lr=lr, eps=(1e-15, 1e-3))


def muon(tensors, lr, momentum, nesterov, weight_decay, scale, polynomials):
    assert polynomials == "newton-schulz"
    return torch.optim.Muon(
        tensors, lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay,
        adjust_lr_fn={"spectral": "original", "rms": "match_rms_adamw"}[scale],
    )  # fmt: skip


class Twin:
    """A step of one tensor: subclasses return the change, in units of the learning rate."""

    takes_vectors = True

    def __init__(self, weight_decay, cautious=False):
        self.weight_decay, self.cautious, self.state = weight_decay, cautious, {}

    def step(self, w, g, lr):
        decay = lr * self.weight_decay if w.dim() >= 2 else 0.0
        change = lr * self.change(w, g)
        mask = (change * w >= 0) if self.cautious else torch.ones_like(w)
        return w - decay * mask * w - change

    def slot(self, name, like):
        return self.state.setdefault(name, torch.zeros_like(like))


class Sgd(Twin):
    def __init__(self, momentum, nesterov, **more):
        super().__init__(**more)
        self.momentum, self.nesterov = momentum, nesterov

    def step(self, w, g, lr):
        g, b = g + (self.weight_decay * w if w.dim() >= 2 else 0.0), self.slot("momentum_buffer", w)
        b.mul_(self.momentum).add_(g)
        return w - lr * (g + self.momentum * b if self.nesterov else b)


class Adam(Twin):
    def __init__(self, beta1, beta2, eps, **more):
        super().__init__(**more)
        self.beta1, self.beta2, self.eps, self.t = beta1, beta2, eps, 0

    def change(self, w, g):
        self.t += 1
        m, v = self.slot("exp_avg", w), self.slot("exp_avg_sq", w)
        m += (1 - self.beta1) * (g - m)
        v += (1 - self.beta2) * (g * g - v)
        return m / (1 - self.beta1**self.t) / ((v / (1 - self.beta2**self.t)).sqrt() + self.eps)


class Lion(Twin):
    def __init__(self, beta1, beta2, **more):
        super().__init__(**more)
        self.beta1, self.beta2 = beta1, beta2

    def change(self, w, g):
        m = self.slot("exp_avg", w)
        sign = torch.sign(self.beta1 * m + (1 - self.beta1) * g)
        m += (1 - self.beta2) * (g - m)
        return sign


class Adafactor(Twin):
    def __init__(self, **more):
        super().__init__(**more)
        self.t = 0

    def change(self, w, g):
        self.t += 1
        newest, square = self.t**-0.8, g * g
        if w.dim() == 2:
            r, c = self.slot("row_var", w[:, 0]), self.slot("col_var", w[0])
            r += newest * (square.mean(dim=1) - r)
            c += newest * (square.mean(dim=0) - c)
            v = torch.outer(r, c) / r.mean().clamp(min=1e-30)
        else:
            v = self.slot("variance", w)
            v += newest * (square - v)
        u = g / v.clamp(min=1e-30).sqrt()
        u = u / u.square().mean().sqrt().clamp(min=1)
        return u * w.square().mean().sqrt().clamp(min=1e-3)


JORDAN = [(3.4445, -4.7750, 2.0315)] * 5
POLAR_EXPRESS = [
    (a / 1.01, b / 1.01**3, c / 1.01**5)
    for a, b, c in (
        (8.28721201814563, -23.595886519098837, 17.300387312530933),
        (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
        (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
        (3.3184196573706015, -2.488488024314874, 0.51004894012372),
        (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    )
]


def polar(u, polynomials):
    """The polynomials act on the singular values alone: no iteration is needed to check one."""
    margin = 1.01 if polynomials == "polar-express" else 1.0
    left, sigma, right = torch.linalg.svd(u / (margin * u.norm() + 1e-7), full_matrices=False)
    for a, b, c in {"newton-schulz": JORDAN, "polar-express": POLAR_EXPRESS}[polynomials]:
        sigma = a * sigma + b * sigma**3 + c * sigma**5
    return left * sigma @ right


class Muon(Twin):
    takes_vectors = False

    def __init__(self, momentum, nesterov, scale, polynomials, beta2=None, **more):
        super().__init__(**more)
        self.momentum, self.nesterov, self.scale = momentum, nesterov, scale
        self.polynomials, self.beta2 = polynomials, beta2

    def change(self, w, g):
        b = self.slot("momentum_buffer", w)
        b += (1 - self.momentum) * (g - b)
        x = polar(torch.lerp(g, b, self.momentum) if self.nesterov else b, self.polynomials)
        if self.beta2 is not None:
            size, v = x.norm(), self.slot("second_momentum_buffer", w[:, 0])
            v += (1 - self.beta2) * ((x * x).mean(dim=1) - v)
            x = x / (v.sqrt() + 1e-10)[:, None]
            x = x * (size / (x.norm() + 1e-10))
        rows, cols = w.shape
        return x * (0.2 * max(rows, cols) ** 0.5 if self.scale == "rms" else max(1, rows / cols) ** 0.5)


TWINS = {"adamw": Adam, "sgd": Sgd, "lion": Lion, "adafactor": Adafactor, "muon": Muon, "normuon": Muon}


def set_lr(optimizer, lr):
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("rate", 1.0)


def clip(tensors, max_norm):
    """-> the norm before clipping. A limit of 0 turns clipping off."""
    return torch.nn.utils.clip_grad_norm_(list(tensors), max_norm if max_norm > 0 else float("inf")).item()
