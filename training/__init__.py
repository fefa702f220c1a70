"""Makes the weights of the reader. Needs the train extra; not part of the installed package."""
