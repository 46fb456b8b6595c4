"""A Tree-LSTM: another network for each example, because each example is another tree.

Expressions such as (not (a or b)) and c are generated, with values of the letters; what is their
value? Code follows the tree by recursion, one node at a time, and nothing is batched by hand: what
is recorded is brought together before it runs. Beside it is a bag of the leaves and operators,
which does not know the structure.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train

args = arguments(__doc__)
WORDS = ("true", "false", "and", "or", "not", "xor")
State = tuple[Tensor, Tensor]


@dataclass
class Tree:
    word: int
    children: tuple[Tree, ...] = ()

    def value(self) -> bool:
        values = [child.value() for child in self.children]
        match WORDS[self.word]:
            case "true":
                return True
            case "not":
                return not values[0]
            case "and":
                return all(values)
            case "or":
                return any(values)
            case "xor":
                return values[0] != values[1]
        return False

    def words(self) -> list[int]:
        return [self.word] + [word for child in self.children for word in child.words()]


def grow(depth: int) -> Tree:
    if depth == 0 or random.random() < 0.15:
        return Tree(random.randrange(2))
    word = random.choice((2, 3, 4, 5))
    return Tree(word, tuple(grow(depth - 1) for _ in range(1 if WORDS[word] == "not" else 2)))


class TreeLSTM(nn.Module):
    """A node's state, from its word and the sum of its children's, each with a gate of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.embed = nn.Embedding(len(WORDS), width)
        self.gates = nn.Linear(2 * width, 3 * width)
        self.forget = nn.Linear(2 * width, width)
        self.outer = nn.Linear(width, 2)

    def node(self, tree: Tree, nothing: Tensor) -> State:
        states = [self.node(child, nothing) for child in tree.children]  # the tree's own recursion
        x = self.embed.weight[tree.word]
        h = sum((state[0] for state in states), nothing)
        i, o, u = self.gates(lg.cat([x, h])).chunk(3)
        c = lg.sigmoid(i) * lg.tanh(u)
        for child_h, child_c in states:
            c = c + lg.sigmoid(self.forget(lg.cat([x, child_h]))) * child_c
        return lg.sigmoid(o) * lg.tanh(c), c

    def forward(self, trees: list[Tree]) -> Tensor:
        nothing = lg.zeros(self.width)
        return self.outer(lg.stack([self.node(tree, nothing)[0] for tree in trees]))


class Bag(nn.Module):
    """How often each word occurs, and a network of two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(len(WORDS), width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, trees: list[Tree]) -> Tensor:
        counts = [[float(tree.words().count(i)) for i in range(len(WORDS))] for tree in trees]
        return self.layers(lg.tensor(counts))


def accuracy(model: nn.Module, trees: list[Tree]) -> float:
    with lg.no_grad():
        guesses = model(trees).argmax(1).tolist()
    return sum(a == tree.value() for a, tree in zip(guesses, trees, strict=True)) / len(trees)


depth = 3 if args.quick else 5
unseen = [grow(depth) for _ in range(200 if args.quick else 1000)]
deeper = [grow(depth + 2) for _ in range(100)]
sizes = [len(tree.words()) for tree in unseen]
print(f"data: generated expressions of 1 to {max(sizes)} words, no two batches alike")

tested, curves = {}, {}
for name, model in (("bag", Bag(64)), ("Tree-LSTM", TreeLSTM(24 if args.quick else 48))):
    optimizer = optim.Adam(model.parameters(), lr=1e-2 if args.quick else 5e-3)
    losses = []
    for _ in (bar := train.progress(range(150 if args.quick else 800), name)):
        trees = [grow(depth) for _ in range(32)]
        wanted = lg.tensor([int(tree.value()) for tree in trees])
        optimizer.zero_grad()
        loss = F.cross_entropy(model(trees), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        bar.set(loss=loss)
    curves[name] = losses
    tested[name] = accuracy(model, unseen)
    print(f"{name}: accuracy {tested[name]:.3f}, on deeper trees {accuracy(model, deeper):.3f}")

if plt := pyplot():
    plt.figure(figsize=(6, 3.5))
    for name, losses in curves.items():
        plt.plot(losses, label=f"{name}: {tested[name]:.1%} right")
    plt.title("loss")
    plt.xlabel("step")
    plt.legend()
    save(plt, args)

result("accuracy of a bag of words", tested["bag"])
result("accuracy of the Tree-LSTM", tested["Tree-LSTM"], at_least=tested["bag"] + 0.1)
