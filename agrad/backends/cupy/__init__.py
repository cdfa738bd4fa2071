"""CuPy: its namespace, devices and streams."""
