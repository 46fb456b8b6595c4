"""Random programs run by PyTorch and by livegrad, compared tensor by tensor.

    generate   a program, as lines of Python, by running it in PyTorch while it is written
    statements what lines there are, with a module for each kind
    run        the lines side by side in both; the first difference
    sides      a library and the variables of a program
    compare    what of a tensor is compared, and how exactly
    explained  differences that are meant, each with its reason
    noise      would PyTorch itself give another value if its roundings were others?
    shrink     the shortest program that still shows a difference
    campaign   many programs, counts, and a report

`python -m tests.conformance.differential --programs 20000 --seed 0`
"""
