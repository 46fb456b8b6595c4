"""Graph networks, by convolution (GCN) and attention (GAT): who belongs to which group?

A graph of people is generated: friends are mostly of one's own group, what is known of each person
says little about it, and the group of a few is given. A network that does not see the graph is
trained beside the two that do.
"""

import numpy as np
from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train

args = arguments(__doc__)
PEOPLE, GROUPS, FEATURES = (300, 4, 16) if args.quick else (1200, 6, 16)
random = np.random.default_rng(args.seed)

groups = random.integers(0, GROUPS, PEOPLE)
alike = groups[:, None] == groups[None]
friends = np.triu(random.random((PEOPLE, PEOPLE)) < np.where(alike, 12, 1.5) / PEOPLE, 1)
source, target = np.nonzero(friends | friends.T)  # each friendship in both directions
middles = random.standard_normal((GROUPS, FEATURES))
known = 0.35 * middles[groups] + random.standard_normal((PEOPLE, FEATURES))
print(f"data: a generated graph of {PEOPLE} people, {len(source) // 2} friendships")

# Everybody is a neighbour of his own as well.
itself = lg.arange(PEOPLE)
sources, targets = lg.cat([lg.tensor(source), itself]), lg.cat([lg.tensor(target), itself])
degree = lg.zeros(PEOPLE).index_add(0, targets, lg.ones(len(targets)))
share = (degree[sources] * degree[targets]).rsqrt()[:, None]


class Alone(nn.Module):
    """A layer that does not look at neighbours."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.linear = nn.Linear(before, after)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class Convolution(Alone):
    """The weighted sum of what neighbours are."""

    def forward(self, x: Tensor) -> Tensor:
        messages = self.linear(x)[sources] * share
        return lg.zeros(PEOPLE, messages.shape[1]).index_add(0, targets, messages)


class Attention(nn.Module):
    """A sum whose weights depend on who asks and who answers; several heads."""

    def __init__(self, before: int, after: int, heads: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(before, heads * after)
        self.asks = nn.Parameter(0.3 * lg.randn(heads, after))
        self.answers = nn.Parameter(0.3 * lg.randn(heads, after))

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x).view(PEOPLE, *self.asks.shape)  # (people, heads, after)
        scores = (x * self.asks).sum(-1)[targets] + (x * self.answers).sum(-1)[sources]
        weights = F.leaky_relu(scores, 0.2).clamp(max=20).exp()  # (edges, heads)
        total = lg.zeros(PEOPLE, weights.shape[1]).index_add(0, targets, weights)
        messages = x[sources] * (weights / total[targets])[..., None]
        return lg.zeros_like(x).index_add(0, targets, messages).mean(1)


class Network(nn.Module):
    """Two layers of a kind."""

    def __init__(self, kind: type[nn.Module], width: int = 32) -> None:
        super().__init__()
        self.first, self.second = kind(FEATURES, width), kind(width, GROUPS)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.drop(F.relu(self.first(self.drop(x)))))


x, y = lg.tensor(known).float(), lg.tensor(groups)
order = random.permutation(PEOPLE)
given, hidden = lg.tensor(order[: 10 * GROUPS]), lg.tensor(order[10 * GROUPS :])
tested, curves = {}, {}
for name, kind in (("without the graph", Alone), ("GCN", Convolution), ("GAT", Attention)):
    model = Network(kind)
    optimizer = optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-3)
    curves[name] = []
    for step in (bar := train.progress(range(150 if args.quick else 300), name)):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x)[given], y[given])
        loss.backward()
        optimizer.step()
        bar.set(loss=loss)
        if step % 10 == 9:
            model.eval()
            with lg.no_grad():
                right = (model(x).argmax(1) == y)[hidden]
            curves[name].append(right.float().mean().item())
    tested[name] = curves[name][-1]

if plt := pyplot():
    plt.figure(figsize=(9, 3.5))
    plt.subplot(121, title="people put into the right group", xlabel="ten steps")
    for name, curve in curves.items():
        plt.plot(curve, label=name)
    plt.legend()
    plt.subplot(122, title="friendships, people sorted by group")
    places = np.argsort(np.argsort(groups, kind="stable"))
    plt.plot(places[source], places[target], ",k")
    save(plt, args)

baseline = tested["without the graph"]
result("accuracy without the graph", baseline)
result("accuracy of graph convolution", tested["GCN"], at_least=baseline + 0.05)
result("accuracy of graph attention", tested["GAT"], at_least=baseline + 0.05)
