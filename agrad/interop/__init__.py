"""Other libraries' functions on Tensors: answers to their protocols.

Nothing here has a derivative rule of its own: every answer is a composition of ``agrad``'s functions.
"""
