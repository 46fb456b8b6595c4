"""Image and text together: questions about pictures, answered by one network that sees both.

Pictures of two coloured shapes are generated, with questions such as "what colour is the circle" or
"is the square left of the star". Beside it are a network that is given the question alone, and one
that is given the picture alone.
"""

import numpy as np
from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.text import Field

args = arguments(__doc__)
SIZE = 16
COLOURS = {
    "red": (1, 0.2, 0.2),
    "green": (0.2, 0.9, 0.2),
    "blue": (0.3, 0.4, 1),
    "white": (1, 1, 1),
}
SHAPES = ("circle", "square", "cross")
ANSWERS = (*COLOURS, "yes", "no")
random = np.random.default_rng(args.seed)
Example = tuple[np.ndarray, str, int]


def drawn(image: np.ndarray, shape: str, colour: str, x: int, y: int) -> None:
    """Draws a shape of six pixels into an image (3, 16, 16)."""
    down, across = np.mgrid[:6, :6] - 2.5
    masks = {
        "circle": np.hypot(down, across) < 3,
        "square": np.ones((6, 6), bool),
        "cross": (abs(down) < 1) | (abs(across) < 1),
    }
    image[:, y : y + 6, x : x + 6][:, masks[shape]] = np.array(COLOURS[colour])[:, None]


def example() -> Example:
    """A picture of two shapes side by side, a question, the number of its answer."""
    image = 0.2 * random.random((3, SIZE, SIZE))
    shapes, colours = random.permutation(SHAPES)[:2], random.choice(list(COLOURS), 2)
    for i, left in enumerate((0, 8)):
        x, y = left + random.integers(0, 3), random.integers(0, SIZE - 6)
        drawn(image, shapes[i], colours[i], x, y)
    asked = random.integers(2)
    match random.integers(3):
        case 0:
            question, answer = f"what colour is the {shapes[asked]}", colours[asked]
        case 1:
            side = ("left", "right")[asked]
            question, answer = f"what colour is the thing on the {side}", colours[asked]
        case _:
            question = f"is the {shapes[asked]} left of the {shapes[1 - asked]}"
            answer = "yes" if asked == 0 else "no"
    return image.astype(np.float32), question, ANSWERS.index(answer)


class Answerer(nn.Module):
    """What is seen times what is asked: one says what matters in the other."""

    def __init__(self, words: int, width: int = 64, see: bool = True, read: bool = True) -> None:
        super().__init__()
        self.see, self.read = see, read
        self.eye = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 16, width),
        )  # fmt: skip
        self.embed = nn.Embedding(words, 24)
        self.ear = nn.GRU(24, width, batch_first=True)
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, len(ANSWERS))
        # What a network is not given, it does not learn from.
        self.eye.requires_grad_(see)
        for part in (self.embed, self.ear):
            part.requires_grad_(read)

    def forward(self, images: Tensor, questions: Tensor) -> Tensor:
        seen = self.eye(images) if self.see else 1.0
        asked = self.ear(self.embed(questions))[1][0] if self.read else 1.0
        return self.outer(F.relu(self.inner(seen * asked)))


def batch_of(examples: list[Example]) -> tuple[Tensor, Tensor, Tensor]:
    images = lg.tensor(np.stack([image for image, _, _ in examples]))
    return images, field([text for _, text, _ in examples]), lg.tensor([x for _, _, x in examples])


examples = [example() for _ in range(4000 if args.quick else 20_000)]
field = Field(str.split)
field.build_vocab([text for _, text, _ in examples])
images, questions, answers = batch_of(examples)
test_images, test_questions, test_answers = batch_of([example() for _ in range(600)])
print(f"data: {len(examples)} generated pictures with questions, {len(field.vocab)} words")

tested, curves = {}, {}
steps = 500 if args.quick else 3000
givens = {"question alone": (False, True), "picture alone": (True, False), "both": (True, True)}
for name, (see, read) in givens.items():
    model = Answerer(len(field.vocab), see=see, read=read)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = optim.AdamW(trained, lr=4e-3)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    losses = []
    for _ in (bar := train.progress(range(steps if see and read else steps // 3), name)):
        rows = lg.randint(0, len(images), (64,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[rows], questions[rows]), answers[rows])
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss)
        bar.set(loss=loss)
    with lg.no_grad():
        guesses = model(test_images, test_questions).argmax(1)
    tested[name] = (guesses == test_answers).float().mean().item()
    curves[name] = lg.stack(losses).tolist()

if plt := pyplot():
    plt.figure(figsize=(10, 4))
    plt.subplot(2, 5, (1, 7), title="loss", xlabel="step")
    for name, losses in curves.items():
        plt.plot(losses, lw=0.7, label=f"{name}: {tested[name]:.1%}")
    plt.legend(fontsize=8)
    for i in range(6):
        plt.subplot(2, 5, i % 3 + 3 + 5 * (i // 3), xticks=[], yticks=[])
        question = " ".join(field.texts(test_questions[i : i + 1])[0])
        plt.title(f"{question}?\n{ANSWERS[guesses[i].item()]}", fontsize=6)
        plt.imshow(test_images[i].permute(1, 2, 0).numpy())
    save(plt, args)

for name in ("question alone", "picture alone"):
    result(f"answers right, {name}", tested[name])
result("answers right, both", tested["both"], at_least=0.75 if args.quick else 0.95)
