"""One training step per file, written once for livegrad and torch, and once for JAX."""

from benchmarks.workloads import counter, linear, lstm, mlp, networks, policy
from benchmarks.workloads.base import Workload

ALL: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        linear.WORKLOAD,
        policy.WORKLOAD,
        counter.WORKLOAD,
        mlp.WORKLOAD,
        lstm.WORKLOAD,
        *networks.WORKLOADS,
    )
}
