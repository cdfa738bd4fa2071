"""The functional face: transforms that take a function and give the function of its derivative."""
