"""The explorer: trajectories of a store in a browser, on this machine. Extra ``[explorer]``.

`data` holds what is shown, without a web page; `views` shows it, one file a view. What all views share is here:
who may look (`access`), the page around a view (`frame`), the views there are (`pages`), markup that can't carry
markup of others (`markup`), graphs and curves (`graphs`, `curves`).
"""
