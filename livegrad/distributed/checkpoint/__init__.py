"""Checkpoints: `torch.distributed.checkpoint`, for one process. Loading runs no code."""

from __future__ import annotations

from livegrad.distributed.checkpoint import state_dict as state_dict, stateful as stateful
from livegrad.distributed.checkpoint.saving import (
    CheckpointException as CheckpointException,
    FileSystemReader as FileSystemReader,
    FileSystemWriter as FileSystemWriter,
    HuggingFaceStorageReader as HuggingFaceStorageReader,
    HuggingFaceStorageWriter as HuggingFaceStorageWriter,
    async_save as async_save,
    load as load,
    load_state_dict as load_state_dict,
    save as save,
    save_state_dict as save_state_dict,
)
