"""Whole networks: LeNet, ResNet-18, a U-Net and two GPTs, written once for livegrad and torch.

Weights follow from the names and shapes of parameters, so that both start from the same.
"""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.frameworks import Namespace
from benchmarks.workloads.base import Arrays, Step, Workload

Make = Callable[[Namespace], tuple[Any, Any]]


def no_weights(random: np.random.Generator) -> Arrays:
    return {}


def set_weights(namespace: Namespace, model: Any) -> Any:
    """Uniform by the fan-in, as PyTorch's defaults; no biases; norms as they are."""
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        bound = 0.0 if len(shape) < 2 else float(np.prod(shape[1:])) ** -0.5
        random = np.random.default_rng(zlib.crc32(name.encode()))
        values = random.uniform(-bound, bound, shape).astype(np.float32)
        if bound or name.endswith("bias"):
            with namespace.xp.no_grad():
                parameter.copy_(namespace.xp.tensor(values))
    return namespace.prepare(model)


def trained(make: Make) -> Callable[[Namespace, Arrays, list[Arrays]], Step]:
    """Steps of a network and its optimiser, on images or words and their classes."""

    def eager(namespace: Namespace, weights: Arrays, batches: list[Arrays]) -> Step:
        xp, F = namespace.xp, namespace.F
        model, optimizer_of = make(namespace)
        model = set_weights(namespace, model)
        optimizer = optimizer_of(model.parameters())
        data = [(xp.tensor(batch["x"]), xp.tensor(batch["y"])) for batch in batches]

        def step(i: int) -> Any:
            x, y = data[i % len(data)]
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    return eager


def images(batch: int, size: int, classes: int, dense: bool = False) -> Any:
    def batches(random: np.random.Generator) -> list[Arrays]:
        shape = (batch, size, size) if dense else (batch,)
        return [
            {
                "x": random.standard_normal((batch, 3, size, size)).astype(np.float32),
                "y": random.integers(0, classes, shape),
            }
            for _ in range(2)
        ]

    return batches


def momentum(namespace: Namespace) -> Any:
    return lambda parameters: namespace.optim.SGD(parameters, lr=1e-4, momentum=0.9)


# ----------------------------------------------------------------------------------------- images


def lenet(namespace: Namespace) -> tuple[Any, Any]:
    nn = namespace.nn
    model = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    return model, momentum(namespace)


def resnet(namespace: Namespace) -> tuple[Any, Any]:
    nn, F = namespace.nn, namespace.F

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.short = nn.Sequential()
            if stride != 1 or inputs != outputs:
                conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
                self.short = nn.Sequential(conv, nn.BatchNorm2d(outputs))

        def forward(self, x: Any) -> Any:
            y = F.relu(self.bn1(self.conv1(x)))
            return F.relu(self.bn2(self.conv2(y)) + self.short(x))

    layers, inputs = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
    return nn.Sequential(*layers), momentum(namespace)


def unet(namespace: Namespace) -> tuple[Any, Any]:
    xp, nn, F = namespace.xp, namespace.nn, namespace.F

    def twice(inputs: int, outputs: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
        )  # fmt: skip

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (16, 32, 64, 128)
            self.down = nn.ModuleList(
                [twice(a, b) for a, b in zip((3, *widths), widths, strict=False)]
            )
            ups = list(zip(widths[1:], widths, strict=False))[::-1]
            self.up = nn.ModuleList([nn.ConvTranspose2d(a, b, 2, 2) for a, b in ups])
            self.join = nn.ModuleList([twice(2 * b, b) for _, b in ups])
            self.last = nn.Conv2d(16, 2, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for number, block in enumerate(self.down):
                x = block(x if not number else F.max_pool2d(x, 2))
                kept.append(x)
            for up, join, other in zip(self.up, self.join, kept[-2::-1], strict=True):
                x = join(xp.cat([other, up(x)], 1))
            return self.last(x)

    return UNet(), lambda parameters: namespace.optim.Adam(parameters, lr=1e-5)


# ------------------------------------------------------------------------------------------ words

WORDS = 1000


def words(batch: int, length: int) -> Any:
    def batches(random: np.random.Generator) -> list[Arrays]:
        return [
            {
                "x": random.integers(0, WORDS, (batch, length)),
                "y": random.integers(0, WORDS, batch * length),
            }
            for _ in range(2)
        ]

    return batches


def gpt(layers: int, width: int, heads: int, length: int) -> Make:
    def make(namespace: Namespace) -> tuple[Any, Any]:
        xp, nn, F = namespace.xp, namespace.nn, namespace.F

        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

            def forward(self, x: Any) -> Any:
                batch, time, _ = x.shape
                parts = self.qkv(self.ln1(x)).split(width, 2)
                q, k, v = [
                    y.view(batch, time, heads, width // heads).transpose(1, 2) for y in parts
                ]
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(y.transpose(1, 2).reshape(batch, time, width))
                return x + self.down(F.gelu(self.up(self.ln2(x))))

        class GPT(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(length, width)
                self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
                self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

            def forward(self, x: Any) -> Any:
                places = xp.arange(x.shape[1])
                h = self.blocks(self.words(x) + self.places(places))
                return self.last(self.norm(h)).view(-1, WORDS)

        return GPT(), lambda parameters: namespace.optim.AdamW(parameters, lr=3e-4)

    return make


WORKLOADS = [
    Workload(
        "lenet", "LeNet 3×32², batch 64, SGD with momentum", 8, no_weights, images(64, 32, 10),
        trained(lenet),
    ),
    Workload(
        "resnet", "ResNet-18 3×32², batch 32, SGD with momentum", 1, no_weights, images(32, 32, 10),
        trained(resnet),
    ),
    Workload(
        "unet", "U-Net 3×64², batch 4, Adam", 2, no_weights, images(4, 64, 2, dense=True),
        trained(unet),
    ),
    Workload(
        "gpt-small", "GPT 4×128, 8×128 tokens, AdamW", 2, no_weights, words(8, 128),
        trained(gpt(4, 128, 4, 128)),
    ),
    Workload(
        "gpt", "GPT 6×384, 4×256 tokens, AdamW", 1, no_weights, words(4, 256),
        trained(gpt(6, 384, 6, 256)),
    ),
]  # fmt: skip
