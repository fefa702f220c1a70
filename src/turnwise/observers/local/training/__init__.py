"""Training of the local observer: from labelled conversations to a weights folder.

``turnwise train`` runs it. Nothing else in turnwise imports this package, and it alone needs the ``train`` extra.
"""
