"""Control flow: loops and branches, as operations inside a trace."""
