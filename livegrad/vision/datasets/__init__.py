"""Data sets of images, from the files in which they are found everywhere."""

from __future__ import annotations

from livegrad.vision.datasets.cifar import CIFAR10 as CIFAR10, CIFAR100 as CIFAR100
from livegrad.vision.datasets.folder import (
    DatasetFolder as DatasetFolder,
    ImageFolder as ImageFolder,
)
from livegrad.vision.datasets.mnist import (
    EMNIST as EMNIST,
    KMNIST as KMNIST,
    MNIST as MNIST,
    QMNIST as QMNIST,
    FashionMNIST as FashionMNIST,
)
from livegrad.vision.datasets.others import SVHN as SVHN, FakeData as FakeData
from livegrad.vision.datasets.vision import VisionDataset as VisionDataset
