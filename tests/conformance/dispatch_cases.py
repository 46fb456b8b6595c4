"""Tensors in scikit-learn's and SciPy's array-API dispatch: NumPy's results, but as tensors.

    SCIPY_ARRAY_API=1 python -m tests.conformance.dispatch_cases sklearn|scipy

prints how many cases agree, and each that does not. Both libraries ask a tensor for its namespace
and compute with that.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import livegrad as lg

Case = tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30, 5)), RNG.standard_normal((20, 5))
CLASSES, GUESSES = RNG.integers(0, 3, 30), RNG.integers(0, 3, 30)
YES, SCORES = RNG.integers(0, 2, 30), RNG.random(30)
SHARES = RNG.dirichlet(np.ones(3), 30)
POSITIVE, NEAR = RNG.random(30) * 0.8 + 0.1, RNG.random(30) * 0.8 + 0.1
GAPS = np.where(X > 1.5, np.nan, X)


def case(function: Any, *args: Any, name: str = "", **options: Any) -> Case:
    return name or getattr(function, "__name__", "?"), function, args, options


def tensors(x: Any) -> Any:
    """Arguments with tensors in place of arrays."""
    return lg.tensor(x) if isinstance(x, np.ndarray) else x


def flat(x: Any) -> list[Any]:
    """All results: those of tuples, of named ones, and of result objects."""
    if isinstance(x, tuple | list):
        return [y for part in x for y in flat(part)]
    if type(x).__name__.endswith("Result"):
        return flat(list(vars(x).values()))
    return [x]


def agree(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """The results for tensors are tensors, and have the values of those for arrays."""
    wanted = flat(function(*args, **options))
    named = {key: tensors(value) for key, value in options.items()}
    got = flat(function(*[tensors(x) for x in args], **named))
    assert len(got) == len(wanted), f"{len(got)} results, not {len(wanted)}"
    for a, b in zip(got, wanted, strict=True):
        if isinstance(b, np.ndarray):
            assert type(a) is lg.Tensor, f"a {type(a).__name__} for an array"
            assert a.numpy().dtype == b.dtype, f"{a.dtype} for {b.dtype}"
            assert tuple(a.shape) == b.shape, f"shape {a.shape} for {b.shape}"
        values = a.numpy() if isinstance(a, lg.Tensor) else a
        if isinstance(b, np.ndarray | np.generic | float | int):
            # Iterative estimators stop within their own tolerance.
            np.testing.assert_allclose(values, b, rtol=1e-6, atol=1e-9)


# ---------------------------------------------------------------------------------- scikit-learn


def sklearn_cases() -> Iterator[Case]:
    """Functions and estimators of scikit-learn 1.9 that compute with the namespace of arrays."""
    from sklearn import metrics

    for name in """accuracy_score balanced_accuracy_score cohen_kappa_score confusion_matrix
            hamming_loss multilabel_confusion_matrix zero_one_loss adjusted_rand_score""".split():
        yield case(getattr(metrics, name), CLASSES, GUESSES)
    for name in "f1_score precision_score recall_score jaccard_score".split():
        for average in ("macro", "micro", "weighted", None):
            yield case(getattr(metrics, name), CLASSES, GUESSES, average=average)
        yield case(getattr(metrics, name), YES, SCORES > 0.5)
    for name in """roc_curve roc_auc_score precision_recall_curve average_precision_score
            det_curve brier_score_loss d2_brier_score""".split():
        yield case(getattr(metrics, name), YES, SCORES)
    for name in "log_loss d2_log_loss_score brier_score_loss".split():
        yield case(getattr(metrics, name), CLASSES, SHARES)
    for name in """mean_squared_error mean_absolute_error mean_absolute_percentage_error
            mean_squared_log_error root_mean_squared_error root_mean_squared_log_error
            mean_pinball_loss mean_tweedie_deviance mean_gamma_deviance mean_poisson_deviance
            r2_score explained_variance_score d2_tweedie_score d2_absolute_error_score
            median_absolute_error""".split():
        yield case(getattr(metrics, name), POSITIVE, NEAR)
        yield case(getattr(metrics, name), POSITIVE, NEAR, sample_weight=SCORES)
    yield case(metrics.max_error, POSITIVE, NEAR)
    yield case(metrics.calinski_harabasz_score, X, CLASSES)
    yield case(metrics.davies_bouldin_score, X, CLASSES)
    for name in """additive_chi2_kernel chi2_kernel cosine_similarity cosine_distances
            euclidean_distances laplacian_kernel linear_kernel manhattan_distances
            polynomial_kernel rbf_kernel sigmoid_kernel""".split():
        pair = (np.abs(X), np.abs(Y)) if "chi2" in name else (X, Y)
        yield case(getattr(metrics.pairwise, name), *pair)
        yield case(getattr(metrics.pairwise, name), pair[0], name=f"{name} of one")
    yield case(metrics.pairwise_distances_argmin, X, Y)
    yield case(metrics.pairwise.paired_cosine_distances, X[:20], Y)
    yield from estimator_cases()
    yield from selection_cases()


def fitted(make: Callable[[], Any], *wanted: str) -> Callable[..., Any]:
    """A function of data: an estimator's methods on it, and attributes, once it was fitted."""

    def results(*data: Any) -> list[Any]:
        estimator = make().fit(*data)
        found = [getattr(estimator, name) for name in wanted]
        return [x(data[0]) if callable(x) else x for x in found]

    return results


def estimator_cases() -> Iterator[Case]:
    from sklearn import (
        decomposition,
        discriminant_analysis,
        linear_model,
        naive_bayes,
        preprocessing as prepare,
    )
    from sklearn.kernel_approximation import Nystroem
    from sklearn.mixture import GaussianMixture

    for scaler in (prepare.MaxAbsScaler, prepare.MinMaxScaler, prepare.StandardScaler):
        for data in (X, GAPS):
            yield case(fitted(scaler, "transform"), data, name=scaler.__name__)

        def back(x: Any, scaler: Any = scaler) -> Any:
            there = scaler().fit(x)
            return there.inverse_transform(there.transform(x))

        yield case(back, X, name=f"{scaler.__name__} there and back")
    for norm in ("l1", "l2", "max"):
        yield case(prepare.normalize, X, norm=norm)
    for make in (prepare.Normalizer, prepare.Binarizer, prepare.PolynomialFeatures):
        yield case(fitted(make, "transform"), X, name=make.__name__)
    yield case(fitted(prepare.KernelCenterer, "transform"), X @ X.T, name="KernelCenterer")
    for encode in (prepare.LabelEncoder, prepare.LabelBinarizer):
        yield case(fitted(encode, "transform", "classes_"), CLASSES, name=encode.__name__)

    parts = "transform components_ explained_variance_ singular_values_ mean_ score_samples".split()
    for solver in ("full", "covariance_eigh"):
        for size in (3, 0.8, "mle"):
            pca = lambda: decomposition.PCA(size, svd_solver=solver)  # noqa: B023
            yield case(fitted(pca, *parts), X, name=f"PCA {solver} {size}")
    lda = discriminant_analysis.LinearDiscriminantAnalysis
    probable = ("predict", "predict_proba")
    yield case(fitted(lda, *probable, "transform", "coef_", "means_"), X, CLASSES, name="LDA")
    yield case(fitted(lda, *probable), X, YES, name="LDA of two")
    ridge = lambda: linear_model.Ridge(solver="svd")
    line = ("predict", "coef_", "intercept_")
    yield case(fitted(ridge, *line), X, POSITIVE, name="Ridge")
    yield case(fitted(ridge, *line), X, SHARES, name="Ridge of several")
    yield case(fitted(linear_model.RidgeCV, *line, "alpha_"), X, POSITIVE, name="RidgeCV")
    yield case(
        fitted(lambda: linear_model.RidgeClassifier(solver="svd"), "predict", "decision_function"),
        X, CLASSES, name="RidgeClassifier",
    )  # fmt: skip
    yield case(fitted(naive_bayes.GaussianNB, *probable, "theta_"), X, CLASSES, name="GaussianNB")
    for kind in ("full", "tied", "diag", "spherical"):
        options = {"covariance_type": kind, "init_params": "random_from_data", "random_state": 0}
        mixture = lambda: GaussianMixture(2, **options)  # noqa: B023
        yield case(fitted(mixture, *probable, "means_"), X, name=f"GaussianMixture {kind}")
    nystroem = lambda: Nystroem(n_components=10, random_state=0)
    yield case(fitted(nystroem, "transform"), X, name="Nystroem")


def selection_cases() -> Iterator[Case]:
    from sklearn.decomposition import PCA
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV, cross_val_predict, train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import check_array, resample, shuffle
    from sklearn.utils.extmath import randomized_svd

    ridge = Ridge(solver="svd")
    yield case(train_test_split, X, CLASSES, random_state=0)
    yield case(train_test_split, X, CLASSES, random_state=0, stratify=CLASSES)
    yield case(lambda x, y: cross_val_predict(ridge, x, y, cv=3), X, POSITIVE, name="cross_val")
    search = lambda: GridSearchCV(ridge, {"alpha": [0.1, 1.0]}, cv=3)
    yield case(fitted(search, "predict"), X, POSITIVE, name="GridSearchCV")
    line = lambda: make_pipeline(StandardScaler(), PCA(3, svd_solver="full"), ridge)
    yield case(fitted(line, "predict"), X, POSITIVE, name="pipeline")
    yield case(check_array, X)
    yield case(resample, X, random_state=0)
    yield case(shuffle, X, random_state=0)
    options = {"random_state": 0, "power_iteration_normalizer": "QR"}
    yield case(randomized_svd, X, 3, **options)


# ----------------------------------------------------------------------------------------- SciPy


def scipy_cases() -> Iterator[Case]:
    """Functions of SciPy 1.17 that compute with the namespace of their arguments."""
    yield from special_cases()
    yield from statistics_cases()
    yield from fourier_and_signal_cases()
    yield from cluster_cases()
    yield from calculus_cases()


def special_cases() -> Iterator[Case]:
    from scipy import special

    for name in """betaln chdtr entr erf erfc erfinv exp1 expit gammaincc gammaincinv gammaln i0
            i0e i1 j0 kl_div log_ndtr logit ndtr ndtri psi rel_entr sindg stdtr xlogy
            zeta""".split():
        function = getattr(special, name)
        two = name in "betaln chdtr gammaincc gammaincinv kl_div rel_entr stdtr xlogy zeta".split()
        args = (POSITIVE + (name == "zeta"), NEAR) if two else (POSITIVE,)
        yield case(function, *args, name=f"special.{name}")
    yield case(special.betainc, POSITIVE, NEAR, SCORES, name="special.betainc")
    for name in ("logsumexp", "softmax", "log_softmax"):
        yield case(getattr(special, name), X, axis=1)
    yield case(special.logsumexp, X, axis=0, b=np.abs(X), keepdims=True)
    yield case(special.multigammaln, POSITIVE + 5, 3)


def statistics_cases() -> Iterator[Case]:
    from scipy import stats

    for name in """describe kurtosis kurtosistest jarque_bera moment normaltest rankdata sem skew
            skewtest tmax tmean tmin tstd tvar variation zscore iqr circmean circstd circvar
            differential_entropy mode""".split():
        options = {"order": 3} if name == "moment" else {}
        yield case(getattr(stats, name), X, **options)
    for name in "gmean hmean gzscore entropy".split():
        yield case(getattr(stats, name), np.abs(X), axis=1)
    yield case(stats.pmean, np.abs(X), 2)
    yield case(stats.trim_mean, X, 0.1)
    yield case(stats.quantile, X, 0.3)
    yield case(stats.ttest_1samp, X, 0.5)
    yield case(stats.zmap, X, Y)
    yield case(stats.directional_stats, X)
    for name in "pearsonr ttest_ind ttest_rel mannwhitneyu brunnermunzel chatterjeexi".split():
        yield case(getattr(stats, name), POSITIVE, NEAR)
    for name in "bartlett f_oneway kruskal levene".split():
        yield case(getattr(stats, name), POSITIVE, NEAR, SCORES)
    yield case(stats.combine_pvalues, SCORES)
    yield case(stats.false_discovery_control, SCORES)
    yield case(stats.chisquare, POSITIVE, POSITIVE[::-1].copy())


def fourier_and_signal_cases() -> Iterator[Case]:
    from scipy import fft, signal

    for name in "fft ifft rfft irfft hfft ihfft".split():
        yield case(getattr(fft, name), X)
        yield case(getattr(fft, name), X, n=7, axis=0, norm="ortho")
    for name in "fft2 fftn ifftn rfftn irfftn dct idct dst idst dctn fftshift ifftshift".split():
        yield case(getattr(fft, name), X, name=f"fft.{name}")
    yield case(fft.fht, POSITIVE, 0.1, 0.5)
    short = POSITIVE[:3]
    for name, args in {
        "convolve": (X, Y),
        "correlate": (POSITIVE, SCORES),
        "detrend": (X,),
        "envelope": (POSITIVE,),
        "fftconvolve": (X, Y),
        "filtfilt": (short, np.array([1.0, 0.1, 0.1]), POSITIVE),
        "freqz": (short,),
        "hilbert": (POSITIVE,),
        "lfilter": (short, NEAR[:3], POSITIVE),
        "oaconvolve": (X, Y),
        "resample": (POSITIVE, 10),
        "resample_poly": (POSITIVE, 2, 3),
        "savgol_filter": (POSITIVE, 5, 2),
        "tf2zpk": (short, NEAR[:3]),
        "upfirdn": (short, POSITIVE),
        "vectorstrength": (POSITIVE, 0.3),
        "wiener": (POSITIVE, 3),
    }.items():
        yield case(getattr(signal, name), *args, name=f"signal.{name}")
    yield case(signal.convolve, X, Y, method="direct")
    for name in "blackman hann kaiser taylor tukey".split():

        def window(x: Any, name: str = name) -> Any:
            more = (5.0,) if name == "kaiser" else ()
            return getattr(signal.windows, name)(8, *more, xp=x.__array_namespace__())

        yield case(window, X, name=f"windows.{name}")


def cluster_cases() -> Iterator[Case]:
    from scipy.cluster import hierarchy, vq
    from scipy.spatial.transform import RigidTransform, Rotation

    yield case(vq.whiten, X)
    yield case(vq.vq, X, Y)
    yield case(lambda x: vq.kmeans(x, x[:3]), X, name="kmeans")
    yield case(lambda x: vq.kmeans2(x, 3, rng=1, minit="points"), X, name="kmeans2")
    for method in "average complete median single ward".split():
        yield case(getattr(hierarchy, method), X)
    tree = hierarchy.ward(X)
    for name in "cophenet cut_tree inconsistent is_monotonic leaves_list maxdists".split():
        yield case(getattr(hierarchy, name), tree)
    yield case(hierarchy.fcluster, tree, 2.0)

    def turned(q: Any, points: Any) -> list[Any]:
        r = Rotation.from_quat(q)
        euler, mean = r.as_euler("xyz"), r.mean().as_quat()
        moved = RigidTransform.from_components(points, r)
        parts = [r.as_matrix(), r.as_rotvec(), euler, mean, r.inv().as_quat(), (r * r).as_quat()]
        return [*parts, r.apply(points), r[1].as_quat(), moved.apply(points), moved.as_matrix()]

    yield case(turned, X[:, :4], X[:, :3], name="Rotation")


def calculus_cases() -> Iterator[Case]:
    from scipy import differentiate, integrate, interpolate, ndimage, optimize
    from scipy.optimize import elementwise

    for name in "trapezoid cumulative_trapezoid cumulative_simpson".split():
        yield case(getattr(integrate, name), X, axis=0)
        yield case(getattr(integrate, name), POSITIVE, x=np.sort(SCORES))
    yield case(integrate.romb, POSITIVE[:17])
    low, high = np.zeros(2), np.ones(2)

    def volume(a: Any, b: Any) -> Any:
        square = lambda x: x.__array_namespace__().sum(x * x, axis=-1)
        return integrate.cubature(square, a, b).estimate

    yield case(volume, low, high, name="cubature")
    area = lambda a, b: integrate.tanhsinh(lambda x: x * x, a, b).integral
    yield case(area, low, high, name="tanhsinh")
    series = lambda a, b: integrate.nsum(lambda x: 1 / x**2, a, b).sum
    yield case(series, high, high * 9, name="nsum")
    root = lambda a, b: elementwise.find_root(lambda x: x * x - 0.5, (a, b)).x
    yield case(root, low, high, name="find_root")
    slope = lambda x: differentiate.derivative(lambda v: v**3, x).df
    yield case(slope, POSITIVE, name="derivative")
    curve = lambda x: differentiate.hessian(lambda v: (v**2).sum(axis=0), x).ddf
    yield case(curve, POSITIVE[:3], name="hessian")
    yield case(optimize.rosen, POSITIVE)
    yield case(optimize.rosen_der, POSITIVE)
    spline = lambda x, y, at: interpolate.CubicSpline(x, y)(at)
    yield case(spline, np.sort(POSITIVE), NEAR, SCORES, name="CubicSpline")
    yield case(ndimage.gaussian_filter, X, 1.0)
    yield case(ndimage.median_filter, X, 3)


# --------------------------------------------------------------------------------------- command


def main(library: str) -> int:
    warnings.simplefilter("ignore")
    # What the libraries make without naming a dtype is then of NumPy's default one.
    lg.set_default_dtype(lg.float64)
    failed = count = 0
    cases = scipy_cases()
    if library == "sklearn":
        import sklearn

        sklearn.set_config(array_api_dispatch=True)
        cases = sklearn_cases()
    for name, function, args, options in cases:
        count += 1
        try:
            agree(function, args, options)
        except Exception as error:
            failed += 1
            print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
    print(f"{count - failed} of {count} agree")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
