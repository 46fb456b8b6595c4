"""Distillation: a small model learns from what a large one answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from livegrad.autograd import no_grad
from livegrad.nn import functional as F
from livegrad.nn.module import Module
from livegrad.tensor import Tensor


def distillation_loss(
    student: Tensor,
    teacher: Tensor,
    labels: Tensor | None = None,
    temperature: float = 2.0,
    alpha: float = 0.5,
) -> Tensor:
    """How far scores (N, classes) are from a teacher's, and from the labels.

    alpha · T² · KL(softmax(teacher / T) ‖ softmax(student / T)) + (1 - alpha) · cross entropy;
    without labels, the first alone. The teacher gets no gradient.
    """
    if temperature <= 0:
        raise ValueError(f"distillation_loss: got temperature={temperature}; expected more than 0")
    if not 0 <= alpha <= 1:
        raise ValueError(f"distillation_loss: got alpha={alpha}; expected 0 to 1")
    soft = F.kl_div(
        F.log_softmax(student / temperature, -1),
        F.log_softmax(teacher.detach() / temperature, -1),
        reduction="batchmean",
        log_target=True,
    ) * (temperature * temperature)
    if labels is None:
        return soft
    return alpha * soft + (1 - alpha) * F.cross_entropy(student, labels)


def distill(
    student: Module,
    teacher: Module,
    batches: Iterable[Any],
    optimizer: Any,
    epochs: int = 1,
    temperature: float = 2.0,
    alpha: float = 0.5,
    loss: Callable[..., Tensor] = distillation_loss,
    on_epoch: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Trains `student` on batches (inputs, labels) or inputs alone; the mean loss of each epoch.

    `batches` is walked once per epoch: a DataLoader, or a list. The teacher is asked in eval mode,
    and is afterwards as it was.
    """
    before, means = teacher.training, []
    teacher.eval()
    student.train()
    try:
        for epoch in range(epochs):
            losses = []
            for batch in batches:
                paired = isinstance(batch, tuple | list) and len(batch) == 2
                inputs, labels = batch if paired else (batch, None)
                with no_grad():
                    answers = teacher(inputs)
                optimizer.zero_grad()
                value = loss(student(inputs), answers, labels, temperature, alpha)
                value.backward()
                optimizer.step()
                losses.append(value.detach())
            if not losses:
                raise ValueError("distill: there are no batches")
            means.append(sum([float(x.item()) for x in losses]) / len(losses))
            if on_epoch is not None:
                on_epoch(epoch, means[-1])
    finally:
        teacher.train(before)
    return means
