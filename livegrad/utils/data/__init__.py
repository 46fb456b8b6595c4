"""Datasets, samplers and the DataLoader: what stands between stored data and a training loop."""

from __future__ import annotations

from livegrad.utils.data.bucketing import LengthBucketSampler as LengthBucketSampler
from livegrad.utils.data.collate import (
    default_collate as default_collate,
    default_convert as default_convert,
)
from livegrad.utils.data.dataloader import DataLoader as DataLoader
from livegrad.utils.data.datapipes import (
    IterDataPipe as IterDataPipe,
    MapDataPipe as MapDataPipe,
    functional_datapipe as functional_datapipe,
)
from livegrad.utils.data.dataset import (
    ChainDataset as ChainDataset,
    ConcatDataset as ConcatDataset,
    Dataset as Dataset,
    IterableDataset as IterableDataset,
    StackDataset as StackDataset,
    Subset as Subset,
    TensorDataset as TensorDataset,
    random_split as random_split,
)
from livegrad.utils.data.distributed import DistributedSampler as DistributedSampler
from livegrad.utils.data.info import (
    WorkerInfo as WorkerInfo,
    get_worker_info as get_worker_info,
)
from livegrad.utils.data.sampler import (
    BatchSampler as BatchSampler,
    RandomSampler as RandomSampler,
    Sampler as Sampler,
    SequentialSampler as SequentialSampler,
    SubsetRandomSampler as SubsetRandomSampler,
    WeightedRandomSampler as WeightedRandomSampler,
)
