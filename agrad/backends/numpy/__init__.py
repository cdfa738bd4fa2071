"""NumPy: its namespace and its memory."""
