"""Linear algebra: factorisations, solving, norms and functions of matrices.

common        checks, transposes, results packed into one vector, LAPACK matrix by matrix
triangular    systems with triangular matrices
cholesky, lu, ldl, orthogonal (QR and reflectors)   factors, and systems solved with them
solving       solve, inv, and tensors taken for matrices
determinants  det, slogdet, logdet
spectral      eigenvalues; singular: singular values, pinv, lstsq, rank
norms         norms of vectors and matrices, condition
functions     powers, exponential, chains of products, and smaller ones
lowrank       approximations by random projections
toplevel      older names and signatures

LAPACK is called through NumPy and SciPy by host ops, on views of the plan's memory; gradients are
written with recorded ops. The public namespace is livegrad/linalg.py.
"""
