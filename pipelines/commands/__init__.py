"""The command `tracecloak`: its flags, and what each command says of what it found out."""
