"""What all data sets of images share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from livegrad.utils.data import Dataset

Transform = Callable[..., Any] | None


class StandardTransform:
    """One transform for inputs and one for targets."""

    def __init__(self, transform: Transform = None, target_transform: Transform = None) -> None:
        self.transform, self.target_transform = transform, target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        """Both, transformed."""
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target

    def __repr__(self) -> str:
        lines = [type(self).__name__]
        for title, value in (
            ("Transform: ", self.transform),
            ("Target transform: ", self.target_transform),
        ):
            if value is not None:
                first, *rest = repr(value).splitlines()
                lines += [title + first, *[" " * len(title) + x for x in rest]]
        return "\n".join(lines)


class VisionDataset(Dataset[Any]):
    """A data set in a directory, with transforms: of both together, or of each."""

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        transforms: Callable[..., Any] | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
    ) -> None:
        self.root = os.path.expanduser(root) if root is not None else ""
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError(
                "Only transforms or transform/target_transform can be passed as argument"
            )
        self.transform, self.target_transform = transform, target_transform
        if transform is not None or target_transform is not None:
            transforms = StandardTransform(transform, target_transform)
        self.transforms = transforms

    def _both(self, image: Any, target: Any) -> tuple[Any, Any]:
        """A sample, transformed."""
        return (image, target) if self.transforms is None else self.transforms(image, target)

    @property
    def directory(self) -> Path:
        """The root."""
        return Path(self.root)

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __repr__(self) -> str:
        body = [f"Number of datapoints: {len(self)}"]
        if self.root:
            body.append(f"Root location: {self.root}")
        body += self.extra_repr().splitlines()
        if self.transforms is not None:
            body.append(repr(self.transforms))
        lines = "\n".join(body).splitlines()
        return "\n".join([f"Dataset {type(self).__name__}", *["    " + x for x in lines]])

    def extra_repr(self) -> str:
        """More lines of what is printed."""
        return ""
