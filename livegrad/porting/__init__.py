"""PyTorch programs as they are: `livegrad run train.py`, `livegrad check train.py`.

How a program is run is in the package `livegrad_run`.

hook.py      an import of `torch` or `torch.x` finds our modules, in this process
names.py     which of our modules is which of torch's
launch.py    `torchrun`, for one process
blame.py     what to say of a name that is missing
checking.py  which names of torch a program uses, without running it
modules/     modules of torch that mean something else here (`torch.compiler`), or only there
"""
