"""One value per element: arithmetic, comparison, logic, powers, parts of complex numbers."""
