"""One folder for each paper, all with the same modules.

`settings` says what is run. `run` runs it and saves the results, `tables` prints them beside the
paper's, and `aggregate` keeps them in short in `reproduction`. Claims in words are computed by
`claims`. Other modules are named for their subject; those in PROGRAMS are commands.
"""
