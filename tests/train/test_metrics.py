"""Metrics: against plain counting, in batches, and without cutting a training step in two."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train

RANDOM = np.random.default_rng(0)
CLASSES = 4
# Rounded, so that there are ties; class 3 is never true.
SCORES = RANDOM.standard_normal((90, CLASSES)).round(1)
LABELS = RANDOM.integers(0, CLASSES - 1, 90)
CHANCES = RANDOM.random(90).round(1)
ANSWERS = (RANDOM.random(90) < CHANCES).astype(np.int64)


def in_batches(metric, *arrays, size=32, as_tensors=False):
    for start in range(0, len(arrays[0]), size):
        batch = [a[start : start + size] for a in arrays]
        metric.update(*[lg.tensor(a) for a in batch] if as_tensors else batch)
    return metric.compute()


def counts(said, true, label):
    """How often a label was right, said, true, and neither."""
    pairs = list(zip(said.tolist(), true.tolist(), strict=True))
    return (
        sum(s == t == label for s, t in pairs),
        sum(s == label for s, _ in pairs),
        sum(t == label for _, t in pairs),
        sum(s != label != t for s, t in pairs),
    )


def safe(a, b):
    return a / b if b else 0.0


FORMULAS = {
    "Precision": lambda right, said, true, neither: safe(right, said),
    "Recall": lambda right, said, true, neither: safe(right, true),
    "F1": lambda right, said, true, neither: safe(2 * right, said + true),
    "Dice": lambda right, said, true, neither: safe(2 * right, said + true),
    "IoU": lambda right, said, true, neither: safe(right, said + true - right),
    "Specificity": lambda right, said, true, neither: safe(neither, neither + said - right),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_averages_of_classes(name):
    said = SCORES.argmax(1)
    table = [counts(said, LABELS, label) for label in range(CLASSES)]
    values = [FORMULAS[name](*row) for row in table]
    weights = [row[2] for row in table]
    weighted = sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)
    expected = {
        None: values,
        "macro": sum(values) / CLASSES,
        "weighted": weighted,
        "micro": FORMULAS[name](*np.sum(table, 0)),
    }
    for average, value in expected.items():
        got = in_batches(getattr(train, name)(average), SCORES, LABELS)
        np.testing.assert_allclose(got, value, rtol=1e-12, err_msg=str(average))
    # One score per target: the value of the answer yes.
    binary = in_batches(getattr(train, name)(), CHANCES, ANSWERS)
    yes = counts((CHANCES > 0.5).astype(int), ANSWERS, 1)
    assert binary == pytest.approx(FORMULAS[name](*yes))


def test_macro_leaves_out_classes_that_never_occur():
    assert train.F1("macro", num_classes=9)(np.array([0, 1]), np.array([0, 1])) == 1.0


def test_several_labels_per_sample():
    scores, labels = RANDOM.random((40, 3)), RANDOM.integers(0, 2, (40, 3))
    each = [train.F1()(scores[:, i], labels[:, i]) for i in range(3)]
    np.testing.assert_allclose(in_batches(train.F1(None), scores, labels), each)
    assert in_batches(train.F1("macro"), scores, labels) == pytest.approx(np.mean(each))
    assert train.F1()(scores, labels) == train.F1()(scores.ravel(), labels.ravel())


def test_accuracy_and_top_k():
    order = np.argsort(-SCORES, axis=1, kind="stable")
    for k in (1, 2, 4):
        expected = np.mean([label in row[:k] for row, label in zip(order, LABELS, strict=True)])
        assert in_batches(train.Accuracy(k), SCORES, LABELS, as_tensors=True) == expected
    shares = [np.mean(order[c == LABELS, 0] == c) for c in range(CLASSES - 1)]
    assert in_batches(train.Accuracy(average="macro"), SCORES, LABELS) == pytest.approx(
        np.mean(shares)
    )
    assert math.isnan(train.Accuracy().compute())
    images = RANDOM.standard_normal((2, CLASSES, 3, 5))
    labels = RANDOM.integers(0, CLASSES, (2, 3, 5))
    assert train.Accuracy()(images, labels) == np.mean(images.argmax(1) == labels)


def test_a_network_of_nan_is_not_accurate():
    nothing = np.full((4, 3), np.nan)
    for k in (1, 2):
        assert train.Accuracy(k)(nothing, np.zeros(4, np.int64)) == 0.0


def test_ignored_targets():
    labels = LABELS.copy()
    labels[::3] = -1
    left = labels >= 0
    for make in (train.Accuracy, train.F1, train.ConfusionMatrix):
        got = make(ignore_index=-1)(SCORES, labels)
        np.testing.assert_array_equal(got, make()(SCORES[left], LABELS[left]))
        with pytest.raises(ValueError, match="ignore_index=-1"):
            make()(SCORES, labels)


def test_confusion_matrix():
    said = SCORES.argmax(1)
    expected = [[np.sum((i == LABELS) & (said == j)) for j in range(4)] for i in range(4)]
    got = in_batches(train.ConfusionMatrix(), SCORES, LABELS)
    np.testing.assert_array_equal(got, expected)
    rows = in_batches(train.ConfusionMatrix(normalize="true"), SCORES, LABELS)
    np.testing.assert_allclose(rows.sum(1), [1, 1, 1, 0])
    with pytest.raises(ValueError, match="label 3.*num_classes=2"):
        train.ConfusionMatrix(2)(SCORES, LABELS)
    assert train.MatthewsCorrelation()(LABELS, LABELS) == pytest.approx(1.0)
    table = np.array([[20, 5], [10, 15]])  # a worked example: 0.7 agreement, 0.5 by chance
    pairs = [(i, j) for i, j in product(range(2), repeat=2) for _ in range(table[i, j])]
    true, said = np.array(pairs).T
    assert train.CohenKappa()(said, true) == pytest.approx(0.4)


def pairs_won(scores, yes):
    wins = [(a > b) + (a == b) / 2 for a, b in product(scores[yes].tolist(), scores[~yes].tolist())]
    return sum(wins) / len(wins)


def test_auc():
    assert in_batches(train.AUC(), CHANCES, ANSWERS) == pytest.approx(
        pairs_won(CHANCES, ANSWERS == 1)
    )
    each = [pairs_won(SCORES[:, c], c == LABELS) for c in range(CLASSES - 1)]
    got = in_batches(train.AUC(None), SCORES, LABELS)
    np.testing.assert_allclose(got, [*each, np.nan])
    assert in_batches(train.AUC(), SCORES, LABELS) == pytest.approx(np.mean(each))
    metric = train.AUC()
    metric.update(CHANCES, ANSWERS)
    fpr, tpr, thresholds = metric.curve()
    assert np.trapezoid(tpr, fpr) == pytest.approx(metric.compute())
    place = 3
    assert tpr[place] == np.mean(CHANCES[ANSWERS == 1] >= thresholds[place])
    assert math.isnan(train.AUC()(CHANCES[:5], np.ones(5)))
    with pytest.raises(ValueError, match="0 and 1"):
        train.AUC()(CHANCES, LABELS)


def test_average_precision():
    expected = last = 0.0
    for threshold in sorted(set(CHANCES.tolist()), reverse=True):
        said = threshold <= CHANCES
        recall = np.mean(said[ANSWERS == 1])
        expected += (recall - last) * np.mean(ANSWERS[said])
        last = recall
    metric = train.AveragePrecision()
    assert in_batches(metric, CHANCES, ANSWERS) == pytest.approx(expected)
    precision, recall, _ = metric.curve()
    assert (precision[-1], recall[-1], recall[0]) == (1.0, 0.0, 1.0)


def test_perplexity_is_exp_of_cross_entropy():
    labels = LABELS.copy()
    labels[::4] = -100
    loss = F.cross_entropy(lg.tensor(SCORES), lg.tensor(labels))
    assert in_batches(train.Perplexity(), SCORES, labels) == pytest.approx(math.exp(loss.item()))
    assert train.Perplexity()(np.zeros((7, 50)), np.zeros(7, np.int64)) == pytest.approx(50)
    with pytest.raises(ValueError, match=r"flatten\(0, -2\)"):
        train.Perplexity()(np.zeros((2, 7, 50)), np.zeros((2, 7), np.int64))


def test_bleu():
    # The first example of the paper: 2 of 7 words, because a word counts once per reference.
    unigrams = train.BLEU(1)(["the the the the the the the"], [["the cat is on the mat"]])
    assert unigrams == pytest.approx(2 / 7)
    candidate = "the cat is on the mat"
    references = ["there is a cat on the mat", "a cat is on the mat"]
    shares = [5 / 6, 4 / 5, 3 / 4, 2 / 3]
    expected = math.prod(shares) ** 0.25
    assert train.BLEU()([candidate], [references]) == pytest.approx(expected)
    tokens = [candidate.split()], [[r.split() for r in references]]
    assert train.BLEU()(*tokens) == pytest.approx(expected)
    assert train.BLEU()([[1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5]]) == pytest.approx(1.0)
    short = train.BLEU(1)(["the cat"], ["the cat is on the mat"])
    assert short == pytest.approx(math.exp(1 - 6 / 2))
    assert train.BLEU()(["a b"], ["a c"]) == 0.0
    assert train.BLEU(2, smooth=True)(["a b"], ["a c"]) == pytest.approx(math.sqrt(0.5 * 0.5))


def test_numbers():
    p, t = RANDOM.standard_normal((2, 77)) + 1000.0
    assert in_batches(train.MeanSquaredError(), p, t) == pytest.approx(np.mean((p - t) ** 2))
    assert in_batches(train.RootMeanSquaredError(), p, t) == pytest.approx(
        math.sqrt(np.mean((p - t) ** 2))
    )
    assert in_batches(train.MeanAbsoluteError(), p, t) == pytest.approx(np.mean(np.abs(p - t)))
    spread = np.sum((t - t.mean()) ** 2)
    assert in_batches(train.R2Score(), p, t) == pytest.approx(1 - np.sum((p - t) ** 2) / spread)
    assert in_batches(train.PearsonCorrelation(), p, t) == pytest.approx(np.corrcoef(p, t)[0, 1])
    with pytest.raises(ValueError, match="one shape"):
        train.MeanSquaredError().update(np.zeros((3, 1)), np.zeros(3))


def test_means():
    mean = train.Mean()
    mean.update(lg.tensor(2.0), 3)
    mean.update(np.array([4.0, 8.0]), np.array([1, 0]))
    assert mean.compute() == 10 / 4
    running, fading = train.RunningMean(2), train.ExponentialMean(0.5)
    for x in (1.0, 2.0, 4.0):
        running.update(x)
        fading.update(x)
    assert running.compute() == 3.0
    assert fading.compute() == pytest.approx((0.25 * 1 + 0.5 * 2 + 4) / 1.75)
    assert train.Maximum()(np.array([1, 5, 2])) == 5
    assert train.Minimum()(np.array([1, 5, 2])) == 1
    assert train.Sum()(lg.ones(4, dtype=lg.bfloat16)) == 4
    assert math.isnan(train.Mean().compute())


def test_a_batch_alone_and_all_together():
    metric = train.Accuracy()
    assert metric(np.array([1, 1]), np.array([1, 1])) == 1.0
    assert metric(np.array([1, 1]), np.array([0, 0])) == 0.0
    assert metric.compute() == 0.5
    metric.reset()
    assert math.isnan(metric.compute())


def test_metrics_by_name():
    metrics = train.Metrics([train.MeanSquaredError()], mae=train.MeanAbsoluteError())
    metrics.update(lg.zeros(2), lg.tensor([1.0, 3.0]))
    assert metrics.compute() == {"mean_squared_error": 5.0, "mae": 2.0}
    other = train.Metrics([train.MeanSquaredError()], mae=train.MeanAbsoluteError())
    other.load_state_dict(metrics.state_dict())
    assert other.compute() == metrics.compute()
    assert metrics(lg.zeros(1), lg.ones(1)) == {"mean_squared_error": 1.0, "mae": 1.0}
    with pytest.raises(ValueError, match="mae"):
        other.load_state_dict({})
    with pytest.raises(TypeError, match="expected a Metric"):
        train.Metrics(x=3)


@pytest.mark.parametrize(
    ("predictions", "targets", "message"),
    [
        ((4, 1), (4,), r"squeeze\(1\)"),
        ((4, 3), (5,), r"got predictions \(4, 3\) and targets \(5,\)"),
        ((4, 2, 3), (4,), "expected"),
    ],
)
def test_wrong_shapes_are_reported_at_once(predictions, targets, message):
    with pytest.raises(ValueError, match=message):
        train.Accuracy().update(lg.zeros(predictions), lg.zeros(targets))


def test_update_reads_nothing_that_is_pending(counted):
    """So a step with metrics between forward and backward is still one flush."""
    lg.manual_seed(0)
    model = nn.Linear(8, 3)
    optimizer = optim.Adam(model.parameters())
    x, y = lg.randn(16, 8), lg.randint(0, 3, (16,))
    metrics, mean = train.Metrics(accuracy=train.Accuracy()), train.Mean()
    seen = []

    def step():
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        metrics.update(out, y)
        mean.update(loss)
        loss.backward()
        optimizer.step()
        seen.append((np.mean(out.detach().numpy().argmax(1) == y.numpy()), loss.item()))

    step()
    with counted() as c:
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        metrics.update(out, y)
        mean.update(loss)
        loss.backward()
        optimizer.step()
        del out
    assert c.flushes == 1
    metrics.reset()
    mean.reset()
    seen.clear()
    for _ in range(4):
        step()
    assert metrics.compute()["accuracy"] == pytest.approx(np.mean([a for a, _ in seen]))
    assert mean.compute() == pytest.approx(np.mean([b for _, b in seen]))


def test_what_is_given_may_change_afterwards():
    metric = train.Sum()
    x = lg.ones(3) * 2
    metric.update(x)
    x.add_(100)
    assert metric.compute() == 6


def test_a_reset_forgets_what_waits():
    metric = train.Sum()
    metric.update(lg.ones(3) * 2)
    metric.reset()
    assert metric.compute() == 0
