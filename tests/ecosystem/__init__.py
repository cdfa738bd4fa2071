"""Other libraries' functions on Tensors: samples of their calls, and the trial that each is put to."""
