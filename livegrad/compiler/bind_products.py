"""Binding of kernels that begin with products: their loops, items, and what multiplies is told."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from livegrad.compiler.access import axis_strides
from livegrad.compiler.binder import Axis, Binder, collapsed
from livegrad.compiler.channel_lanes import (
    CHANNELS as CHANNELS_BESIDE,
    elements_for_lanes,
    generate_channel_lanes,
)
from livegrad.compiler.channel_slopes import (
    CHANNELS,
    bytes_for_windows,
    elements_for_channels,
    generate_channel_slopes,
    has_many_channels,
)
from livegrad.compiler.describe import Factors, Windows
from livegrad.compiler.few_rows import FEW_ROWS, generate_product, room_for_few
from livegrad.compiler.image_lanes import MOST_IMAGES, elements_for, generate_image_lanes
from livegrad.compiler.output_lanes import (
    elements_for_outputs,
    generate_output_lanes,
    outputs_are_lanes,
)
from livegrad.compiler.plan import Signature
from livegrad.compiler.products import (
    BLOCK,
    JOB_BYTES,
    room_for,
    room_for_sums,
    summed_as,
)
from livegrad.compiler.templates import PRODUCT
from livegrad.compiler.window_lanes import (
    MOST_PLACES,
    bytes_for_lanes,
    elements_for_sums,
    generate_window_lanes,
    lanes_are_windows,
)
from livegrad.compiler.windows import generate_conv, generate_slopes, room_for_notes
from livegrad.graph.symbol import least, most

# Rows and columns that are multiplied at a time, at most; and columns with a few rows.
MOST_ROWS, MOST_COLUMNS, FEW_ROWS_COLUMNS = 560, 256, 4096
# As many items are enough for many threads, of so many multiplications each at least. Those that
# one thread takes are taken together: see `Rows._emit_products`.
MOST_ITEMS, ITEM_PRODUCT = 64, 1 << 17
# What items are cut in: whole tiles; windows as rows into smaller ones, where there would be less
# than a few items.
ROWS_CUT, COLUMNS_CUT = 28, 32
WINDOWS_CUT, FEW_ITEMS = 14, 12
# So many parts are few: many channels are then cut into fewer, and rows that meet windows, too.
FEW_PARTS, CHANNEL_CUTS = 32, (CHANNELS, 8, 4)
# Images with fewer windows than these are taken together.
FEW_WINDOWS = 64
# Images as lanes: windows of each that an item takes at most, sums in all, and elements of images
# that are brought together for it.
LANE_WINDOWS, LANE_SUMS, LANE_ELEMENTS = 128, 3 << 17, 3 << 17
# Windows that an item takes at least then, and what they are cut in.
LANE_CUT = 16
# Outputs are lanes instead if windows reach beyond images by one in so many elements of each dim at
# most: skipping those is then not worth turning images and results.
MOSTLY_INSIDE = 12
# Outputs as lanes: windows that are multiplied at a time at most, and sums in all, about.
OUTPUT_WINDOWS, OUTPUT_SUMS = 784, 392 << 8
# Windows as lanes: sums of an item at most.
WINDOW_SUMS = 1 << 13
# Channels as lanes: windows of each that an item takes at most, about, and sums in all.
ALONE_WINDOWS, ALONE_SUMS = 784, 1 << 14


class ProductBinder(Binder):
    """Fills the block of a rows kernel that goes on from products.

    Axes after those of the loops: terms; images; channels and other dims of what has windows.
    """

    def loop_axes(self) -> list[Axis]:
        """Those of the loops."""
        windows = [factors.windows for factors in self.d.products if factors.windows]
        self.axes = len(self.d.shape) + 3 + max([len(w.dims) for w in windows], default=0)
        return super().loop_axes()

    def arrange(self, axes: list[Axis]) -> tuple[Axis, Axis, list[Axis]]:
        """Columns, rows, and what is around them; rows go on through loops that are walked alike.

        Where there are no rows, those of a loop along which columns stay are.
        """
        none: Axis = (1, [0] * len(self.d.streams))
        inner = self._as_one([axes[d] for d in self.d.inner], none)
        middle = self._as_one([axes[d] for d in self.d.rows if axes[d][0] != 1], none)
        own = (*self.d.inner, *self.d.rows)
        loops = [axis for d, axis in enumerate(axes) if d not in own and axis[0] != 1]
        if middle is not none:
            loops = collapsed([*loops, middle])
        else:
            loops = collapsed(loops)
        stays = loops and all([loops[-1][1][x.right] == 0 for x in self.d.products])
        return inner, loops.pop() if stays else none, loops

    def _as_one(self, axes: list[Axis], none: Axis) -> Axis:
        return (prod([size for size, _ in axes]), axes[-1][1]) if axes else none

    # ------------------------------------------------------------------------------------ items

    def weight(self) -> int:
        """Multiplications, too: eight take about as long as another operation."""
        return super().weight() + sum([x.terms for x in self.d.products]) // 8

    def elements(self, slots: list[int], around: int) -> int:
        """Of all images that an item takes."""
        return super().elements(slots, around) * self._together(around)

    def item(self, n: int, m: int, around: int) -> tuple[int, int]:
        """Columns and rows of an item: as many items as are worth it."""
        work = around * n * m * sum([x.terms for x in self.d.products])
        wanted = least(most(work // ITEM_PRODUCT, 1), MOST_ITEMS)
        around = self.blocks_around(around)
        if self._windows():
            return self._item_of_windows(n, m, around, wanted)
        columns, coarsest = _cuts(n, COLUMNS_CUT), _cuts(n, MOST_COLUMNS)
        rows, cut = self._cut_of_rows(m, around * columns)
        rows = _parts(wanted, around * coarsest, rows, 1)
        columns = _parts(wanted, around * rows, columns, coarsest)
        return _whole(n, columns, COLUMNS_CUT), _whole(m, rows, cut)

    def _cut_of_rows(self, m: int, others: int) -> tuple[int, int]:
        """How many parts of rows there may be, where there are others of each, and what they are
        cut in."""
        rows, cut = _cuts(m, ROWS_CUT), ROWS_CUT
        slopes = [x.windows for x in self.d.products if x.windows]
        if not slopes:
            return rows, cut
        taps = _taps(slopes[0])
        if has_many_channels(slopes[0]):
            sizes = [size * taps for size in CHANNEL_CUTS]
            cut = next((x for x in sizes[:-1] if others * _cuts(m, x) >= FEW_PARTS), sizes[-1])
        elif lanes_are_windows(slopes[0]):
            cut = slopes[0].dims[-1][2]
        else:
            return most(rows, least(_cuts(m, WINDOWS_CUT), FEW_ITEMS)), WINDOWS_CUT
        return _cuts(m, cut), cut

    def _item_of_windows(self, n: int, m: int, around: int, wanted: int) -> tuple[int, int]:
        """Bringing windows together takes long: rows are cut last."""
        alone = self._alone()
        if alone:
            return self._item_of_channels(alone, n, m, around, wanted)
        coarsest, fewest, images = _cuts(n, MOST_COLUMNS), 1, self._image_lanes()
        finest, columns_cut = most(n // FEW_WINDOWS, 1), COLUMNS_CUT
        if images:
            coarsest, finest, columns_cut = _cuts(n, LANE_WINDOWS), _cuts(n, LANE_CUT), LANE_CUT
            fewest = _cuts(m * least(n, LANE_WINDOWS) * images, LANE_SUMS)
        elif self._output_lanes():
            columns_cut = self._line_of_windows()
        columns = _parts(wanted, around, finest, coarsest)
        few = m > ROWS_CUT and around * columns * _cuts(m, ROWS_CUT) < FEW_PARTS
        cut = WINDOWS_CUT if few else ROWS_CUT
        rows = _parts(wanted, around * columns, _cuts(m, cut), fewest)
        return _whole(n, columns, columns_cut), _whole(m, rows, cut)

    def _item_of_channels(
        self, alone: Windows, n: int, m: int, around: int, wanted: int
    ) -> tuple[int, int]:
        """Whole lines of windows, and as many channels as there are lanes."""
        line = alone.dims[-1][1]
        columns = _cuts(n, most(ALONE_WINDOWS // line, 1) * line)
        width = _whole(n, columns, line)
        fewest = _cuts(m * width, ALONE_SUMS)
        rows = _parts(wanted, around * columns, _cuts(m, CHANNELS_BESIDE), fewest)
        return width, _whole(m, rows, CHANNELS_BESIDE)

    def _alone(self) -> Windows | None:
        """Windows of a channel per row."""
        windows = self._windows()
        return windows if windows and windows.alone else None

    def _windows(self) -> Windows | None:
        """Those as columns, of the only product."""
        found = [x.windows for x in self.d.products]
        return found[0] if len(found) == 1 and found[0] and not found[0].by_rows else None

    def _image_lanes(self) -> int:
        """How many images are multiplied at once, if there are enough for most lanes, else 0: in
        equal parts, of one group."""
        windows = self._windows()
        if windows is None or windows.alone or self.d.shape[1] != 1:
            return 0
        batch = self.d.shape[0]
        images = -(-batch // most(-(-batch // MOST_IMAGES), 1))
        if images * 4 < -(-images // 16) * 16 * 3:
            return 0
        if self._may_have_output_lanes(windows) and _is_mostly_inside(windows):
            return 0
        brought = _positions(windows, LANE_WINDOWS) * least(windows.channels, _channels(windows))
        return images if brought * MOST_IMAGES <= LANE_ELEMENTS else 0

    def _together(self, around: int) -> int:
        """Images that an item takes: of one group, since weights are others in each."""
        windows = self._windows()
        if windows is None or windows.alone or self.d.shape[1] != 1:
            return 1
        images = self._image_lanes()
        if images:
            return images
        count = prod([numbers[1] for numbers in windows.dims])
        limit = self._most_windows() if self._output_lanes() else MOST_COLUMNS
        return most(least(around, limit // most(count, 1)), 1)

    def _output_lanes(self) -> bool:
        """Whether output channels are lanes: unless images are."""
        windows = self._windows()
        if windows is None or self._image_lanes():
            return False
        return self._may_have_output_lanes(windows)

    def _may_have_output_lanes(self, windows: Windows) -> bool:
        return not self._quads() and outputs_are_lanes(windows, self._outputs(), OUTPUT_WINDOWS)

    def _line_of_windows(self) -> int:
        """What windows are cut in with outputs as lanes: whole lines, unless they are long."""
        windows = self._windows()
        line = windows.dims[-1][1] if windows else 1
        return line if line <= MOST_COLUMNS else COLUMNS_CUT

    def _most_windows(self) -> int:
        """Windows that are multiplied at a time with output channels as lanes."""
        return least(OUTPUT_WINDOWS, OUTPUT_SUMS // self._outputs())

    def _quads(self) -> bool:
        return any([x.quads for x in self.d.products])

    def _outputs(self) -> int:
        return prod([self.d.shape[d] for d in self.d.rows])

    def blocks_around(self, around: int) -> int:
        """By images, of which an item takes several if they are small."""
        return -(-around // self._together(around))

    # ------------------------------------------------------------------------- what is told

    def more(self, slots: list[int], inner: Axis, outer: list[Axis]) -> int:
        """Per product, see `PRODUCT` in templates.py; then the dims of windows."""
        nbytes, first = JOB_BYTES, len(slots)
        around = prod([size for size, _ in outer])
        for factors in self.d.products:
            self._tell(slots, factors, inner)
            together = self._together(around)
            rows = _band(slots[7], most(MOST_ROWS // most(slots[6], 1), 1))
            most_columns = FEW_ROWS_COLUMNS if self._is_few(slots[3]) else MOST_COLUMNS
            columns = most(most_columns // most(slots[4] * together, 1), 1)
            if self._image_lanes():
                items = LANE_SUMS // most(slots[4] * slots[6] * together, 1)
                columns = most(least(LANE_WINDOWS // most(slots[4], 1), items // slots[7]), 1)
                rows = most(items // columns, 1)
            if self._output_lanes():
                columns = most(self._most_windows() // most(slots[4] * together, 1), 1)
            if self._alone():
                columns = most(ALONE_WINDOWS // most(slots[4], 1), 1)
                rows = most(ALONE_SUMS // most(slots[6] * slots[4] * columns, 1), 1)
            if factors.windows and lanes_are_windows(factors.windows):
                rows = least(rows, most(WINDOW_SUMS // most(slots[6] * slots[4] * columns, 1), 1))
            slots += [together, around, rows, columns]
            room = self._room(rows * slots[6], columns * slots[4], together)
            nbytes = nbytes + room * summed_as(factors.dtype).itemsize
        for number, factors in enumerate(self.d.products):
            if factors.windows is not None:
                slots[first + number * PRODUCT + 4] = len(slots)
                slots += self._geometry(factors, factors.windows)
                rows = slots[6] * slots[first + number * PRODUCT + 7]
                nbytes = nbytes + _bytes_for_slopes(factors, factors.windows, rows)
        return nbytes

    def _room(self, rows: int, columns: int, together: int) -> int:
        """Elements of the thread's memory for a product."""
        slopes = [x.windows for x in self.d.products if x.windows]
        if slopes and lanes_are_windows(slopes[0]):
            return room_for_sums(rows, columns) + elements_for_sums(rows, columns)
        seen = self._windows()
        if self._is_few(rows):
            return room_for_few(rows, columns)
        if seen and seen.alone:
            return room_for_sums(rows, columns) + elements_for_lanes(columns, seen.dims)
        if seen and self._output_lanes():
            outputs = elements_for_outputs(rows, columns * together, seen)
            return room_for_sums(rows, columns * together) + outputs
        if seen is None or not self._image_lanes():
            return room_for(rows, columns * together)
        images = elements_for(rows, columns, _positions(seen, columns), seen.channels, _taps(seen))
        return room_for_sums(rows, columns * together) + images

    def _is_few(self, rows: int) -> bool:
        """Whether columns are read where they are, however many rows an item takes."""
        return rows <= FEW_ROWS and not any([x.windows for x in self.d.products])

    def _tell(self, slots: list[int], factors: Factors, inner: Axis) -> None:
        size, dtype = factors.dtype.itemsize, factors.dtype
        terms = [self._step(x, 0) for x in (factors.left, factors.right)]
        signature: Signature
        if factors.windows is not None:
            generate = self._generate(factors.windows)
            signature = (generate, len(factors.windows.dims), dtype)
            if generate is generate_window_lanes:
                height = _height(factors.windows.dims[-1][2])
                signature = (generate, len(factors.windows.dims), height, dtype)
            if generate is generate_output_lanes:
                stride = next(x for x in (1, 2) if factors.windows.dims[-1][3] == x)
                signature = (generate, len(factors.windows.dims), stride, dtype)
        else:
            left = "terms" if terms[0] == size else "lines"
            right = "lines" if inner[1][factors.right] == size else "terms"
            signature = (generate_product, left, right, dtype)
        if factors.quads:
            signature = (*signature, factors.quads)
        self.calls.append((len(slots), signature))
        slots += [0, factors.terms, *terms, 0]

    def _generate(self, windows: Windows) -> Callable[..., None]:
        """What multiplies windows."""
        if windows.by_rows:
            if has_many_channels(windows):
                return generate_channel_slopes
            return generate_window_lanes if lanes_are_windows(windows) else generate_slopes
        if windows.alone:
            return generate_channel_lanes
        if self._output_lanes():
            return generate_output_lanes
        return generate_image_lanes if self._image_lanes() else generate_conv

    def _step(self, stream: int, axis: int) -> int:
        """Bytes to the next element along an axis that is counted after the loops."""
        node, index = self.d.places[stream]
        strides = axis_strides(index, node.meta.shape, self.axes)
        return strides[len(self.d.shape) + axis] * node.meta.dtype.itemsize

    def _geometry(self, factors: Factors, windows: Windows) -> list[int]:
        """`ALL_DIMS`, then `EACH_DIM` of compiler/windows.py."""
        seen = factors.left if windows.by_rows else factors.right
        image = self._step(seen, 1)
        if not windows.by_rows:  # images are what the loops around go over
            node, index = self.d.places[seen]
            image = axis_strides(index, node.meta.shape, self.axes)[0] * node.meta.dtype.itemsize
        told = [windows.channels, image, self._step(seen, 2), self._step(factors.right, 1)]
        for d, (size, *others) in enumerate(windows.dims):
            told += [size, self._step(seen, 3 + d), *others]
        return told


def _height(taps: int) -> int:
    """Places that are multiplied at once: equal parts of a line."""
    wanted = -(-taps // most(-(-taps // MOST_PLACES), 1))
    return next(height for height in range(1, MOST_PLACES + 1) if wanted == height)


def _bytes_for_slopes(factors: Factors, windows: Windows, rows: int) -> int:
    """Bytes of the thread's memory for notes, and for images of many channels."""
    rank = len(windows.dims)
    if lanes_are_windows(windows):
        _, count, taps, *_ = windows.dims[-1]
        return bytes_for_lanes(rank, count, _taps(windows) // taps, taps)
    if not windows.by_rows or not has_many_channels(windows):
        return room_for_notes(rank)
    channels = least(windows.channels, rows // _taps(windows) + 2)
    elements = elements_for_channels(channels, _places(windows))
    return bytes_for_windows(rank) + elements * factors.dtype.itemsize


def _places(windows: Windows) -> int:
    """Elements of a channel that a block of windows lies in, at most: in each image some lines of
    the first dim."""
    size, counts, taps, stride, dilation, _ = windows.dims[0]
    others = prod([numbers[1] for numbers in windows.dims[1:]])
    images = (BLOCK - 1) // most(counts * others, 1) + 2
    lines = BLOCK // most(others, 1) + images
    length = least(images * size, lines * stride + images * ((taps - 1) * dilation + 1))
    return length * prod([numbers[0] for numbers in windows.dims[1:]])


def _taps(windows: Windows) -> int:
    return prod([numbers[2] for numbers in windows.dims])


def _is_mostly_inside(windows: Windows) -> bool:
    """Whether windows reach but little beyond images, in each dim."""
    for size, count, taps, stride, dilation, _ in windows.dims:
        reach = (count - 1) * stride + (taps - 1) * dilation + 1
        if (reach - size) * MOSTLY_INSIDE > size:
            return False
    return True


def _channels(windows: Windows) -> int:
    """Channels whose terms are multiplied at a time."""
    return most(BLOCK // _taps(windows), 1)


def _positions(windows: Windows, count: int) -> int:
    """Elements of a channel that `count` windows in a row lie in, at most: some lines of the first
    dim."""
    size, counts, taps, stride, dilation, _ = windows.dims[0]
    others = prod([numbers[1] for numbers in windows.dims[1:]])
    lines = least(counts, (count - 1) // most(others, 1) + 2)
    length = least(size, (lines - 1) * stride + (taps - 1) * dilation + 1)
    return length * prod([numbers[0] for numbers in windows.dims[1:]])


def _band(blocks: int, most_blocks: int) -> int:
    """Blocks of rows that are taken together: as many in each band, about."""
    return _cuts(blocks, _cuts(blocks, most_blocks))


def _parts(wanted: int, others: int, finest: int, coarsest: int) -> int:
    """How many parts there are to be, where `others` are to be made of each."""
    return most(least(-(-wanted // most(others, 1)), finest), coarsest)


def _cuts(extent: int, size: int) -> int:
    """How many parts of at most `size` something has."""
    return most(-(-extent // size), 1)


def _whole(extent: int, parts: int, cut: int) -> int:
    """The size of equal parts, a multiple of `cut` unless all of it is less."""
    return least(-(-extent // (parts * cut)) * cut, most(extent, 1))
