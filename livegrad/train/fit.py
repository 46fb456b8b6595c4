"""fit(): the usual training loop in one call, and evaluate()."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from livegrad.autograd import no_grad
from livegrad.optim.lr_scheduler import ReduceLROnPlateau
from livegrad.train.accumulate import Accumulate
from livegrad.train.batches import Loss, Step, as_loader, size_of, split, step_with_closure
from livegrad.train.checkpointer import Checkpointer
from livegrad.train.early_stopping import EarlyStopping
from livegrad.train.history import History
from livegrad.train.metrics import Mean, Metric, Metrics
from livegrad.train.progress import Progress, progress
from livegrad.utils.reading import number_of

# Loss, outputs and targets of a batch; the latter two may be unknown.
Outcome = tuple[Any, Any, Any]
Callbacks = Sequence[Any]
Given = Metrics | Mapping[str, Metric] | Sequence[Metric] | None


class Run:
    """A run of `fit`, as callbacks see it.

    `epoch` and `step` count from 0; `figures` are those of the epoch so far, or of the one that
    has just ended. Set `stop` to end the run after the current step.
    """

    def __init__(self, model: Any, optimizer: Any, epochs: int) -> None:
        self.model = model
        self.optimizer = optimizer
        self.epochs = epochs
        self.epoch = 0
        self.step = 0
        self.batches = 0  # of the epoch that are done
        self.loss: Any = None  # of the last batch, a tensor
        self.figures: dict[str, Any] = {}
        self.history = History()
        self.stop = False

    def monitored(self, name: str | None) -> float:
        """The figure a callback watches: `val_loss`, or `loss` if there is none, by default."""
        chosen = name or ("val_loss" if "val_loss" in self.figures else "loss")
        if chosen not in self.figures:
            raise KeyError(
                f"fit: there is no figure {chosen!r} to monitor; known are "
                f"{', '.join(self.figures)}"
            )
        return number_of(self.figures[chosen])


def fit(
    model: Any,
    data: Any,
    loss: Loss | None,
    optimizer: Any,
    epochs: int = 1,
    *,
    val_data: Any = None,
    metrics: Given = None,
    scheduler: Any = None,
    scheduler_every: str = "epoch",
    callbacks: Callbacks = (),
    accumulate: int = 1,
    max_norm: float | None = None,
    batch_size: int = 32,
    shuffle: bool = True,
    step: Step | None = None,
    checkpointer: Checkpointer | None = None,
    save_every: int | None = None,
    resume: bool = False,
    show: bool = True,
) -> History:
    """Trains a model, and returns the figures of each epoch.

        history = fit(model, loader, F.cross_entropy, optim.Adam(model.parameters()), epochs=10,
                      val_data=val_loader, metrics={"acc": Accuracy()},
                      callbacks=[EarlyStopping(patience=3)])

    Args:
        data: a DataLoader, a Dataset, a tuple of whole arrays `(x, y)`, or a list of batches.
            `batch_size` and `shuffle` are for datasets and arrays.
        loss: of outputs and targets. Batches are (inputs, targets), or (input, input, …, targets).
        step: for anything else: `step(model, batch)` returns the loss, or (loss, outputs, targets).
        metrics: of outputs and targets; reported for training, and as `val_…` for `val_data`.
        scheduler: stepped each "epoch" or "step" (`scheduler_every`).
        callbacks: EarlyStopping; functions, called with the Run after each epoch; and objects with
            some of on_fit_begin, on_epoch_begin, on_step_end, on_epoch_end, on_fit_end.
        accumulate: batches per step of the optimiser. `max_norm` clips its gradients. LBFGS, which
            computes the loss several times per step, takes neither.
        checkpointer: saves everything each epoch, or each `save_every` steps of the optimiser;
            with `resume`, the run goes on exactly from its last checkpoint, if there is one.
        show: whether to show progress.
    """
    if scheduler_every not in ("epoch", "step"):
        raise ValueError(
            f"fit: got scheduler_every={scheduler_every!r}; expected 'epoch' or 'step'"
        )
    closures = getattr(optimizer, "needs_closure", False)
    if closures and (accumulate != 1 or max_norm is not None):
        raise ValueError(
            f"fit: {type(optimizer).__name__} computes loss and gradients itself, several times in "
            f"a step; got accumulate={accumulate}, max_norm={max_norm}; expected 1 and None. Give "
            "larger batches instead"
        )
    loop = _Loop(
        run=Run(model, optimizer, epochs),
        loader=as_loader(data, batch_size, shuffle),
        val_loader=None if val_data is None else as_loader(val_data, batch_size, False),
        compute=outcome_of(loss, step),
        metrics=metrics if isinstance(metrics, Metrics) else Metrics(metrics),
        accumulate=Accumulate(optimizer, accumulate, max_norm=max_norm),
        scheduler=scheduler,
        scheduler_every=scheduler_every,
        callbacks=list(callbacks),
        checkpointer=checkpointer,
        save_every=save_every,
        show=show,
    )
    return loop.go(resume)


def evaluate(
    model: Any,
    data: Any,
    loss: Loss | None = None,
    metrics: Given = None,
    *,
    step: Step | None = None,
    batch_size: int = 32,
) -> dict[str, Any]:
    """The loss and the metrics of a model on data, in `eval` mode and without gradients."""
    chosen = metrics if isinstance(metrics, Metrics) else Metrics(metrics)
    compute = outcome_of(loss, step) if loss or step else _outputs_only
    return _evaluate(model, as_loader(data, batch_size, False), compute, chosen)


def outcome_of(loss: Loss | None, step: Step | None) -> Callable[[Any, Any], Outcome]:
    """The function of model and batch that gives the loss, and outputs and targets if known."""
    if step is None and loss is None:
        raise TypeError("give loss=…, a function of outputs and targets, or step=…")

    def compute(model: Any, batch: Any) -> Outcome:
        if step is not None:
            result = step(model, batch)
            return result if isinstance(result, tuple) else (result, None, None)
        assert loss is not None
        inputs, targets = split(batch)
        outputs = model(*inputs)
        return loss(outputs, targets), outputs, targets

    return compute


def _outputs_only(model: Any, batch: Any) -> Outcome:
    inputs, targets = split(batch)
    return None, model(*inputs), targets


def _evaluate(model: Any, loader: Any, compute: Any, metrics: Metrics) -> dict[str, Any]:
    metrics.reset()
    mean = Mean()
    with evaluating(model), no_grad():
        for batch in loader:
            value, outputs, targets = compute(model, batch)
            if value is not None:
                mean.update(value, size_of(batch))
            _count(metrics, outputs, targets)
    figures = {"loss": mean.compute()} if mean.weight or mean._waiting else {}
    return {**figures, **metrics.compute()}


def _count(metrics: Metrics, outputs: Any, targets: Any) -> None:
    if len(metrics):
        if outputs is None:
            raise TypeError("fit: metrics need step to return (loss, outputs, targets)")
        metrics.update(outputs, targets)


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Within it, the model is in `eval` mode; afterwards each module is as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


class _Loop:
    """What `fit` was given, and the loop."""

    def __init__(
        self,
        run: Run,
        loader: Any,
        val_loader: Any,
        compute: Callable[[Any, Any], Outcome],
        metrics: Metrics,
        accumulate: Accumulate,
        scheduler: Any,
        scheduler_every: str,
        callbacks: list[Any],
        checkpointer: Checkpointer | None,
        save_every: int | None,
        show: bool,
    ) -> None:
        self.run = run
        self.loader = loader
        self.val_loader = val_loader
        self.compute = compute
        self.metrics = metrics
        self.accumulate = accumulate
        self.scheduler = scheduler
        self.scheduler_every = scheduler_every
        self.callbacks = callbacks
        self.checkpointer = checkpointer
        self.save_every = save_every
        self.show = show
        self.mean = Mean()

    def go(self, resume: bool) -> History:
        """Runs all epochs that are left."""
        run = self.run
        if self.checkpointer is not None:
            self.checkpointer.objects = {**self._objects(), **self.checkpointer.objects}
            if resume and self.checkpointer.last is not None:
                self._resume()
        elif resume:
            raise ValueError("fit: resume=True needs a checkpointer")
        self._tell("on_fit_begin")
        while run.epoch < run.epochs and not run.stop:
            self._epoch()
            run.epoch += 1
        self._tell("on_fit_end")
        return run.history

    # ---- one epoch -------------------------------------------------------------------------

    def _epoch(self) -> None:
        run, started = self.run, time.perf_counter()
        self._tell("on_epoch_begin")
        bar: Progress[Any] = progress(
            description=f"epoch {run.epoch + 1}/{run.epochs}",
            total=_length(self.loader),
            initial=run.batches,
            disable=not self.show,
        )
        with bar:
            self._train(bar)
            if self.accumulate.finish():
                self._stepped(within=False)
            run.figures = {**self._trained(), "lr": number_of(run.optimizer.param_groups[0]["lr"])}
            if self.val_loader is not None:
                found = _evaluate(run.model, self.val_loader, self.compute, self.metrics)
                run.figures.update({f"val_{name}": value for name, value in found.items()})
            shown = {k: v for k, v in run.figures.items() if isinstance(v, float)}
            bar.set(**shown)
            run.figures["seconds"] = time.perf_counter() - started
        run.history.add(run.figures)
        self._after_epoch()

    def _train(self, bar: Progress[Any]) -> None:
        run = self.run
        run.model.train()
        # A loader that cannot say where it is has been begun anew: what is done is left out.
        skipped = 0 if hasattr(self.loader, "load_state_dict") else run.batches
        for batch in islice(self.loader, skipped, None):
            count = size_of(batch)
            if getattr(run.optimizer, "needs_closure", False):
                outputs, targets = self._step_with_closure(batch)
                stepped = True
            else:
                run.loss, outputs, targets = self.compute(run.model, batch)
                weight = count if self.accumulate.steps > 1 else 1.0
                stepped = self.accumulate.backward(run.loss, weight)
            run.batches += 1
            self.mean.update(run.loss.detach(), count)
            _count(self.metrics, outputs, targets)
            bar.set(loss=run.loss)
            bar.update()
            if stepped:
                self._stepped()
            if run.stop:
                break

    def _step_with_closure(self, batch: Any) -> tuple[Any, Any]:
        """A step that computes the loss several times; what is reported is from before it."""
        run = self.run
        outcomes: list[Outcome] = []

        def loss() -> Any:
            outcome = self.compute(run.model, batch)
            if not outcomes:
                outcomes.append(outcome)
            return outcome[0]

        step_with_closure(run.optimizer, loss)
        run.loss, outputs, targets = outcomes[0]
        return outputs, targets

    def _stepped(self, within: bool = True) -> None:
        """The optimiser has made a step, within an epoch or with what was left at its end."""
        run = self.run
        run.step += 1
        if self.scheduler is not None and self.scheduler_every == "step":
            self.scheduler.step()
        self._tell("on_step_end")
        due = bool(self.save_every) and run.step % (self.save_every or 1) == 0
        if self.checkpointer is not None and due and within:
            self._save(run.epoch)

    def _trained(self) -> dict[str, Any]:
        """Figures of the training part of an epoch; the counts begin anew."""
        figures = {"loss": self.mean.compute(), **self.metrics.compute()}
        self.mean.reset()
        self.metrics.reset()
        self.run.batches = 0
        return figures

    def _after_epoch(self) -> None:
        run = self.run
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(run.monitored(None))
        elif self.scheduler is not None and self.scheduler_every == "epoch":
            self.scheduler.step()
        self._tell("on_epoch_end")
        self.metrics.reset()
        if self.checkpointer is not None:
            self._save(run.epoch + 1, run.monitored(self.checkpointer.monitor))

    def _tell(self, event: str) -> None:
        for callback in self.callbacks:
            method = getattr(callback, event, None)
            if method is not None:
                method(self.run)
            elif event == "on_epoch_end" and isinstance(callback, EarlyStopping):
                self.run.stop |= callback(self.run.monitored(callback.monitor))
            elif event == "on_fit_end" and isinstance(callback, EarlyStopping):
                if callback.model is not None:
                    callback.restore()
            elif event == "on_epoch_end" and not _has_events(callback):
                callback(self.run)

    # ---- saving ----------------------------------------------------------------------------

    def _objects(self) -> dict[str, Any]:
        """What a checkpoint has to hold beside counts."""
        found = {
            "model": self.run.model,
            "optimizer": self.run.optimizer,
            "history": self.run.history,
            "metrics": self.metrics,
            "mean": self.mean,
            "accumulate": self.accumulate,
        }
        others = {"scheduler": self.scheduler, "loader": self.loader}
        others.update({f"callback_{i}": x for i, x in enumerate(self.callbacks)})
        found.update({name: x for name, x in others.items() if hasattr(x, "load_state_dict")})
        return found

    def _save(self, epoch: int, value: float | None = None) -> None:
        assert self.checkpointer is not None
        run = self.run
        counts = {"epoch": epoch, "batches": run.batches, "stop": run.stop}
        self.checkpointer.save(run.step, value, **counts)

    def _resume(self) -> None:
        assert self.checkpointer is not None
        values = self.checkpointer.load("last")
        self.run.epoch, self.run.step = values["epoch"], values["step"]
        self.run.batches, self.run.stop = values["batches"], values["stop"]


_EVENTS = ("on_fit_begin", "on_epoch_begin", "on_step_end", "on_epoch_end", "on_fit_end")


def _has_events(callback: Any) -> bool:
    return any(hasattr(callback, event) for event in _EVENTS)


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None
