"""The explorer: trajectories of a store in a browser, on this machine. Extra ``[explorer]``.

`data` holds what is shown, without a web page; `views` shows it, one file for each view.
"""
