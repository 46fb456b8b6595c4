"""nn.functional against PyTorch where the OpInfo samples do not look: states, options, masks."""

import itertools
import warnings

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F

torch = pytest.importorskip("torch")
TF = torch.nn.functional
rng = np.random.default_rng(0)


def numbers(*shape):
    return rng.normal(size=shape)


def both(f, *arrays, grad=True):
    """`f(module of functions, *tensors)` in both frameworks: results and gradients agree."""
    theirs = [torch.tensor(a, requires_grad=grad and a.dtype.kind == "f") for a in arrays]
    ours = [lg.tensor(a, requires_grad=grad and a.dtype.kind == "f") for a in arrays]
    wanted, got = f(TF, *theirs), f(F, *ours)
    wanted, got = (wanted, got) if isinstance(got, tuple) else ((wanted,), (got,))
    total, expected = 0, 0
    for y, z in zip(got, wanted, strict=True):
        if z is None:
            assert y is None
            continue
        np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-7, atol=1e-9)
        total, expected = total + (y * y).sum(), expected + (z * z).sum()
    if not grad:
        return
    total.backward()
    expected.backward()
    for x, t in zip(ours, theirs, strict=True):
        if t.requires_grad and t.grad is not None:
            np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-6, atol=1e-9)


# --------------------------------------------------------------------------------- normalisation


@pytest.mark.parametrize("norm", ["batch_norm", "instance_norm"])
@pytest.mark.parametrize("momentum", [0.1, 0.0, 1.0])
def test_running_statistics_move_in_place(norm, momentum):
    x = numbers(4, 3, 5)
    states = [(lg.zeros(3), lg.ones(3)), (torch.zeros(3), torch.ones(3))]
    for module, tensor, (mean, var) in zip((F, TF), (lg.tensor, torch.tensor), states, strict=True):
        options = {"training": True} if norm == "batch_norm" else {}
        for _ in range(2):
            getattr(module, norm)(
                tensor(x.astype(np.float32)), mean, var, momentum=momentum, **options
            )
    for ours, theirs in zip(*states, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


def test_batch_norm_of_half_precision_keeps_float_statistics():
    x = numbers(8, 4, 3).astype(np.float16)
    mean, var = lg.zeros(4), lg.ones(4)
    y = F.batch_norm(lg.tensor(x), mean, var, lg.ones(4), lg.zeros(4), training=True)
    assert y.dtype is lg.float16
    assert mean.dtype is lg.float32
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean.numpy(), 0.1 * wide.mean((0, 2)), rtol=1e-3, atol=1e-4)


def test_norms_raise_as_pytorch_does():
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        F.batch_norm(lg.ones(1, 3), lg.zeros(3), lg.ones(3), training=True)
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        F.instance_norm(lg.ones(2, 3, 1))
    with pytest.raises(RuntimeError, match="running_mean should contain 3 elements"):
        F.batch_norm(lg.ones(2, 3), lg.zeros(2), lg.ones(3), training=True)
    with pytest.raises(RuntimeError, match="divisible by num_groups"):
        F.group_norm(lg.ones(2, 3, 4), 2)
    with pytest.raises(RuntimeError, match="expected running_mean and running_var"):
        F.batch_norm(lg.ones(2, 3), None, None)


# ------------------------------------------------------------------------------------- attention


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float", "nothing"])
def test_scaled_dot_product_attention(mask):
    inputs = [numbers(2, 3, 4, 5), numbers(2, 3, 6, 5), numbers(2, 3, 6, 2)]
    allowed = rng.random((2, 1, 4, 6)) > 0.3
    if mask == "nothing":
        allowed[0, 0, 1] = False  # a query that may look nowhere
    options = {"is_causal": mask == "causal"}
    if mask in ("bool", "nothing"):
        inputs.append(allowed)
    elif mask == "float":
        inputs.append(numbers(4, 6))
    both(lambda M, *x: M.scaled_dot_product_attention(*x, scale=0.3, **options), *inputs)


def test_grouped_queries():
    inputs = numbers(2, 4, 3, 5), numbers(2, 2, 6, 5), numbers(2, 2, 6, 5)
    both(lambda M, *x: M.scaled_dot_product_attention(*x, enable_gqa=True), *inputs)


MHA = [
    dict(zip(("bias", "zero", "weights", "average", "mask", "padding"), case, strict=True))
    for case in itertools.product([False, True], repeat=6)
]


@pytest.mark.parametrize("options", MHA[::7], ids=lambda o: "".join(k[0] for k in o if o[k]))
@pytest.mark.parametrize("same", [True, False])
def test_multi_head_attention(options, same):
    length, keys, batch, features, heads = 3, 3 if same else 4, 2, 4, 2
    arrays = {
        "query": numbers(length, batch, features),
        "key": numbers(keys, batch, features),
        "in_w": numbers(3 * features, features),
        "in_b": numbers(3 * features),
        "out_w": numbers(features, features),
        "out_b": numbers(features),
        "bias_k": numbers(1, 1, features),
        "bias_v": numbers(1, 1, features),
    }
    mask = np.triu(np.ones((length, keys), bool), 2)
    padding = np.zeros((batch, keys), bool)
    padding[1, -1] = True

    def call(M, *tensors):
        tensor = lg.tensor if M is F else torch.tensor
        x = dict(zip(arrays, tensors, strict=True))
        value = x["query"] if same else x["key"]
        return M.multi_head_attention_forward(
            x["query"],
            value,
            value,
            features,
            heads,
            x["in_w"],
            x["in_b"],
            x["bias_k"] if options["bias"] else None,
            x["bias_v"] if options["bias"] else None,
            options["zero"],
            0.0,
            x["out_w"],
            x["out_b"],
            key_padding_mask=tensor(padding) if options["padding"] else None,
            need_weights=options["weights"],
            attn_mask=tensor(mask) if options["mask"] else None,
            average_attn_weights=options["average"],
        )

    both(call, *arrays.values())


def test_multi_head_attention_of_other_sizes_and_static_keys():
    inputs = numbers(3, 4), numbers(5, 6), numbers(5, 2), numbers(2, 5, 2), numbers(2, 5, 2)
    weights = numbers(4, 4), numbers(4, 6), numbers(4, 2), numbers(4, 4)

    def call(M, q, k, v, static_k, static_v, wq, wk, wv, out, static=False):
        extra = {"static_k": static_k, "static_v": static_v} if static else {}
        return M.multi_head_attention_forward(
            q, k, v, 4, 2, None, None, None, None, False, 0.0, out, None,
            use_separate_proj_weight=True, q_proj_weight=wq, k_proj_weight=wk, v_proj_weight=wv,
            **extra,
        )  # fmt: skip

    both(call, *inputs, *weights)
    both(lambda M, *x: call(M, *x, static=True), *inputs, *weights)
    with pytest.raises(AssertionError, match="not divisible"):
        F.multi_head_attention_forward(
            *[lg.ones(3, 4)] * 3, 4, 3, *[None] * 4, False, 0.0, None, None
        )


# -------------------------------------------------------------------------------------------- ctc


@pytest.mark.parametrize("one_dim", [False, True])
@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_loss(one_dim, blank):
    labels = [c for c in range(5) if c != blank]
    targets = rng.choice(labels, (4, 6))
    lengths = np.array([6, 3, 0, 1])
    flat = np.concatenate([row[:n] for row, n in zip(targets, lengths, strict=True)])
    given = flat if one_dim else targets
    sizes = np.array([8, 7, 4, 0])  # the last is too short for its target

    def call(M, x, targets, sizes, lengths):
        scores = M.log_softmax(x, -1)
        return M.ctc_loss(scores, targets, sizes, lengths, blank, "mean", zero_infinity=True)

    both(call, numbers(8, 4, 5), given, sizes, lengths)


def test_ctc_loss_can_be_differentiated_once():
    x = lg.tensor(numbers(6, 2, 4), requires_grad=True)
    loss = F.ctc_loss(x, lg.tensor([[1, 2], [3, 3]]), (6, 6), (2, 2))
    (g,) = lg.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(RuntimeError, match="not implemented"):
        g.sum().backward()
    with pytest.raises(RuntimeError, match="at most 6"):
        F.ctc_loss(x, lg.tensor([[1, 2], [3, 3]]), [7, 6], [2, 2]).item()


# -------------------------------------------------------------------------------------- embedding


@pytest.mark.parametrize("options", [{"scale_grad_by_freq": True}, {"padding_idx": -2}], ids=str)
def test_embedding_gradients(options):
    both(
        lambda M, i, w: M.embedding(i, w, **options),
        np.array([[1, 3, 1], [0, 1, 3]]),
        numbers(5, 2),
    )


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    index, starts = np.array([1, 3, 1, 0, 4, 4, 2]), np.array([0, 3, 3, 5])
    for options in ({}, {"padding_idx": 4}, {"max_norm": 1.0}):
        both(
            lambda M, i, s, w, options=options: M.embedding_bag(
                i, w.detach() * 1 if "max_norm" in options else w, s, mode=mode, **options
            ),
            index,
            starts,
            numbers(5, 3),
            grad="max_norm" not in options,
        )


def test_embedding_bag_scaled_by_frequency():
    # PyTorch's own counts belong to other rows here; so this is compared with `embedding`.
    index, w = lg.tensor([[1, 3, 1], [0, 4, 4]]), lg.tensor(numbers(5, 3), requires_grad=True)
    F.embedding_bag(index, w, mode="sum", scale_grad_by_freq=True).square().sum().backward()
    found, w.grad = w.grad, None
    F.embedding(index, w, scale_grad_by_freq=True).sum(1).square().sum().backward()
    np.testing.assert_allclose(found.numpy(), w.grad.numpy())


# ----------------------------------------------------------------------------------------- losses


LOSSES = ["mse_loss", "l1_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits",
          "poisson_nll_loss", "soft_margin_loss", "hinge_embedding_loss"]  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_old_arguments_of_losses(name):
    x, t = numbers(3, 4), np.sign(numbers(3, 4))
    for options in ({"size_average": False}, {"reduce": False}, {"size_average": True}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            both(lambda M, x, t, o=options: getattr(M, name)(x, t, **o), x, t, grad=False)
        with pytest.warns(UserWarning, match="please use reduction="):
            getattr(F, name)(lg.tensor(x), lg.tensor(t), **options)


def test_weights_of_losses():
    x, t, w = numbers(3, 4), numbers(3, 4), rng.random((3, 4))
    for name in ("mse_loss", "l1_loss", "huber_loss"):
        both(lambda M, x, t, w, name=name: getattr(M, name)(x, t, weight=w), x, t, w)
    p = rng.random((3, 4))
    both(lambda M, x, t, w: M.binary_cross_entropy(x, t, w.detach()), rng.random((3, 4)), p, w)
    both(lambda M, x, w: M.multilabel_soft_margin_loss(x, (x > 0).to(x.dtype), w), x, w[0])
    both(lambda M, x, p, w: M.cross_entropy(x, p, w, label_smoothing=0.1), x, p, w[0])
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'weight'"):
        F.nll_loss(lg.tensor(x), lg.tensor([0, 1, 2]), lg.ones(4, requires_grad=True))


def test_gumbel_softmax_and_dropouts_draw_what_they_should():
    lg.manual_seed(0)
    y = F.gumbel_softmax(lg.tensor(np.log([[0.7, 0.2, 0.1]])).expand(4000, 3), hard=True)
    np.testing.assert_allclose(y.mean(0).numpy(), [0.7, 0.2, 0.1], atol=0.03)
    np.testing.assert_allclose(y.sum(1).numpy(), 1.0)
    x = lg.randn(2000, 50, requires_grad=True)
    y = F.alpha_dropout(x, 0.3, training=True)
    assert abs(y.mean().item()) < 0.02
    assert abs(y.std().item() - 1) < 0.02
    y.sum().backward()
    assert set(np.round(np.unique(x.grad.numpy()), 5)) == {0.0, np.float32(0.86095)}
    for dropped in (F.dropout1d(lg.ones(50, 20, 8)), F.dropout3d(lg.ones(20, 2, 2, 2))):
        rows = dropped.reshape(-1, dropped.shape[-1] if dropped.ndim == 3 else 8).numpy()
        assert set(np.unique(rows)) == {0.0, 2.0}
        assert (rows == rows[:, :1]).all()  # whole channels
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.alpha_dropout(x, 1.5)
