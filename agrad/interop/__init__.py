"""What lets other libraries' functions take Tensors: their protocols answered with the face's own functions.

Nothing here has a derivative rule of its own: every answer is a composition of ``agrad``'s functions.
"""
