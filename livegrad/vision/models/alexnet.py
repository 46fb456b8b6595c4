"""AlexNet: five convolutions and three linear layers."""

from __future__ import annotations

from livegrad import Tensor, nn
from livegrad.vision.models.registry import model


class AlexNet(nn.Module):
    """The network of "One weird trick for parallelizing convolutional neural networks"."""

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        rows = [(3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1)]
        rows.append((256, 256, 3, 1, 1))
        for i, (before, after, size, stride, padding) in enumerate(rows):
            layers += [nn.Conv2d(before, after, size, stride, padding), nn.ReLU(inplace=True)]
            if i in (0, 1, 4):
                layers.append(nn.MaxPool2d(3, 2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes) of images (N, 3, H, W)."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


alexnet = model("alexnet", AlexNet)
