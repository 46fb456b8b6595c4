"""PyTorch programs as they are: `livegrad run train.py`, `livegrad check train.py`.

hook.py      an import of `torch` or `torch.x` finds our modules, in this process
child/       ... and in the processes that it starts
names.py     which of our modules is which of torch's
running.py   a script, a module or a text is run as Python itself would run it
launch.py    `torchrun`, for one process
blame.py     what to say of a name that is missing
checking.py  which names of torch a program uses, without running it
modules/     modules of torch that mean something else here (`torch.compiler`), or only there
"""
