"""A one-stage detector: boxes and classes of all things in an image, in one pass.

Each cell of a grid says whether the middle of a thing lies in it, where its box is, and what it is
(as CenterNet and FCOS do). Scenes are generated: digits that come with livegrad, scattered over an
image. Measured by the mean average precision at half overlap (mAP 50).
"""

import numpy as np
from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.datasets import digits_split
from livegrad.vision import ops, utils

args = arguments(__doc__)
SIZE, CELL = 40, 4  # pixels of an image, pixels of a cell
CLASSES = (0, 1, 4) if args.quick else tuple(range(10))
random = np.random.default_rng(args.seed)
data = digits_split()


def scene(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An image (40, 40), boxes (n, 4) and classes (n,) of one to three digits that do not touch."""
    image = 0.15 * random.random((SIZE, SIZE)).astype(np.float32)
    boxes: list[list[float]] = []
    classes: list[int] = []
    for _ in range(random.integers(1, 4)):
        which = random.choice(np.flatnonzero(np.isin(labels, CLASSES)))
        scale = random.choice([1, 2])
        digit = images[which].repeat(scale, 0).repeat(scale, 1)
        side = 8 * scale
        x, y = random.integers(0, SIZE - side + 1, 2).tolist()
        if any(x < b[2] and b[0] < x + side and y < b[3] and b[1] < y + side for b in boxes):
            continue
        image[y : y + side, x : x + side] = np.maximum(image[y : y + side, x : x + side], digit)
        boxes.append([x, y, x + side, y + side])
        classes.append(CLASSES.index(labels[which]))
    return image, np.array(boxes, np.float32), np.array(classes)


def targets(boxes: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What cells should say: a class (len(CLASSES) for none), and offsets to the box's sides."""
    cells = SIZE // CELL
    kind = np.full((cells, cells), len(CLASSES))
    sides = np.zeros((4, cells, cells), np.float32)
    for (x0, y0, x1, y1), label in zip(boxes, classes, strict=True):
        i, j = int((y0 + y1) / 2 // CELL), int((x0 + x1) / 2 // CELL)
        x, y = (j + 0.5) * CELL, (i + 0.5) * CELL
        kind[i, j] = label
        sides[:, i, j] = np.array([x - x0, y - y0, x1 - x, y1 - y]) / CELL
    return kind, sides


def layer(before: int, after: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, stride, padding=1), nn.BatchNorm2d(after), nn.ReLU()
    )


class Detector(nn.Module):
    """Images (N, 1, 40, 40) to scores of classes (N, C + 1, 10, 10) and sides (N, 4, 10, 10)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            layer(1, width // 2), layer(width // 2, width, 2), layer(width, width),
            layer(width, 2 * width, 2), layer(2 * width, 2 * width), layer(2 * width, 2 * width),
        )  # fmt: skip
        self.classes = nn.Conv2d(2 * width, len(CLASSES) + 1, 1)
        self.sides = nn.Conv2d(2 * width, 4, 1)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(images)
        return self.classes(x), F.softplus(self.sides(x))

    def detect(self, images: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Boxes (n, 4), scores (n,) and classes (n,) of each image, the same thing only once."""
        chances, sides = self(images)
        best = F.softmax(chances, dim=1)[:, :-1].max(dim=1)
        middle = (lg.arange(SIZE // CELL) + 0.5) * CELL
        y, x = lg.meshgrid(middle, middle, indexing="ij")
        left, up, right, down = (sides * CELL).unbind(1)
        boxes = lg.stack([x - left, y - up, x + right, y + down], dim=-1)
        found = []
        for box, score, label in zip(boxes, best.values, best.indices, strict=True):
            box, score, label = box.view(-1, 4), score.flatten(), label.flatten()
            likely = score > 0.05
            box, score, label = box[likely], score[likely], label[likely]
            kept = ops.batched_nms(box, score, label, 0.5)
            found.append((box[kept], score[kept], label[kept]))
        return found


def average_precision(found: list, wanted: list, label: int) -> float:
    """The area under precision by recall of one class; a box is right if it overlaps by half."""
    rows, total = [], 0
    for (boxes, scores, labels), (true_boxes, true_labels) in zip(found, wanted, strict=True):
        true = lg.tensor(true_boxes[true_labels == label]).view(-1, 4)
        total += len(true)
        mine = labels == label
        overlaps = ops.box_iou(boxes[mine], true).tolist()
        taken: set[int] = set()
        for score, overlap in zip(scores[mine].tolist(), overlaps, strict=True):
            best = max(range(len(true)), key=lambda k: overlap[k], default=-1)
            right = best >= 0 and overlap[best] >= 0.5 and best not in taken
            taken.add(best)
            rows.append((score, right))
    rights = np.cumsum([right for _, right in sorted(rows, reverse=True)])
    precision = np.maximum.accumulate((rights / np.arange(1, len(rights) + 1))[::-1])[::-1]
    return float(np.sum(np.diff(rights / max(total, 1), prepend=0) * precision))


count, steps, width = (400, 300, 12) if args.quick else (4000, 2500, 24)
scenes = [scene(data.train_images, data.train_labels) for _ in range(count)]
unseen = [scene(data.test_images, data.test_labels) for _ in range(100 if args.quick else 400)]
print(f"data: {count} + {len(unseen)} generated scenes of digits {CLASSES}")
images = lg.tensor(np.stack([x for x, _, _ in scenes]))[:, None]
wanted = [targets(boxes, classes) for _, boxes, classes in scenes]
kinds, sides = [lg.tensor(np.stack(x)) for x in zip(*wanted, strict=True)]

model = Detector(width)
optimizer = optim.AdamW(model.parameters(), lr=5e-3)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
losses = []
for _ in (bar := train.progress(range(steps), "training")):
    rows = lg.randint(0, count, (16,))
    chances, guessed = model(images[rows])
    there = (kinds[rows] < len(CLASSES))[:, None].float()
    which = F.cross_entropy(chances, kinds[rows])
    where = (F.smooth_l1_loss(guessed, sides[rows], reduction="none") * there).sum() / there.sum()
    optimizer.zero_grad()
    (20 * which + where).backward()
    optimizer.step()
    scheduler.step()
    losses.append(which)
    bar.set(which=which, where=where)

model.eval()
with lg.no_grad():
    found = model.detect(lg.tensor(np.stack([x for x, _, _ in unseen]))[:, None])
truth = [(boxes, classes) for _, boxes, classes in unseen]
precisions = [average_precision(found, truth, label) for label in range(len(CLASSES))]

if plt := pyplot():
    plt.figure(figsize=(10, 4))
    for i in range(8):
        boxes, scores, labels = [x[found[i][1] > 0.2] for x in found[i]]
        grey = (lg.tensor(unseen[i][0]) * 255).clamp(0, 255).to(lg.uint8).expand(3, -1, -1)
        drawn = utils.draw_bounding_boxes(grey, boxes, colors="orange") if len(boxes) else grey
        plt.subplot(2, 4, i + 1, xticks=[], yticks=[])
        plt.title("found: " + " ".join(str(CLASSES[k]) for k in labels.tolist()), fontsize=9)
        plt.imshow(drawn.permute(1, 2, 0).numpy())
    save(plt, args)

mean = sum(precisions) / len(precisions)
result("mean average precision (mAP 50)", mean, at_least=0.5 if args.quick else 0.8)
