"""AdaptiveLogSoftmaxWithLoss: a softmax over very many classes, rare ones in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from livegrad.creation import zeros_like
from livegrad.nn import functional as F
from livegrad.nn.container import ModuleList, Sequential
from livegrad.nn.linear import Linear
from livegrad.nn.module import Module
from livegrad.ops.elementwise.arithmetic import where
from livegrad.ops.shaping.joining import cat


class _ASMoutput(NamedTuple):
    """Log-probabilities of the targets, and the mean loss."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax over `n_classes`, sorted by how frequent they are, the most frequent first.

        head     logits of the first `cutoffs[0]` classes, and of each cluster as a whole
        tail[i]  logits of the classes of cluster i, through `in_features / div_value ** (i + 1)`
                 features

    A target in a cluster has the probability of the cluster times its own within it.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        given = list(cutoffs)
        if not given:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            given != sorted(set(given))
            or min(given) <= 0
            or max(given) > n_classes - 1
            or any(int(c) != c for c in given)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*given, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            inner = int(in_features // (div_value ** (i + 1)))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, inner, bias=False, **options),
                    Linear(inner, classes, bias=False, **options),
                )
            )

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.head.reset_parameters()
        for inner, outer in self.tail:
            inner.reset_parameters()
            outer.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> _ASMoutput:
        """(log-probability of each target, mean loss) of (N, features) and (N,)."""
        _check(input_, target_, self.n_classes)
        single = target_.ndim == 0
        x, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        head = F.log_softmax(self.head(x), 1)
        # All clusters are computed for all rows: which rows need which is known only to the values.
        out = zeros_like(head[:, 0])
        short = target < self.shortlist_size
        place = where(short, target, 0)
        out = where(short, head.gather(1, place.unsqueeze(1)).squeeze(1), out)
        for i in range(self.n_clusters):
            low, inside = self.cutoffs[i], target >= self.cutoffs[i]
            if i + 1 < self.n_clusters:  # in the last one, a target too large raises in `gather`
                inside = inside & (target < self.cutoffs[i + 1])
            place = where(inside, target - low, 0)
            within = F.log_softmax(self.tail[i](x), 1)
            own = within.gather(1, place.unsqueeze(1)).squeeze(1)
            out = where(inside, own + head[:, self.shortlist_size + i], out)
        loss = (-out).mean()
        return _ASMoutput(out.squeeze(0) if single else out, loss)

    def log_prob(self, input: Any) -> Any:
        """Log-probabilities (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def _get_full_log_prob(self, input: Any, head_output: Any) -> Any:
        head = F.log_softmax(head_output, 1)
        found = [head[:, : self.shortlist_size]]
        for i in range(self.n_clusters):
            within = F.log_softmax(self.tail[i](input), 1)
            found.append(within + head[:, self.shortlist_size + i].unsqueeze(1))
        return cat(found, 1)

    def predict(self, input: Any) -> Any:
        """The most likely class of each row."""
        return self.log_prob(input).argmax(1)


def _check(input: Any, target: Any, classes: int) -> None:
    if target.ndim not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input.ndim != target.ndim + 1:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found "
            f"inputs with sizes {input.shape}."
        )
    if target.ndim == 1 and input.shape[0] != target.shape[0]:
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
