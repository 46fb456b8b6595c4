"""SummaryWriter: what `torch.utils.tensorboard` has, in files that TensorBoard reads."""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from livegrad.utils.reading import array_of, is_pending, kept, number_of
from livegrad.utils.tensorboard import embedding, summaries
from livegrad.utils.tensorboard.images import figure_pixels, pixels
from livegrad.utils.tensorboard.records import RecordFile
from livegrad.utils.tensorboard.wire import block, double, integer

_MOST_WAITING = 256  # scalars that are still to be computed


class SummaryWriter:
    """Writes scalars, histograms, images, texts and graphs to a directory for TensorBoard.

        with SummaryWriter("runs/a") as writer:
            writer.add_scalar("loss", loss, step)

    Arguments and methods are PyTorch's. Events are written when `max_queue` have gathered, every
    `flush_secs` seconds, and by `flush` and `close`. A scalar that is still to be computed is read
    later, so logging does not cut a training step in two.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir: str = os.fspath(log_dir)
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self._lock = threading.RLock()
        self._file: RecordFile | None = None
        self._flushed = time.monotonic()
        self._opened = 0
        # Scalars that are still to be computed: tag, value, step, time, form.
        self._waiting: list[tuple[str, Any, int | None, float, str]] = []
        self._others: dict[str, SummaryWriter] = {}
        self._embeddings: list[str] = []
        os.makedirs(self.log_dir, exist_ok=True)
        self._open()

    # ---- the file --------------------------------------------------------------------------

    def _open(self) -> RecordFile:
        if self._file is None:
            while os.path.exists(self._path()):  # by another writer, in the same second
                self._opened += 1
            self._file = RecordFile(self._path())
            self._file.add(_event(block(3, "brain.Event:2"), None, time.time()))
            if self.purge_step is not None:  # what was logged from there on is void
                start = block(7, integer(1, 1))
                self._file.add(_event(start, self.purge_step, time.time()))
            self._file.flush()
        return self._file

    def _path(self) -> str:
        name = (
            f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}."
            f"{os.getpid()}.{self._opened}{self.filename_suffix}"
        )
        return os.path.join(self.log_dir, name)

    def _add(self, content: bytes, step: int | None, walltime: float | None) -> None:
        with self._lock:
            file = self._open()
            file.add(_event(content, step, time.time() if walltime is None else walltime))
            late = time.monotonic() - self._flushed >= self.flush_secs
            if file.waiting >= self.max_queue or late:
                self._write()

    def _write(self) -> None:
        self._flushed = time.monotonic()
        if self._file is not None:
            self._file.flush()

    def _values(self, values: Any, step: int | None, walltime: float | None) -> None:
        self._add(block(5, summaries.summary(*values)), step, walltime)

    def get_logdir(self) -> str:
        """The directory."""
        return self.log_dir

    def flush(self) -> None:
        """Writes everything that has been added."""
        with self._lock:
            self._settle(everything=True)
            self._write()
            for other in self._others.values():
                other.flush()

    def close(self) -> None:
        """Writes everything, and closes the file; adding more opens another one."""
        with self._lock:
            self._settle(everything=True)
            if self._file is not None:
                self._file.close()
                self._file = None
            for other in self._others.values():
                other.close()
            self._others.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- scalars ---------------------------------------------------------------------------

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Adds a number, or a tensor of one element."""
        form = "double" if double_precision else "tensor" if new_style else "simple"
        when = time.time() if walltime is None else walltime
        with self._lock:
            self._settle()
            if is_pending(scalar_value):
                if scalar_value.numel() != 1:
                    number_of(scalar_value)  # raises at the user's line
                self._waiting.append((tag, kept(scalar_value), global_step, when, form))
                return
            self._add_scalar(tag, scalar_value, global_step, when, form)

    def _settle(self, everything: bool = False) -> None:
        """Adds the scalars that have been computed by now, or all of them."""
        if len(self._waiting) >= _MOST_WAITING:
            everything = True
        while self._waiting and (everything or not is_pending(self._waiting[0][1])):
            self._add_scalar(*self._waiting.pop(0))

    def _add_scalar(
        self, tag: str, value: Any, step: int | None, walltime: float, form: str
    ) -> None:
        number = number_of(value)
        if form == "simple":
            found = summaries.scalar(tag, number)
        else:
            found = summaries.scalar_tensor(tag, number, form == "double")
        self._values([found], step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Adds several numbers that are shown in one chart: each in a directory of its own."""
        for tag, value in tag_scalar_dict.items():
            folder = f"{main_tag.replace('/', '_')}_{tag}"
            path = os.path.join(self.log_dir, folder)
            if path not in self._others:
                self._others[path] = self._other(path)
            self._others[path].add_scalar(main_tag, value, global_step, walltime)

    def _other(self, path: str) -> SummaryWriter:
        options = (self.purge_step, self.max_queue, self.flush_secs, self.filename_suffix)
        return SummaryWriter(path, "", *options)

    # ---- tensors and histograms ------------------------------------------------------------

    def add_tensor(
        self,
        tag: str,
        tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Adds a tensor, as float32."""
        values = np.asarray(array_of(tensor), np.float32)
        self._values([summaries.tensor(tag, values)], global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Adds the distribution of values; `bins` may be what `numpy.histogram` takes."""
        array = array_of(values).astype(np.float64).ravel()
        finite = array[np.isfinite(array)]
        if len(finite) < len(array):
            warnings.warn(
                f"add_histogram: {len(array) - len(finite)} of the {len(array)} values of {tag!r} "
                "are not finite, and are left out",
                stacklevel=2,
            )
        found = summaries.histogram(tag, finite, bins, max_bins)
        self._values([found], global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: float,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Adds a histogram that has been made already: limits are the right ends of buckets."""
        limits, counts = array_of(bucket_limits).tolist(), array_of(bucket_counts).tolist()
        if len(limits) != len(counts):
            raise ValueError(
                f"add_histogram_raw: got {len(limits)} bucket_limits and {len(counts)} "
                "bucket_counts; expected as many"
            )
        figures = (float(min), float(max), float(num), float(sum), float(sum_squares))
        found = summaries.histogram_raw(tag, *figures, limits, counts)
        self._values([found], global_step, walltime)

    # ---- images and text -------------------------------------------------------------------

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Adds an image: floats from 0 to 1, or integers from 0 to 255."""
        rows = pixels(array_of(img_tensor), dataformats)
        self._values([summaries.image(tag, rows)], global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Adds several images as one grid."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Adds a figure of matplotlib, or a list of figures of one size, as an image."""
        figures = list(figure) if isinstance(figure, list | tuple) else [figure]
        drawn = np.stack([figure_pixels(f) for f in figures])
        self.add_image(tag, drawn, global_step, walltime, "NHWC")
        if close:
            import matplotlib.pyplot as plt

            for shown in figures:
                plt.close(shown)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Adds a text, which is shown as Markdown."""
        self._values([summaries.text(tag, text_string)], global_step, walltime)

    # ---- models, curves, hyper-parameters --------------------------------------------------

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """Adds the graph that a model records for an input (or a tuple of inputs).

        Nothing is computed, except values that the model reads itself. Nodes are in the scopes of
        their modules, with shapes and the lines they come from.
        """
        from livegrad.utils.tensorboard.graph import graph_def

        if input_to_model is None:
            raise ValueError("add_graph: input_to_model is missing; give an input of the model")
        several = isinstance(input_to_model, list | tuple)
        inputs = tuple(input_to_model) if several else (input_to_model,)
        graph = graph_def(model, inputs)
        if verbose:
            print(f"graph of {type(model).__name__}: {len(graph)} bytes")
        self._add(block(4, graph), None, None)

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Adds points (N, D) to TensorBoard's projector: what an embedding makes of N things.

        `metadata` has a label for each, or with `metadata_header` a list of values; `label_img`
        (N, C, H, W) a picture of each.
        """
        points = array_of(mat)
        pictures = None if label_img is None else array_of(label_img)
        step = 0 if global_step is None else int(global_step)
        folder = embedding.folder_of(tag, step)
        path = os.path.join(self.log_dir, folder)
        embedding.make_folder(path)
        if metadata is not None:
            if len(metadata) != len(points):
                raise AssertionError("#labels should equal with #data points")
            embedding.write_labels(path, metadata, metadata_header)
        if pictures is not None:
            if len(pictures) != len(points):
                raise AssertionError("#images should equal with #data points")
            embedding.write_sprite(path, pictures)
        embedding.write_points(path, points)
        name = f"{tag}:{step:05d}"
        self._embeddings.append(embedding.described(name, folder, metadata is not None, pictures))
        embedding.write_config(self.log_dir, self._embeddings)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Adds a precision-recall curve, from labels 0 and 1 and predictions from 0 to 1."""
        truth, scores = array_of(labels).ravel(), array_of(predictions).ravel()
        if truth.shape != scores.shape:
            raise ValueError(
                f"add_pr_curve: got {truth.size} labels and {scores.size} predictions; expected "
                "as many"
            )
        weight = None if weights is None else array_of(weights).ravel()
        table = summaries.pr_table(truth, scores, min(num_thresholds, 127), weight)
        self._values([summaries.pr_curve(tag, table)], global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Adds a precision-recall curve that has been made already: vectors over thresholds."""
        rows = (
            true_positive_counts,
            false_positive_counts,
            true_negative_counts,
            false_negative_counts,
            precision,
            recall,
        )
        table = np.stack([array_of(row) for row in rows]).astype(np.float64)
        self._values([summaries.pr_curve(tag, table)], global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Any] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Adds hyper-parameters and the metrics they led to, as a run in a directory of its own."""
        params = {name: _hparam(name, value) for name, value in hparam_dict.items()}
        now = time.time()
        with self._other(os.path.join(self.log_dir, run_name or str(now))) as writer:
            domains = hparam_domain_discrete or {}
            for value in summaries.hparams(params, metric_dict, domains, now):
                writer._values([value], None, now)
            for name, figure in metric_dict.items():
                writer.add_scalar(name, figure, global_step)


def _event(content: bytes, step: int | None, walltime: float) -> bytes:
    """Event: the time, the step if there is one, and what happened."""
    head = double(1, walltime)
    return (head if step is None else head + integer(2, int(step))) + content


def _hparam(name: str, value: Any) -> Any:
    if isinstance(value, str | bool):
        return value
    if value is None:
        return "None"
    try:
        return number_of(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"add_hparams: {name} is a {type(value).__name__}; expected a number, string or bool"
        ) from None
