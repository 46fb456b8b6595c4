"""Special functions of one element: gamma, error functions, Bessel's, polynomials."""
