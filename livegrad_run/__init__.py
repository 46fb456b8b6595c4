"""What `livegrad run` does before a program asks for torch.

It stands beside the package `livegrad` because that one is imported as a whole, which a program
without torch should not wait for.

command.py   the command `livegrad`
running.py   a script, a module or a text is run as Python itself would run it
child/       `import torch` finds livegrad, here and in the processes that a program starts
"""
