"""LeNet-5 for digits, with ReLU and max pooling as it is written today."""

from __future__ import annotations

from livegrad import Tensor, nn
from livegrad.vision.models.registry import model


class LeNet(nn.Module):
    """Two convolutions and three linear layers, for images (N, channels, size, size)."""

    def __init__(self, num_classes: int = 10, in_channels: int = 1, image_size: int = 28) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        side = (image_size // 2 - 4) // 2
        if side < 1:
            raise ValueError(f"images of {image_size} pixels are too small: LeNet needs 12 or more")
        self.classifier = nn.Sequential(
            nn.Linear(16 * side * side, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Scores (N, classes)."""
        return self.classifier(self.features(x).flatten(1))


lenet = model("lenet", LeNet)
